"""Ops written in other ways than the one in which they are printed, and result types that follow from operands."""

from __future__ import annotations

import pytest
from document_programs import around
from one_core import compile_program

from optimizer.errors import FormatError, GraphError
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.source.rules import check_source
from optimizer.kernels.tensix.source.text import parse, text_of
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.witness.whole_tensors import witness

INPUTS = {"a": (2, 3), "b": (2, 3), "s": (1, 1)}


def read(body: str) -> list[str]:
    """The lines of the compute thread between the first reserve and the first pop, as printed."""
    text = text_of(parse(around(body, INPUTS, (2, 3))))
    thread = text.split("ttl.datamovement_thread")[0]
    lines = thread.split("ttl.cb_reserve")[1].split("\n")[1:]
    return [line.strip() for line in lines[: next(n for n, line in enumerate(lines) if "ttl.cb_pop" in line)]]


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("%r = ttl.block_add %a_blk, %b_blk", "%r = ttl.add(%a_blk, %b_blk) : block<2x3xbf16>"),
        ("%r = ttl.math.add(%a_blk, %b_blk)", "%r = ttl.add(%a_blk, %b_blk) : block<2x3xbf16>"),
        ("%r = ttl.sigmoid %a_blk", "%r = ttl.sigmoid(%a_blk) : block<2x3xbf16>"),
        (
            "%r = ttl.block_reduce_sum(%a_blk, %s_blk) {axis = 0}",
            "%r = ttl.reduce_sum_col(%a_blk, %s_blk) : block<1x3xbf16>",
        ),
        (
            "%r = ttl.math.reduce_max %a_blk, %s_blk {axis = [0, 1]}",
            "%r = ttl.reduce_max_scalar(%a_blk, %s_blk) : block<1x1xbf16>",
        ),
        ("%r = ttl.block_bcast %s_blk {axis = 0}", "%r = ttl.bcast_row(%s_blk) : block<1x1xbf16>"),
        ("%r = ttl.math.broadcast %a_blk {axis = 1}", "%r = ttl.bcast_col(%a_blk) : block<2x3xbf16>"),
        ("ttl.block_store %o_blk, %a_blk", "ttl.store(%a_blk, %o_blk)"),
    ],
)
def test_a_spelling_is_read_as_what_it_means(written: str, printed: str) -> None:
    assert read(written) == [printed]


def test_a_maximum_without_a_scaler_gets_ones() -> None:
    assert read("%r = ttl.block_reduce_max %a_blk {axis = 1}") == [
        "%r.ones = ttl.fill {value = 1.0} : block<1x1xbf16>",
        "%r = ttl.reduce_max_row(%a_blk, %r.ones) : block<2x1xbf16>",
    ]


def test_what_a_region_gives_out_is_stored() -> None:
    region = "ttl.compute_region ins(%a_blk) outs(%o_blk) {\n^bb0(%x):\n%y = ttl.exp %x\nttl.yield %y\n}"
    assert read(f"{region} {{keep_in_dst = true}}") == [
        "%o_blk.value = ttl.compute_region(%a_blk) {keep_in_dst = true} : block<2x3xbf16> {",
        "^(%x: block<2x3xbf16>):",
        "%y = ttl.exp(%x) : block<2x3xbf16>",
        "ttl.yield(%y)",
        "}",
        "ttl.store(%o_blk.value, %o_blk)",
    ]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("%r = ttl.block_reduce_sum %a_blk, %s_blk", "ttl.block_reduce_sum lacks attribute 'axis'"),
        ("%r = ttl.block_bcast %s_blk {axis = 2}", "ttl.block_bcast lacks attribute 'axis'"),
        ("%r = ttl.fill {value = 1.0}", "the result type of ttl.fill does not follow"),
        ("%r = ttl.matmul %a_blk, %b_blk", "operands block<2x3xbf16>, block<2x3xbf16> do not fit"),
        ("%r = ttl.typecast %a_blk {source = 5, target = 1e300}", "'target' of ttl.typecast is no number of an"),
        ("%r = ttl.cb_wait", "ttl.cb_wait has 1 results and 0 result types"),
        ("%q, %r = ttl.exp %a_blk", "ttl.exp has 2 results and 1 result types"),
        ("%r = ttl.block_bogus %a_blk", "unknown kernel op 'ttl.block_bogus'"),
        ("%r = ttl.exp %nothing", "%nothing is not defined here"),
        ("ttl.compute_region ins(%a_blk) outs(%o_blk) {\n^(%x, %y):\nttl.yield %x\n}", "%y has no type"),
    ],
)
def test_what_is_left_open_is_refused_with_its_place(written: str, message: str) -> None:
    with pytest.raises(FormatError, match=r"line \d+, column \d+") as caught:
        read(written)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", sorted(op.name for op in TILE_OPS.values() if op.arity == 2 and op.elementwise))
def test_every_binary_op_has_the_documents_names(name: str) -> None:
    lines = [read(f"%r = ttl.{prefix}{name} %a_blk, %b_blk") for prefix in ("", "block_", "math.")]
    assert lines[0] == lines[1] == lines[2]


# -- programs -------------------------------------------------------------------------------------------
def created(attributes: str, result_type: str = "") -> Op:
    return parse(f"%cb = ttl.create_cb {{{attributes}}}{result_type}")


def test_attributes_and_type_of_a_buffer_agree() -> None:
    written = "shape = [1, 2], element_type = tile<bf16>, buffer_factor = 3, buffer_index = 4"
    assert text_of(created(written)) == "%cb = ttl.bind_cb {index = 4} : cb<1x2xbf16, 3>\n"
    assert created(written, " : cb<1x2xbf16, 3>") == created(written)
    with pytest.raises(FormatError, match=r"says cb<1x2xbf16, 3> by its attributes and cb<2x2xbf16, 2> by its type"):
        created(written, " : cb<2x2xbf16, 2>")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("shape = [2], element_type = tile<bf16>", "'shape' of a circular buffer is rows and columns"),
        ("shape = [2, 2], element_type = tile<bf16>, buffer_factor = true", "'buffer_factor' of a circular buffer"),
        ('shape = [2, 2], element_type = "tile"', "'element_type' of a circular buffer is a tile type, not 'tile'"),
        ('memory_space = "DRAM"', "circular buffers lie in L1, not in DRAM"),
    ],
)
def test_a_buffer_that_contradicts_itself_is_refused(attributes: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        created(attributes)


PROGRAM = """ttl.program @p {grid = [1, 1]ATTRS} {
  ^(%x: tensor<4x2xbf16>, %y: tensor<4x2xbf16>ARGS):
  %a = ttl.bind_cb : cb<2x2xbf16, 2>
  %b = ttl.bind_cb {index = 0BIND} : cb<2x2xbf16, 2>
  ttl.compute_thread @math {
    %in = ttl.cb_wait %a
    %out = ttl.cb_reserve %b
    ttl.block_compute {
      %e = ttl.math.exp %in
      ttl.store(%e, %out)
    }
    ttl.cb_pop %in
    ttl.cb_push %out
  }
  ttl.datamovement_thread @read {processor = "reader"} {
    %zero = ttl.constant {value = 0}
    %room = ttl.cb_reserve %a
    %come = ttl.copy_in(%x, ROW, %zero, %room)
    ttl.transfer_wait %come
    ttl.cb_push %room
  }
  ttl.datamovement_thread @write {processor = "writer"} {
    %none = ttl.constant {value = 0}
    %made = ttl.cb_wait %b
    %go = ttl.copy_out(%made, %y, OTHER, %none)
    ttl.transfer_wait %go
    ttl.cb_pop %made
  }
}
"""


def program(attrs: str = "", args: str = "", bind: str = "", row: str = "") -> str:
    filled = PROGRAM.replace("ATTRS", attrs).replace("ARGS", args).replace("BIND", bind)
    return filled.replace("ROW", row or "%zero").replace("OTHER", row or "%none")


def test_buffers_without_a_number_get_the_lowest_free_one() -> None:
    binds = [op.integer("index") for op in parse(program()).body.ops if op.name == "ttl.bind_cb"]
    assert binds == [1, 0]


def test_a_block_compute_joins_its_thread() -> None:
    given = parse(program())
    assert parse(text_of(given)) == given
    assert "ttl.block_compute" in [op.name for op in walk(given)]
    assert witness(given, KernelOptions(), execute_cpp=False).agrees
    stages: dict[str, Op] = {}
    lower(given, KernelOptions(), stages.__setitem__)
    assert "ttl.block_compute" not in [op.name for op in walk(stages["inline-regions"])]


def test_a_block_compute_holds_no_loop() -> None:
    loop = "ttl.block_compute {\n ttl.for {lower = 0, upper = 1, step = 1} {\n ^(%i: index):\n }\n"
    with pytest.raises(GraphError, match=r"does not stand in a ttl\.block_compute"):
        check_source(parse(program().replace("ttl.block_compute {", loop)))


def test_a_constant_of_the_kernel_is_in_every_thread_that_reads_it() -> None:
    text = program(", compile_time_args = [2], compile_time_values = [2]", ", %row: index", row="%row")
    given = parse(text)
    assert [str(v.type) for v in given.body.args] == ["tensor<4x2xbf16>"] * 2
    constants = {op.result.name: op.integer("value") for op in walk(given) if op.name == "ttl.constant"}
    assert {name: n for name, n in constants.items() if name.startswith("row")} == {"row.3": 2, "row.4": 2}
    assert "(r_0 * 2 + 4 + c_0, x," in compile_program(given)[1].text


@pytest.mark.parametrize(
    ("attrs", "args", "message"),
    [
        (", compile_time_args = [2]", ", %n: index", "compile_time_values has a number for each"),
        ("", ", %n: index", "compile_time_args names the arguments that are indices"),
        (", compile_time_args = [0], compile_time_values = [1]", "", r"indices \(\[\]\)"),
        (', compile_time_args = "2"', ", %n: index", "'compile_time_args' is no list of whole numbers"),
        (", tiled = false", "", "row-major tensors are not read"),
        (', memory_space = "DST"', "", "tensors lie in L1 or DRAM, not in DST"),
    ],
)
def test_a_program_that_contradicts_itself_is_refused(attrs: str, args: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        parse(program(attrs, args))


# -- placement ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("attrs", "bind"),
    [
        (", block_factors = [[2, 2], [2, 2]]", ""),
        ("", ", page_size = 2048"),
        ("", ", core_ranges = [[0, 0, 3, 0]]"),
    ],
)
def test_placement_that_fits_is_taken(attrs: str, bind: str) -> None:
    check_source(parse(program(attrs, bind=bind)))


@pytest.mark.parametrize(
    ("attrs", "bind", "message"),
    [
        (", block_factors = [[2, 2]]", "", "'block_factors' is of 1 tensors, the program has 2"),
        (", block_factors = [[2, 2], [2]]", "", "rows and columns of tiles for each tensor"),
        (", block_factors = [2, 2]", "", "rows and columns of tiles for each tensor"),
        ("", ", page_size = 1024", "pages of %b have 1024 bytes, a tile of bf16 has 2048"),
        ("", ", core_ranges = [[1, 0, 3, 0]]", r"core_ranges of %b leave out core \(0, 0\)"),
        ("", ", core_ranges = [[0, 0]]", r"\[first x, first y, last x, last y\]"),
        ("", ", core_ranges = []", r"\[first x, first y, last x, last y\]"),
    ],
)
def test_placement_that_contradicts_grid_or_tiles_is_refused(attrs: str, bind: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        check_source(parse(program(attrs, bind=bind)))


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ("", "lacks attribute 'block_factors', and so does the program"),
        (" {block_factors = [1, 2, 3]}", "'block_factors' is rows and columns of tiles"),
        (" {block_factors = [3, 2]}", "%x has 4 x 2 tiles, a grid of 1 x 2 cores with 3 x 2 tiles each takes 6 x 2"),
    ],
)
def test_a_slice_lies_within_its_tensor(factors: str, message: str) -> None:
    sliced = (
        program()
        .replace("grid = [1, 1]", "grid = [1, 2]")
        .replace("%zero = ttl.constant {value = 0}", f"%start, %zero = ttl.grid_slice %x{factors}")
    )
    with pytest.raises(GraphError, match=message):
        check_source(parse(sliced))
