"""Index arithmetic of kernels in Python: what it records and refuses, and blocks that it would take from nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from one_core import compile_program

from optimizer.errors import GraphError, StateError
from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.arguments import cores_of
from optimizer.kernels.tensix.emit_cpp import emit_program
from optimizer.kernels.tensix.executor.execute import compiled, has_compiler
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import lower
from optimizer.kernels.tensix.ttl import dataflow as flow
from optimizer.kernels.tensix.ttl.recording import Condition, Index
from optimizer.kernels.tensix.witness.transfers import check_places

Place = Callable[[Index, Index], tuple[Any, Any]]


def moved(place: Place, *conditions: Callable[[Index, Index], Condition]) -> Op:
    """On 2 x 2 cores: the block at the place of each goes to the core's own; copied where each condition holds."""

    @ttl.kernel(grid=(2, 2))
    def kernel(x: ttl.Tensor, y: ttl.Tensor) -> tuple[Op, ...]:
        x_cb, y_cb = (ttl.make_circular_buffer_like(t, (1, 1)) for t in (x, y))

        @ttl.compute()
        def compute() -> None:
            with x_cb.wait() as block, y_cb.reserve() as room:
                room.store(block)

        @ttl.datamovement()
        def read() -> None:
            core = ttl.core()
            with x_cb.reserve() as block:
                for condition in conditions:
                    with flow.when(condition(*core)):
                        ttl.copy(x[place(*core)], block).wait()
                if not conditions:
                    ttl.copy(x[place(*core)], block).wait()

        @ttl.datamovement()
        def write() -> None:
            column, row = ttl.core()
            with y_cb.wait() as block:
                ttl.copy(block, y[row, column]).wait()

        return ttl.Program(compute, read, write)(x, y)

    return kernel(ttl.Tensor((2, 2)), ttl.Tensor((2, 2)))


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
def test_differences_are_those_of_python() -> None:
    """`1 - y` turns the rows round, `(x + 2 - y) % 2` the columns of the second one."""
    program = moved(lambda x, y: (1 - y, (x + 2 - y) % 2))
    lowered = lower(program)
    x_name, y_name = (v.name for v in program.body.args)
    x = np.arange(4, dtype=np.float32).repeat(32 * 32).reshape(2, 2, 32, 32).swapaxes(1, 2).reshape(64, 64)
    with compiled(lowered, emit_program(lowered)) as run:
        y = run({x_name: x}, cores_of(lowered), {}).tensors[y_name]
    assert y[::32, ::32].tolist() == [[2, 3], [1, 0]]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (lambda x, y: (x * 1.5, y), r"\* of an index takes whole numbers .* not 1.5"),
        (lambda x, y: (x * y, y), r"\* of an index takes whole numbers .* not another index"),
        (lambda x, y: (x // 1.5, y), r"// of an index takes whole numbers"),
        (lambda x, y: (x % y, y), r"% of an index takes whole numbers"),
        (lambda x, y: (x + 0.5, y), r"\+ of an index takes whole numbers"),
        (lambda x, y: (x - None, y), r"- of an index takes whole numbers"),
        (lambda x, y: (0.5 - x, y), r"- of an index takes whole numbers"),
        (lambda x, y: (x == None, y), r"a condition of an index takes whole numbers"),  # noqa: E711
        (lambda x, y: (x or y, y), "no truth value"),
        (lambda x, y: (y if x == 0 else x, y), "holds or not when the kernel runs"),
        (lambda x, y: (0 <= x < 1, y), "holds or not when the kernel runs"),
        (lambda x, y: (x != 0, y), "no condition '!='"),
    ],
)
def test_what_is_not_known_yet_decides_nothing(place: Place, message: str) -> None:
    with pytest.raises(StateError, match=message):
        moved(place)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (lambda x, y: ((x - 1) % 4, y), "takes the remainder of what may be -1 by 4: add a multiple of 4"),
        (lambda x, y: ((x - y * 3) // 2, y), "divides what may be -3 by 2: add a multiple of 2"),
    ],
)
def test_division_of_what_may_be_negative_is_refused(place: Place, message: str) -> None:
    """C++ has no sign there, or rounds to zero."""
    with pytest.raises(GraphError, match=message):
        compile_program(moved(place))


def test_comparison_of_what_may_be_negative_is_refused() -> None:
    with pytest.raises(GraphError, match="compares what may be -1: add it on the other side"):
        compile_program(moved(lambda x, y: (y, x), lambda x, y: x - 1 <= y))


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (lambda x, y: (y * 5, x), r"ttl.copy_in on core \(0, 1\): a block of 1x1 tiles at \(5, 0\) is beyond %0"),
        (lambda x, y: (y - 1, x), r"on core \(0, 0\): a block of 1x1 tiles at \(-1, 0\) is beyond"),
        (lambda *_: (0, 2), r"at \(0, 2\) is beyond %0 \(tensor<2x2xbf16>\)"),
    ],
)
def test_a_block_beyond_its_tensor_is_named_before_anything_runs(place: Place, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        check_places(moved(place))


def test_places_in_conditions_are_looked_at_where_they_hold() -> None:
    check_places(moved(lambda x, y: (y - 1, x), lambda _, y: y >= 1))
    with pytest.raises(GraphError, match=r"on core \(0, 0\): a block of 1x1 tiles at \(-1, 0\)"):
        check_places(moved(lambda x, y: (y - 1, x), lambda _, y: y >= 0))


def test_what_only_a_run_knows_is_left_to_it() -> None:
    check_places(moved(lambda x, _: (flow.runtime_arg("row"), x)))
