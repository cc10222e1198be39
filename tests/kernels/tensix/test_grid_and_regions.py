"""Utility ops of the grid, and `ttl.compute_region`."""

from __future__ import annotations

import numpy as np
import pytest
from one_core import compile_program, execute
from sample_kernels import one_block

from optimizer.errors import OptionError, StateError
from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.emit_cpp import emit_program
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.grid import core, core_linear, grid_size
from optimizer.kernels.tensix.index_expr import dim
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.passes.fold_grid import fold_grid
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.source.text import parse, text_of
from optimizer.kernels.tensix.verify import verify
from optimizer.kernels.tensix.witness.whole_tensors import witness


@pytest.mark.parametrize(
    ("grid", "dims", "sizes"),
    [((8, 8), 2, (8, 8)), ((8, 8), 1, (64,)), ((8, 8), 3, (8, 8, 1)), ((8, 8, 8), 2, (8, 64)), ((8, 8, 8), 1, (512,))],
)
def test_sizes_join_the_last_dimensions_or_pad_with_one(
    grid: tuple[int, ...], dims: int, sizes: tuple[int, ...]
) -> None:
    assert grid_size(grid, dims) == sizes


@pytest.mark.parametrize("dims", [1, 2, 3, 4])
@pytest.mark.parametrize("grid", [(3, 5), (2, 3, 4)])
def test_coordinates_count_every_core_once_within_the_sizes(grid: tuple[int, ...], dims: int) -> None:
    exprs = core(grid, tuple(dim(axis) for axis in range(len(grid))), dims)
    places = {tuple(e.evaluate(point) for e in exprs) for point in np.ndindex(*grid)}
    assert places == set(np.ndindex(*grid_size(grid, dims)))


def test_cores_are_numbered_row_by_row() -> None:
    number = core_linear((4, 3), (dim(0), dim(1)))
    assert [number.evaluate((x, y)) for y in range(3) for x in range(4)] == list(range(12))


def test_no_dimension_is_no_grid() -> None:
    with pytest.raises(OptionError, match="at least one dimension, got 0"):
        grid_size((8, 8), 0)


def sliced() -> Op:
    """Every core squares its 1x2 tiles of a 4x6 tensor on a grid of 3 columns and 4 rows."""

    @ttl.kernel(grid=(3, 4))
    def squared(x: ttl.Tensor, y: ttl.Tensor) -> tuple[Op, ...]:
        x_cb, y_cb = (ttl.make_circular_buffer_like(t, (1, 2)) for t in (x, y))

        @ttl.compute()
        def math() -> None:
            y_cb.reserve().store(x_cb.wait() ** 2)
            x_cb.pop()
            y_cb.push()

        @ttl.datamovement()
        def read() -> None:
            row, column = ttl.grid_slice(x, (1, 2))
            ttl.copy(x[row, column], x_cb.reserve()).wait()
            x_cb.push()

        @ttl.datamovement()
        def write() -> None:
            row, column = ttl.grid_slice(y, (1, 2))
            ttl.copy(y_cb.wait(), y[row, column]).wait()
            y_cb.pop()

        return ttl.Program(math, read, write)(x, y)

    return squared(ttl.Tensor((4, 6)), ttl.Tensor((4, 6)))


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
def test_a_core_takes_its_slice() -> None:
    lowered = lower(sliced(), KernelOptions())
    kernels = emit_program(lowered)
    x = np.full((128, 192), 3.0, np.float32)
    y = execute(lowered, kernels, {"0": x}, core=(2, 3)).tensors["1"]
    assert (y[96:, 128:] == 9).all()
    assert np.count_nonzero(y) == 32 * 64


PROGRAM = """ttl.program @p {grid = [2, 2]} {
  ^(%x: tensor<2x2xbf16>, %y: tensor<2x2xbf16>):
  %x_cb = ttl.bind_cb {index = 0} : cb<2x2xbf16, 2>
  %y_cb = ttl.bind_cb {index = 1} : cb<2x2xbf16, 2>
  ttl.compute_thread @math {
    %0 = ttl.cb_wait(%x_cb) : block<2x2xbf16>
    %1 = ttl.cb_reserve(%y_cb) : block<2x2xbf16>
    %2 = ttl.compute_region(%0) {keep_in_dst = true} : block<2x2xbf16> {
      ^(%a: block<2x2xbf16>):
      %3 = ttl.exp(%a) : block<2x2xbf16>
      %4 = ttl.add(%3, %a) : block<2x2xbf16>
      ttl.yield(%4)
    }
    ttl.store(%2, %1)
    ttl.cb_pop(%x_cb)
    ttl.cb_push(%y_cb)
  }
  ttl.datamovement_thread @read {processor = "reader"} {
    %n = ttl.core_linear() : index
    %zero = ttl.constant {value = 0} : index
    %5 = ttl.cb_reserve(%x_cb) : block<2x2xbf16>
    %6 = ttl.copy_in(%x, %zero, %zero, %5) : transfer
    ttl.transfer_wait(%6)
    ttl.cb_push(%x_cb)
  }
  ttl.datamovement_thread @write {processor = "writer"} {
    %w, %h = ttl.grid_size {dims = 2} : index, index
    %none = ttl.constant {value = 0} : index
    %7 = ttl.cb_wait(%y_cb) : block<2x2xbf16>
    %8 = ttl.copy_out(%7, %y, %none, %none) : transfer
    ttl.transfer_wait(%8)
    ttl.cb_pop(%y_cb)
  }
}
"""


def test_a_region_stays_in_dst() -> None:
    found = witness(parse(PROGRAM), KernelOptions(), execute_cpp=False)
    assert (found.interpreter, found.round_trips_saved) == (0, 1)


def test_a_region_of_the_front_end() -> None:
    """Two results of two operands, one of them given on as it is; the text of it parses back."""

    def body(x: ttl.Block, y: ttl.Block) -> tuple[ttl.Block, ...]:
        both = ttl.compute_region(lambda a, b: (ttl.math.exp(a) * b, ttl.math.exp(a) + 1.0), x, y)
        (last,) = ttl.compute_region(lambda a: ttl.math.neg(a), both[0], keep_in_dst=False)
        return last, both[1]

    program = one_block("regions", [(2, 1)] * 2, [(2, 1)] * 2, body)
    regions = [op for op in walk(program) if op.name == "ttl.compute_region"]
    assert [(len(op.operands), len(op.results), op.attr("keep_in_dst")) for op in regions] == [
        (2, 2, True),
        (1, 1, False),
    ]
    assert parse(text_of(program)) == program
    found = witness(program, KernelOptions(), execute_cpp=False)
    assert (found.interpreter, found.beyond) == (0, 0)
    assert found.round_trips_saved == 3


def test_a_region_belongs_to_a_thread() -> None:
    @ttl.kernel()
    def outside(_x: ttl.Tensor) -> tuple[Op, ...]:
        ttl.compute_region(lambda: ())
        return ()

    with pytest.raises(StateError, match="a compute region is recorded inside of a thread only"):
        outside(ttl.Tensor((1, 1)))


def test_markers_of_dst_registers_change_nothing() -> None:
    marked = PROGRAM.replace("      %3 = ttl.exp", "      %r = ttl.acquire_dst() : index\n      %3 = ttl.exp").replace(
        "      ttl.yield(%4)", "      ttl.require_dst(%4)\n      ttl.release_dst(%r)\n      ttl.yield(%4)"
    )
    assert verify(parse(marked)) == ()
    texts = [[k.text for k in compile_program(parse(program))] for program in (marked, PROGRAM)]
    assert texts[0] == texts[1]


def test_a_region_yields_as_many_values_as_it_has_results() -> None:
    found = verify(parse(PROGRAM.replace("ttl.yield(%4)", "ttl.yield(%4, %3)")))
    assert any("yields 2 values for 1 results" in str(f) for f in found)


def test_questions_about_the_grid_become_numbers() -> None:
    folded = fold_grid(parse(PROGRAM))
    names = {op.name for op in walk(folded)}
    assert not names & {"ttl.core_linear", "ttl.grid_size", "ttl.core", "ttl.grid_slice"}
    assert [op.integer("value") for op in walk(folded) if op.name == "ttl.constant"] == [0, 2, 2, 0]
