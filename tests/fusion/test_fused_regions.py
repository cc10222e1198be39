"""Which ops become one kernel: frames, homes, places in the schedule, L1."""

from __future__ import annotations

from dataclasses import replace

import pytest
from placed_graphs import BLOCK, HEIGHT, WIDTH, placed, shards

from optimizer.errors import LimitError
from optimizer.fusion.finding import find_regions
from optimizer.fusion.lowering import lowered, program_of
from optimizer.fusion.placement import CoreMap, Kind, kind_in
from optimizer.fusion.regions import Region
from optimizer.fusion.schedule import buffer_bytes
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph
from optimizer.kernels.tensix.index_expr import const
from optimizer.layouts.memory_config import L1_TILE, TensorLayout

X = (1, 1, 256, 128)
HOME = shards(X, (8, 2))
"""1x2 tiles on each of 16 cores."""


def regions(graph: Graph, layouts: dict[str, TensorLayout], **options: object) -> list[Region]:
    return list(find_regions(placed(graph, layouts, **options)))


def only(graph: Graph, layouts: dict[str, TensorLayout]) -> Region:
    found = regions(graph, layouts)
    assert len(found) == 1
    return found[0]


def chain(*ops: str) -> tuple[Graph, dict[str, TensorLayout]]:
    """Unary ops one after the other, every value in HOME; the last one is spilled."""
    b = GraphBuilder("chain")
    v = b.input("x", X)
    layouts = {v: HOME}
    for op in ops:
        v = b.op(f"ttnn.{op}", v)
        layouts[v] = HOME
    return b.finish(b.op("ttnn.to_memory_config", v, name="spill")), layouts


# -- what is fused -----------------------------------------------------------------------------------------
def test_a_chain_on_one_grid_is_one_region_without_tensors_in_between() -> None:
    graph, layouts = chain("exp", "square", "tanh")
    region = only(graph, layouts)
    assert region.op_ids == ("exp", "square", "tanh", "spill")
    assert [(o.value, o.resident) for o in region.inputs] == [("x", True)]
    assert [(o.value, o.resident) for o in region.outputs] == [("spill_out", False)]
    assert region.vanished == ("exp_out", "square_out", "tanh_out")
    assert (region.home.shard, region.home.cores) == ((1, 2), 16)


def test_a_value_that_others_read_stays_a_result() -> None:
    b = GraphBuilder("fork")
    e = b.op("ttnn.exp", b.input("x", X))
    s = b.op("ttnn.square", e)
    p = b.op("ttnn.permute", e, dims=(0, 1, 3, 2))
    region = only(b.finish(s, p), {"x": HOME, e: HOME})
    assert [o.value for o in region.outputs] == [e, s]
    assert region.vanished == ()


def test_smaller_operands_are_brought_and_repeated() -> None:
    b = GraphBuilder("parts")
    x = b.input("x", X)
    row, column, one = b.parameter("row", (128,)), b.input("column", (1, 1, 256, 1)), b.input("one", (1, 1))
    v = b.op("ttnn.add", x, row)
    v = b.op("ttnn.multiply", v, column)
    v = b.op("ttnn.subtract", v, one)
    region = only(b.finish(v), {"x": HOME})
    assert [(o.value, o.kind, o.tiles, o.resident) for o in region.inputs] == [
        ("x", Kind.FULL, (8, 4), True),
        ("row", Kind.ROW, (1, 4), False),
        ("column", Kind.COLUMN, (8, 1), False),
        ("one", Kind.SCALAR, (1, 1), False),
    ]


def test_a_copy_of_an_operand_becomes_the_readers_work() -> None:
    b = GraphBuilder("copied")
    x, y = b.input("x", X), b.input("y", X)
    y_there = b.op("ttnn.to_memory_config", y)
    region = only(b.finish(b.op("ttnn.add", x, y_there)), {"x": HOME, "y": L1_TILE, y_there: HOME})
    assert region.vanished == (y_there,)
    assert [(o.value, o.resident) for o in region.inputs] == [("y", False), ("x", True)]


@pytest.mark.parametrize("op", ["softmax", "layer_norm", "mean"])
def test_ops_on_rows_need_whole_rows_on_a_core(op: str) -> None:
    def found(layout: TensorLayout) -> list[Region]:
        b = GraphBuilder("rows")
        v = b.op("ttnn.exp", b.input("x", X))
        attrs = {"dim": -1} if op != "layer_norm" else {}
        return regions(b.finish(b.op(f"ttnn.{op}", v, **attrs)), {"x": layout, v: layout})

    assert [r.op_ids for r in found(shards(X, (8, 1), HEIGHT))] == [("exp", op)]
    assert found(HOME) == []


def test_columns_of_a_reduction_are_computed_where_the_rows_are() -> None:
    b = GraphBuilder("columns")
    x = b.input("x", X)
    scale = b.op("ttnn.rsqrt", b.op("ttnn.mean", b.op("ttnn.square", x), dim=-1))
    region = only(b.finish(b.op("ttnn.multiply", x, scale)), {"x": shards(X, (8, 1), HEIGHT)})
    assert len(region.ops) == 4
    assert [o.kind for o in region.outputs] == [Kind.FULL]


def test_a_matmul_joins_what_is_computed_with_its_products() -> None:
    b = GraphBuilder("dense")
    a = b.input("a", (1, 1, 256, 192))
    a_there = b.op("ttnn.to_memory_config", a)
    m = b.op("ttnn.linear", a_there, b.parameter("w", (192, 128)), b.parameter("bias", (128,)), activation="relu")
    graph = b.finish(b.op("ttnn.add", m, b.input("x", X)))
    region = only(graph, {a_there: shards((1, 1, 256, 192), (8, 2)), m: HOME, "x": HOME})
    assert len(region.ops) == 3
    assert [(o.value, o.kind, o.tiles, o.depth, o.resident) for o in region.inputs] == [
        ("a", Kind.LEFT, (8, 6), 6, False),
        ("w", Kind.RIGHT, (6, 4), 6, False),
        ("bias", Kind.ROW, (1, 4), 0, False),
        ("x", Kind.FULL, (8, 4), 0, True),
    ]


def test_rows_of_a_matmul_that_lie_on_the_core_stay_there() -> None:
    b = GraphBuilder("resident")
    m = b.op("ttnn.matmul", b.input("a", (1, 1, 512, 96)), b.parameter("w", (96, 64)))
    layouts = {"a": shards((1, 1, 512, 96), (16, 1), HEIGHT), m: shards((1, 1, 512, 64), (16, 1), HEIGHT)}
    region = only(b.finish(b.op("ttnn.gelu", m)), layouts)
    assert [o.resident for o in region.inputs] == [True, False]


@pytest.mark.parametrize(
    ("left", "right", "use"),
    [
        ((1, 1, 256, 48), (48, 128), "gelu"),
        ((2, 1, 128, 64), (2, 1, 64, 128), "gelu"),
    ],
    ids=["no whole tiles", "batches"],
)
def test_matmuls_that_are_left_to_ttnn(left: tuple[int, ...], right: tuple[int, ...], use: str) -> None:
    b = GraphBuilder("left")
    m = b.op("ttnn.matmul", b.input("a", left), b.input("w", right))
    shape = (*left[:-1], 128)
    assert regions(b.finish(b.op(f"ttnn.{use}", m)), {m: shards(shape, (8, 2))}) == []


@pytest.mark.parametrize(("depth", "use"), [(4096, "gelu"), (64, "to_memory_config")], ids=["too large", "no use"])
def test_matmuls_for_which_every_core_would_read_all_operands(depth: int, use: str) -> None:
    """Twelve cores are no rectangle, so nothing is multicast; eight are one."""

    def found(rows: int) -> list[Region]:
        b = GraphBuilder("left")
        shape = (1, 1, rows * 32, 32)
        m = b.op("ttnn.matmul", b.input("a", (*shape[:-1], depth)), b.input("w", (depth, 32)))
        return regions(b.finish(b.op(f"ttnn.{use}", m)), {m: shards(shape, (rows, 1), HEIGHT)})

    assert found(12) == []
    assert [r.scheme.multicast for r in found(8)] == [True]


# -- what is not -----------------------------------------------------------------------------------------
def test_one_op_alone_is_no_region() -> None:
    b = GraphBuilder("alone")
    assert regions(b.finish(b.op("ttnn.exp", b.input("x", X))), {"x": HOME}) == []


def test_copies_alone_are_no_region() -> None:
    b = GraphBuilder("copies")
    v = b.op("ttnn.to_memory_config", b.input("x", X))
    assert regions(b.finish(b.op("ttnn.to_memory_config", v)), {v: HOME}) == []


def test_without_shards_there_is_no_home() -> None:
    graph, layouts = chain("exp", "square")
    assert regions(graph, dict.fromkeys(layouts, L1_TILE)) == []


def test_few_cores_are_no_home_for_large_tensors() -> None:
    graph, layouts = chain("exp", "square")
    assert regions(graph, dict.fromkeys(layouts, shards(X, (2, 1)))) == []


def test_a_region_is_convex() -> None:
    """exp -> permute -> permute -> add, and exp -> add: the kernel would have to run before and after the permutes."""
    b = GraphBuilder("diamond")
    e = b.op("ttnn.exp", b.input("x", X))
    p = b.op("ttnn.permute", b.op("ttnn.permute", e, dims=(0, 1, 3, 2)), dims=(0, 1, 3, 2))
    assert regions(b.finish(b.op("ttnn.add", e, p)), {"x": HOME, e: HOME}) == []


def test_a_kernel_runs_after_what_it_reads_and_before_its_readers() -> None:
    """The square is computed before the permute that reads it, the tanh would be after: only the first two join."""
    b = GraphBuilder("places")
    s = b.op("ttnn.square", b.op("ttnn.exp", b.input("x", X)))
    p = b.op("ttnn.permute", s, dims=(0, 1, 3, 2))
    q = b.op("ttnn.permute", p, dims=(0, 1, 3, 2))
    t = b.op("ttnn.multiply", s, q)
    found = regions(b.finish(t), {"x": HOME, s: HOME})
    assert [r.op_ids for r in found] == [("exp", "square")]
    assert found[0].anchor == "square"


def test_l1_never_holds_more_than_planned_while_others_run() -> None:
    """In the plan the first op's result is in L1 while the last permute runs; fused, its operands would be."""

    def found(operands: int) -> list[tuple[str, ...]]:
        b = GraphBuilder("memory")
        x, z = (b.op("ttnn.permute", b.input(name, (1, 1, 128, 256)), dims=(0, 1, 3, 2)) for name in "ij")
        e = b.op("ttnn.add", x, z, name="first") if operands == 2 else b.op("ttnn.exp", x, name="first")
        w = b.op("ttnn.permute", b.input("a", (1, 1, 128, 256)), dims=(0, 1, 3, 2))
        graph = b.finish(b.op("ttnn.subtract", e, w, name="last"))
        return [r.op_ids for r in regions(graph, {x: HOME, z: HOME, e: HOME})]

    assert found(1) == [("first", "last")]
    assert found(2) == []


def test_circular_buffers_are_held_to_the_l1_of_the_board() -> None:
    graph, layouts = chain("exp", "square")
    result = placed(graph, layouts)
    (region,) = find_regions(result)
    needed = buffer_bytes(lowered(program_of(region), result.device))
    smaller = replace(result.device, worker_l1_bytes=result.device.cb_base_bytes + needed - 1)

    assert needed < result.device.cb_limit_bytes
    with pytest.raises(LimitError, match=f"{needed - 1:,} are free"):
        lowered(program_of(region), smaller)


@pytest.mark.parametrize("dtype", [DType.F32, DType.I32])
def test_other_element_types_are_left_alone(dtype: DType) -> None:
    b = GraphBuilder("types")
    v = b.op("ttnn.square", b.op("ttnn.abs", b.input("x", X, dtype)))
    assert regions(b.finish(v), {"x": HOME}) == []


def test_partly_filled_shards_take_no_part_in_moves() -> None:
    """11 cores for shards of two of 16 tile rows: the last ones have nothing that could be brought."""
    b = GraphBuilder("rest")
    shape = (1, 1, 512, 32)
    v = b.op("ttnn.square", b.op("ttnn.exp", b.input("x", shape)))
    uneven = shards(shape, (11, 1), HEIGHT)
    assert regions(b.finish(v), {"x": uneven}) == []
    both = b.op("ttnn.permute", v, dims=(0, 1, 3, 2))
    assert len(regions(b.finish(both), {"x": uneven, v: uneven})) == 1


# -- parts ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((1, 1, 256, 128), Kind.FULL),
        ((256, 128), Kind.FULL),
        ((128,), Kind.ROW),
        ((1, 1, 1, 128), Kind.ROW),
        ((256, 1), Kind.COLUMN),
        ((1, 1, 1, 1), Kind.SCALAR),
        ((), Kind.SCALAR),
        ((1, 1, 64, 128), None),
        ((2, 1, 256, 128), None),
    ],
)
def test_kinds(shape: tuple[int, ...], kind: Kind | None) -> None:
    assert kind_in(shape, X) is kind


def test_batches_repeat_no_rows() -> None:
    assert kind_in((128,), (4, 1, 64, 128)) is Kind.ROW
    assert kind_in((4, 1, 1, 128), (4, 1, 64, 128)) is None
    assert kind_in((4, 1, 64, 1), (4, 1, 64, 128)) is Kind.COLUMN


@pytest.mark.parametrize(
    ("layout", "core", "first"),
    [
        (shards(X, (2, 2), BLOCK), (1, 1), (4, 2)),
        (shards((1, 1, 512, 64), (16, 1), HEIGHT), (3, 1), (11, 0)),
        (shards((1, 1, 32, 1280), (1, 20), WIDTH), (2, 2), (0, 36)),
    ],
)
def test_a_core_knows_its_first_tile(layout: TensorLayout, core: tuple[int, int], first: tuple[int, int]) -> None:
    spec, core_map = layout.shard_spec, CoreMap.of(layout)
    assert spec is not None
    assert core_map is not None
    shard = (spec.shape[0] // 32, spec.shape[1] // 32)
    exprs = core_map.first_tile(shard, const(core[0]), const(core[1]))
    assert tuple(e.evaluate(()) for e in exprs) == first
