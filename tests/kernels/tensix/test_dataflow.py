"""Kernels on several cores and any number of blocks: loops, pipes, semaphores and grids, executed on all cores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from one_core import compile_program, execute_grid

from fixtures.kernels.matmul_multicast import matmul
from optimizer.errors import OptionError, StateError, VerificationError
from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.arguments import Arguments, core_arguments, cores_of
from optimizer.kernels.tensix.emit_cpp import emit_program
from optimizer.kernels.tensix.executor.execute import compiled, has_compiler
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.rounding import Array
from optimizer.kernels.tensix.source.text import parse, text_of
from optimizer.kernels.tensix.ttl import dataflow as flow
from optimizer.kernels.tensix.types import TensorType
from optimizer.kernels.tensix.witness.whole_tensors import witness
from tests.kernels.tensix.pipe_kernels import CORES, all_to_all, around, gather, in_turn, planes, ring

executed = pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")


def product(grid: tuple[int, int], block: tuple[int, int, int], blocks: int, wide: bool = False) -> Op:
    """The multicast matmul, with tensors for so many blocks of depth."""
    (columns, rows), (m, n, depth) = grid, block
    shapes = ((rows * m, blocks * depth), (blocks * depth, columns * n), (rows * m, columns * n))
    return matmul(grid, block, wide)(*map(ttl.Tensor, shapes))


def whole(rows: int, columns: int) -> Array:
    """Small whole numbers in so many tiles, of which sums are exact."""
    return np.random.default_rng(0).integers(-2, 3, (rows * 32, columns * 32)).astype(np.float32)


@executed
@pytest.mark.parametrize(
    ("grid", "block", "blocks", "wide"),
    [
        ((1, 1), (2, 2, 1), 3, False),
        ((2, 2), (1, 2, 2), 3, False),
        ((3, 2), (3, 4, 1), 3, True),
        ((1, 3), (1, 1, 1), 2, False),
    ],
)
def test_one_compiled_matmul_takes_any_number_of_blocks(
    grid: tuple[int, int], block: tuple[int, int, int], blocks: int, wide: bool
) -> None:
    lowered = lower(product(grid, block, blocks, wide))
    a_name, b_name, c_name = (v.name for v in lowered.body.args)
    (columns, rows), (m, n, depth) = grid, block
    a, b = whole(rows * m, blocks * depth), whole(blocks * depth, columns * n)
    with compiled(lowered, emit_program(lowered)) as run:
        for count in range(1, blocks + 1):
            c = run({a_name: a, b_name: b}, cores_of(lowered), {"k_blocks": count}).tensors[c_name]
            depth_of_both = count * depth * 32
            assert np.array_equal(c, a[:, :depth_of_both] @ b[:depth_of_both])


def test_the_cpp_does_not_grow_with_the_number_of_blocks() -> None:
    texts = [[k.text for k in compile_program(product((3, 2), (2, 2, 1), blocks))] for blocks in (2, 200)]
    assert [len(t.splitlines()) for t in texts[0]] == [len(t.splitlines()) for t in texts[1]]


def test_pipes_along_rows_are_one_loop_without_a_table() -> None:
    (reader,) = (k.text for k in compile_program(product((8, 8), (1, 1, 1), 2)) if k.kind == "reader")
    assert "for (uint32_t pipe_0 = 0; pipe_0 < 8; ++pipe_0)" in reader
    assert "table" not in reader
    assert reader.count("noc_async_write_multicast(") == 1


def test_the_program_in_text_is_the_one_in_python() -> None:
    text = Path("fixtures/kernels/matmul_multicast.ttl").read_text(encoding="utf-8")
    assert text == text_of(product((2, 2), (2, 2, 1), 4))


@executed
def test_the_matmul_is_within_its_error_bound_and_the_cpp_equals_the_interpreter() -> None:
    program = parse(Path("fixtures/kernels/matmul_multicast.ttl").read_text(encoding="utf-8"))
    found = witness(program, KernelOptions(), arguments={"k_blocks": 4})
    assert (found.elements, found.beyond, found.executed) == (128 * 128, 0, 0)


def rolled(x: Array, cores: int) -> Array:
    """What the core so many places before has."""
    return np.roll(x, 32 * cores, axis=1)


PATTERNS: dict[str, tuple[Callable[[], Op], Callable[[Array], Array]]] = {
    "ring": (ring, lambda x: x + rolled(x, 1)),
    "all to all": (all_to_all, lambda x: x + sum(rolled(x, n) for n in range(CORES))),
    "all to all elsewhere": (lambda: all_to_all((2, 3)), lambda x: x + sum(rolled(x, n) for n in range(CORES))),
    "planes of a grid": (planes, lambda x: x + rolled(x, CORES)),
    "gather": (gather, lambda x: np.sum(np.split(x, CORES, axis=1), axis=0)),
    "in turn": (in_turn, lambda x: 2**CORES * x),
    "around the first": (lambda: around((0, 0)), lambda x: np.tile(2 * x, CORES)),
    "around one in the middle": (lambda: around((1, 1), (3, 2), (2, 1)), lambda x: np.tile(2 * x, 6)),
    "around one of two": (lambda: around((1, 0), (2, 1)), lambda x: np.tile(2 * x, 2)),
}
"""Kernels, and what they make of x in numpy."""


@executed
@pytest.mark.parametrize("name", PATTERNS)
def test_blocks_arrive_where_pipes_go(name: str) -> None:
    build, meaning = PATTERNS[name]
    program = build()
    assert parse(text_of(program)) == program
    lowered = lower(program)
    x_name, y_name = (v.name for v in lowered.body.args)
    x = whole(*program.body.args[0].typed(TensorType).shape)
    y = execute_grid(lowered, emit_program(lowered), {x_name: x}).tensors[y_name]
    assert np.array_equal(y, meaning(x))


@executed
@pytest.mark.parametrize("name", ["ring", "all to all"])
def test_what_comes_through_pipes_has_a_meaning_and_a_bound(name: str) -> None:
    found = witness(PATTERNS[name][0](), KernelOptions())
    assert found.agrees


# -- run-time arguments ---------------------------------------------------------------------------------------
def test_arguments_are_given_to_every_core_in_the_order_of_the_kernels() -> None:
    program = lower(product((2, 2), (1, 1, 1), 2).with_attrs(origin=(3, 1)))
    assert cores_of(program) == ((3, 1), (4, 1), (3, 2), (4, 2))
    each = {"k_blocks": {(0, 0): 1, (1, 0): 2, (0, 1): 3, (1, 1): 4}}
    assert [core_arguments(program, each, core) for core in cores_of(program)] == [[1], [2], [3], [4]]


def test_a_round_beyond_the_tensor_names_the_blocks_that_divide_it() -> None:
    """7 columns of tiles in blocks of 2: the fourth block would have one."""
    built = matmul((2, 1), (1, 1, 2))(ttl.Tensor((1, 7)), ttl.Tensor((7, 2)), ttl.Tensor((1, 2)))
    message = r"1x2 tiles at \(0, 6\) is beyond .*; 7 columns of tiles are no whole number of blocks of 2, but of 1, 7$"
    with pytest.raises(VerificationError, match=message):
        witness(built, KernelOptions(), arguments={"k_blocks": 4})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"core \(0, 0\) is not given the run-time argument 'k_blocks'"),
        ({"k_blocks": {(1, 0): 3}}, r"core \(0, 0\) is not given"),
        ({"k_block": 3}, "no run-time argument is called 'k_block'.*k_blocks"),
        ({"k_blocks": -1}, "'k_blocks' is -1, not 0 to 4294967295"),
    ],
)
def test_arguments_that_are_missing_or_unknown_are_refused(given: Arguments, message: str) -> None:
    program = lower(product((2, 1), (1, 1, 1), 2))
    with pytest.raises(OptionError, match=message):
        core_arguments(program, given, (0, 0))


# -- the front end ------------------------------------------------------------------------------------------------
def recorded(reader: Callable[[ttl.Tensor], None]) -> Op:
    """A kernel of one data movement thread, not verified as a whole."""

    @ttl.kernel(grid=(2, 2))
    def made(x: ttl.Tensor) -> tuple[Op, ...]:
        @ttl.datamovement()
        def read() -> None:
            reader(x)

        return ttl.Program(read)(x)

    return made(ttl.Tensor((4, 4)))


def test_a_loop_of_a_kernel_is_not_left() -> None:
    def reader(_x: ttl.Tensor) -> None:
        for _ in flow.loop(3):
            break

    with pytest.raises(StateError, match="a loop of @read is left by 'break' or 'return'"):
        recorded(reader)


def test_indices_are_whole_arithmetic_of_cores_counters_and_arguments() -> None:
    def reader(_x: ttl.Tensor) -> None:
        x, y = ttl.core()
        for k in flow.loop(flow.runtime_arg("n"), lower=1, step=2):
            with flow.when((x + y * 2 + k) % 3 == 0, k < 9, y > 0):
                flow.runtime_arg("m") // 4

    text = text_of(recorded(reader))
    assert 'ttl.runtime_arg {name = "n"}' in text
    assert "ttl.for(%3) {lower = 1, step = 2}" in text
    assert '{tests = ["==", "<=", "<="]}' in text
    assert "(d0) -> (d0 floordiv 4)" in text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: flow.Pipe(src=(0, 0)), "a pipe has a core that it comes from"),
        (lambda: flow.Pipe(src=(0, 0), dst=(slice(0, 4, 2), 0)), "a range of cores has an end and no step"),
        (lambda: flow.create_semaphore().get_remote((ttl.core()[0], 0, 0)), "2 coordinates, not 3"),
    ],
)
def test_pipes_and_cores_that_cannot_be_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(StateError, match=message):
        recorded(lambda _x: make() and None)


# -- sums ---------------------------------------------------------------------------------------------------------
@executed
def test_a_sum_is_handed_to_what_follows_it() -> None:
    """relu(a @ b + c), a and b block by block of depth: the sum in DST, the rest in a section of its own."""

    @ttl.kernel()
    def dense(a: ttl.Tensor, b: ttl.Tensor, c: ttl.Tensor, y: ttl.Tensor) -> tuple[Op, ...]:
        shapes = ((a, (2, 1)), (b, (1, 2)), (c, (2, 2)), (y, (2, 2)), (y, (2, 2)))
        a_cb, b_cb, c_cb, sum_cb, y_cb = (ttl.make_circular_buffer_like(t, shape, 1) for t, shape in shapes)

        @ttl.compute()
        def multiply() -> None:
            room = sum_cb.reserve()
            for _ in flow.loop(flow.runtime_arg("n")):
                room.accumulate(a_cb.wait() @ b_cb.wait())
                a_cb.pop()
                b_cb.pop()
            sum_cb.push()
            y_cb.reserve().store(ttl.block_op("relu", sum_cb.wait() + c_cb.wait()))
            sum_cb.pop()
            c_cb.pop()
            y_cb.push()

        @ttl.datamovement()
        def read() -> None:
            ttl.copy(c[0, 0], c_cb.reserve()).wait()
            c_cb.push()
            for k in flow.loop(flow.runtime_arg("n")):
                for place, cb in ((a[0, k], a_cb), (b[k, 0], b_cb)):
                    ttl.copy(place, cb.reserve()).wait()
                    cb.push()

        @ttl.datamovement()
        def write() -> None:
            ttl.copy(y_cb.wait(), y[0, 0]).wait()
            y_cb.pop()

        return ttl.Program(multiply, read, write)(a, b, c, y)

    program = dense(*map(ttl.Tensor, ((2, 4), (4, 2), (2, 2), (2, 2))))
    found = witness(program, KernelOptions(), arguments={"n": 3})
    assert found.agrees
    assert found.execution is not None
    assert (found.elements, found.execution.sections) == (64 * 64, 2)
