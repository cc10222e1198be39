"""Kernels in Python: blocks of a `with`, options of `kernel`, places in tensors, functions of `ttl.math`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sample_kernels import one_block

from optimizer.errors import GraphError, OptionError, StateError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.pipeline import KernelOptions
from optimizer.kernels.tensix.source.text import parse, text_of
from optimizer.kernels.tensix.types import CircularBufferType
from optimizer.kernels.tensix.witness.reference import evaluate
from optimizer.kernels.tensix.witness.whole_tensors import witness


def moved(**options: Any) -> Callable[..., Op]:
    """A kernel that brings its part of a tensor, squares it and takes it away; `size` is no tensor."""

    @ttl.kernel(**{"compile_time_args": [2], **options})
    def kernel(x: ttl.Tensor, y: ttl.Tensor, size: int = 0) -> tuple[Op, ...]:
        shape = (size, 1) if size else None
        x_cb, y_cb = (ttl.make_circular_buffer_like(t, shape) for t in (x, y))

        @ttl.compute()
        def compute() -> None:
            with x_cb.wait() as block, y_cb.reserve() as room:
                room.store(block**2)

        @ttl.datamovement()
        def read() -> None:
            with x_cb.reserve() as room:
                ttl.copy(ttl.grid_slice(x, shape), room).wait()

        @ttl.datamovement()
        def write() -> None:
            with y_cb.wait() as block:
                ttl.copy(block, ttl.grid_slice(y, shape)).wait()

        return ttl.Program(compute, read, write)(x, y)

    return kernel


def names(program: Op, thread: str) -> list[str]:
    (found,) = [op for op in program.body.ops if op.attr("sym_name", "") == thread]
    return [op.name for op in found.body.ops]


# -- with -------------------------------------------------------------------------------------------------
def test_a_with_pops_what_it_waits_for_and_pushes_what_it_reserves() -> None:
    program = moved(block_factors=[[2, 1], [2, 1]])(ttl.Tensor((2, 1)), ttl.Tensor((2, 1)))
    assert names(program, "compute") == [
        "ttl.cb_wait", "ttl.cb_reserve", "ttl.square", "ttl.store", "ttl.cb_push", "ttl.cb_pop",
    ]  # fmt: skip
    assert names(program, "write")[-1] == "ttl.cb_pop"
    assert witness(program, KernelOptions(), execute_cpp=False).agrees


def test_a_with_is_of_a_block_of_a_buffer() -> None:
    def body(x: ttl.Block) -> ttl.Block:
        with x + 1 as more:
            return more

    with pytest.raises(StateError, match="'with' takes a block that is waited for or reserved"):
        one_block("with", [(1, 1)], [(1, 1)], body)


def test_a_failure_within_a_with_is_the_failure() -> None:
    @ttl.kernel()
    def failing(x: ttl.Tensor) -> tuple[Op, ...]:
        x_cb = ttl.make_circular_buffer_like(x, (1, 1))

        @ttl.compute()
        def compute() -> None:
            with x_cb.wait():
                raise ZeroDivisionError

        return ttl.Program(compute)(x)

    with pytest.raises(ZeroDivisionError):
        failing(ttl.Tensor((1, 1)))


# -- options of a kernel ----------------------------------------------------------------------------------
def test_block_factors_are_the_blocks_of_buffers_and_the_parts_of_cores() -> None:
    program = moved(grid=(3, 2), block_factors=[[2, 1], [2, 1]])(ttl.Tensor((4, 3)), ttl.Tensor((4, 3)))
    types = [op.result.typed(CircularBufferType).shape for op in program.body.ops if op.name == "ttl.bind_cb"]
    assert types == [(2, 1)] * 2
    assert program.attr("block_factors") == ((2, 1), (2, 1))
    assert parse(text_of(program)) == program
    assert witness(program, KernelOptions(), execute_cpp=False).agrees


def test_a_constant_is_what_the_kernel_is_made_with() -> None:
    kernel = moved()
    shapes = {n: kernel(ttl.Tensor((4, 1)), ttl.Tensor((4, 1)), n) for n in (2, 4)}
    for n, program in shapes.items():
        assert {str(op.result.type) for op in walk(program) if op.name == "ttl.bind_cb"} == {f"cb<{n}x1xbf16, 2>"}


def test_the_configuration_is_given_at_once_or_by_name() -> None:
    tensors = ttl.Tensor((2, 1)), ttl.Tensor((2, 1))
    factors = [[2, 1], [2, 1]]
    config = {"math_fidelity": "HiFi2", "fp32_dest_acc_en": True, "math_approx_mode": False}
    programs = [moved(block_factors=factors, **given)(*tensors) for given in ({"compute_config": config}, config)]
    assert programs[0] == programs[1]
    assert {name: programs[0].attr(name) for name in config} == config


def test_a_buffer_takes_the_number_it_is_given() -> None:
    @ttl.kernel()
    def numbered(x: ttl.Tensor) -> tuple[Op, ...]:
        for index in (None, 0, None):
            ttl.make_circular_buffer_like(x, (1, 1), buffer_index=index, page_size=2048, core_ranges=[[0, 0, 7, 7]])
        return ()

    assert [op.integer("index") for op in numbered(ttl.Tensor((1, 1))).body.ops] == [1, 0, 2]


@pytest.mark.parametrize(
    ("options", "arguments", "error", "message"),
    [
        ({}, (ttl.Tensor((1, 1)), 3), StateError, "argument 1 of a kernel is int, due is a tensor"),
        ({"compile_time_args": [1]}, (ttl.Tensor((1, 1)),) * 2, StateError, "argument 1 .* due is a constant"),
        ({"block_factors": [[1, 1]]}, (ttl.Tensor((1, 1)),) * 2, StateError, "1 block_factors for 2 tensors"),
        ({}, (ttl.Tensor((1, 1)),) * 2, StateError, "the kernel has no block_factors"),
        ({"tiled": False}, (ttl.Tensor((1, 1)),) * 2, StateError, "the kernel has no block_factors"),
        (
            {"tiled": False, "block_factors": [[1, 1]] * 2},
            (ttl.Tensor((1, 1)),) * 2,
            GraphError,
            "row-major tensors are not read",
        ),
        ({"bogus": True, "block_factors": [[1, 1]] * 2}, (ttl.Tensor((1, 1)),) * 2, GraphError, "bogus"),
    ],
)
def test_options_that_contradict_the_arguments_are_refused(
    options: dict[str, Any], arguments: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        witness(moved(**options)(*arguments), KernelOptions(), execute_cpp=False)


# -- places in tensors ------------------------------------------------------------------------------------
X = ttl.Tensor((4, 6))


@pytest.mark.parametrize(
    ("place", "first", "sizes"),
    [
        (X[1, 2], (1, 2), (None, None)),
        (X[0:2, 3:6], (0, 3), (2, 3)),
        (X[2, :], (2, 0), (None, 6)),
        (X[-2:, :], (2, 0), (2, 6)),
    ],
)
def test_a_place_is_a_number_or_a_slice(place: Any, first: tuple[int, int], sizes: tuple[int | None, ...]) -> None:
    assert tuple(place) == first
    assert place.sizes == sizes


@pytest.mark.parametrize("rows", [slice(0, 4, 2), slice(3, 3), slice(2, 9)])
def test_a_slice_that_is_no_block_of_tiles_is_refused(rows: slice) -> None:
    with pytest.raises(GraphError, match="are no part of 4"):
        X[rows, 0]


def test_a_copy_fills_what_its_slice_says() -> None:
    @ttl.kernel()
    def wrong(x: ttl.Tensor) -> tuple[Op, ...]:
        cb = ttl.make_circular_buffer_like(x, (2, 2))

        @ttl.datamovement()
        def read() -> None:
            with cb.reserve() as room:
                ttl.copy(x[0:2, 0:3], room).wait()

        return ttl.Program(read)(x)

    with pytest.raises(GraphError, match="a place of 2 x 3 tiles and a block of 2 x 2"):
        wrong(ttl.Tensor((2, 3)))


def test_a_core_has_a_number() -> None:
    @ttl.kernel(grid=(2, 2))
    def numbered(x: ttl.Tensor) -> tuple[Op, ...]:
        cb = ttl.make_circular_buffer_like(x, (1, 1))

        @ttl.datamovement()
        def read() -> None:
            with cb.reserve() as room:
                ttl.copy(x[ttl.core_linear(), 0], room).wait()

        return ttl.Program(read)(x)

    assert "ttl.core_linear" in [op.name for op in walk(numbered(ttl.Tensor((4, 1))))]


# -- functions of blocks ----------------------------------------------------------------------------------
def test_a_softmax_with_the_documents_functions() -> None:
    def body(x: ttl.Block) -> ttl.Block:
        power = ttl.math.exp(x - ttl.math.bcast(ttl.math.reduce_max(x, dim=1), dim=1))
        return power / ttl.math.bcast(ttl.math.reduce_sum(power, dim=1), dim=1)

    program = one_block("softmax", [(2, 3)], [(2, 3)], body, DType.F32)
    x = np.random.default_rng(1).normal(size=(64, 96)).astype(np.float32)
    (got,) = evaluate(program, {"2": x}).values()
    power = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(got, power / power.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(("dim", "axis"), [(0, 0), (1, 1), (-1, 1), ((0, 1), None)])
def test_a_sum_is_along_its_dimension(dim: Any, axis: int | None) -> None:
    shape = {0: (1, 3), 1: (2, 1), None: (1, 1)}[axis]
    program = one_block("sum", [(2, 3)], [shape], lambda x: ttl.math.reduce_sum(x, dim=dim), DType.F32)
    x = np.random.default_rng(2).integers(-8, 8, (64, 96)).astype(np.float32)
    (got,) = evaluate(program, {"2": x}).values()
    sums = x.sum(axis=axis, keepdims=True)
    np.testing.assert_array_equal(got[: sums.shape[0], : sums.shape[1]], sums)


def test_a_dimension_is_0_or_1() -> None:
    with pytest.raises(OptionError, match="a block has dimensions 0 and 1, got 2"):
        one_block("sum", [(1, 1)], [(1, 1)], lambda x: ttl.math.reduce_sum(x, dim=2))


def test_a_fill_is_like_another_block() -> None:
    program = one_block("fill", [(2, 1)], [(2, 1)], lambda x: x + ttl.math.fill(x, 2.5))
    (got,) = evaluate(program, {"2": np.zeros((64, 32), np.float32)}).values()
    assert (got == 2.5).all()
