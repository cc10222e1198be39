"""Broadcasts: across tiles by the shapes of blocks, within tiles by name, and both at once."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_kernels import Shape, one_block

from optimizer.errors import GraphError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.verify import block_result_shape
from optimizer.kernels.tensix.witness.reference import evaluate
from optimizer.kernels.tensix.witness.whole_tensors import witness
from tests.samples import examples

OPS = ("add", "sub", "mul", "div", "max", "pow", "lt")
FRAMES = ((2, 3), (1, 3), (3, 1), (1, 1))


def parts(frame: Shape) -> list[Shape]:
    """Shapes of operands that a frame may have."""
    rows, columns = frame
    return sorted(set(product((1, rows), (1, columns))))


def repeated(x: np.ndarray, frame: Shape) -> np.ndarray:
    """Tiles of a block repeated over a frame, in numpy."""
    rows, columns = frame
    return np.tile(x, (rows * 32 // x.shape[0], columns * 32 // x.shape[1]))


def computed(program: Op, *blocks: np.ndarray) -> np.ndarray:
    names = [op.result.name for op in program.body.ops if op.name == "ttl.bind_cb"]
    (made,) = evaluate(program, dict(zip(names, blocks, strict=False))).values()
    return made


def numbers(shape: Shape, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.choice([0.25, 0.5, 1.0, 1.5], (shape[0] * 32, shape[1] * 32)).astype(np.float32)


@pytest.mark.parametrize("frame", FRAMES)
def test_a_single_row_or_column_of_tiles_is_repeated(frame: Shape) -> None:
    for a, b in product(parts(frame), repeat=2):
        made = (max(a[0], b[0]), max(a[1], b[1]))
        program = one_block("sum", [a, b], [made], lambda x, y: x - y)
        x, y = numbers(a, 1), numbers(b, 2)
        np.testing.assert_array_equal(computed(program, x, y), repeated(x, made) - repeated(y, made))


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
@pytest.mark.slow
def test_random_frames_compute_what_they_say(data: st.DataObject) -> None:
    """A sum of two ops, each with one operand that may have fewer tiles, in either order."""
    frame = (data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4)))
    small = [data.draw(st.sampled_from(parts(frame))) for _ in range(2)]
    first, second = (data.draw(st.sampled_from(OPS)) for _ in range(2))
    dtype = data.draw(st.sampled_from([DType.BF16, DType.F32]))
    swapped = data.draw(st.booleans())

    def body(x: ttl.Block, a: ttl.Block, b: ttl.Block) -> ttl.Block:
        made = ttl.block_op(first, *((a, x) if swapped else (x, a)))
        return ttl.block_op(second, made, b)

    program = one_block("random", [frame, *small], [frame], body, dtype)
    found = witness(program, KernelOptions(), execute_cpp=False)
    assert (found.interpreter, found.beyond) == (0, 0)


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
@pytest.mark.parametrize("small", parts((2, 3)))
def test_tiles_are_repeated_in_the_cpp(small: Shape) -> None:
    program = one_block("cpp", [(2, 3), small], [(2, 3)], lambda x, b: ttl.math.exp(x) / b + x)
    assert witness(program, KernelOptions()).executed == 0


@pytest.mark.parametrize("shapes", [((2, 3), (2, 2)), ((4, 3), (2, 3)), ((2, 1), (3, 2))])
def test_operands_that_contradict_each_other_are_refused(shapes: tuple[Shape, Shape]) -> None:
    with pytest.raises(GraphError, match="add does not take"):
        one_block("sum", list(shapes), [shapes[0]], lambda x, y: x + y)


@pytest.mark.parametrize(
    ("name", "second", "fits"),
    [
        ("add_bcast_row", (1, 3), True),
        ("add_bcast_row", (1, 1), True),
        ("add_bcast_row", (2, 3), False),
        ("mul_bcast_col", (2, 1), True),
        ("mul_bcast_col", (1, 1), True),
        ("mul_bcast_col", (1, 3), False),
        ("sub_bcast_scalar", (1, 1), True),
        ("sub_bcast_scalar", (1, 3), False),
    ],
)
def test_what_is_broadcast_within_its_tile_has_one_row_or_column_of_them(name: str, second: Shape, fits: bool) -> None:
    assert (block_result_shape(name, ((2, 3), second)) == (2, 3)) is fits


DIMS = {"row": (0, 0), "col": (1, 1), "scalar": ((0, 1), (-2, -1))}


@pytest.mark.parametrize("which", DIMS)
def test_a_dimension_by_either_number(which: str) -> None:
    x = numbers((1, 1), 3)
    wanted = np.broadcast_to({"row": x[:1], "col": x[:, :1], "scalar": x[:1, :1]}[which], x.shape)
    for dim in DIMS[which]:
        program = one_block("bcast", [(1, 1)], [(1, 1)], lambda b, dim=dim: ttl.math.bcast(b, dim))
        np.testing.assert_array_equal(computed(program, x), wanted)


def test_a_broadcast_over_another_blocks_tiles() -> None:
    program = one_block("like", [(2, 1), (2, 3)], [(2, 3)], lambda b, x: ttl.math.bcast(b, 1, like=x))
    x = numbers((2, 1), 4)
    np.testing.assert_array_equal(computed(program, x, x), np.tile(x[:, :1], (1, 96)))


# -- joining --------------------------------------------------------------------------------------------
def after(program: Op, stage: str) -> list[Op]:
    stages: dict[str, Op] = {}
    lower(program, KernelOptions(), stages.__setitem__)
    return list(walk(stages[stage]))


def joined(body: object, *inputs: Shape) -> list[str]:
    program = one_block("joined", list(inputs), [inputs[0]], body)  # type: ignore[arg-type]
    names = [op.name for op in after(program, "join-broadcasts")]
    return [name.removeprefix("ttl.") for name in names if "bcast" in name or name in ("ttl.sub", "ttl.add", "ttl.max")]


def test_a_difference_of_what_lies_in_l1_takes_the_broadcast_in() -> None:
    assert joined(lambda x, m: x - ttl.math.bcast(m, 1), (2, 3), (2, 1)) == ["sub_bcast_col"]
    assert joined(lambda x, m: ttl.math.bcast(m, 1) + x, (2, 3), (2, 1)) == ["add_bcast_col"]


def test_what_is_no_sum_keeps_its_broadcast_over_the_frame() -> None:
    assert joined(lambda x, m: ttl.math.bcast(m, 1) - x, (2, 3), (2, 1)) == ["bcast_col", "sub"]
    program = one_block("wide", [(2, 3), (2, 1)], [(2, 3)], lambda x, m: ttl.math.max(x, ttl.math.bcast(m, 1)))
    (bcast,) = [op for op in after(program, "join-broadcasts") if op.name == "ttl.bcast_col"]
    assert str(bcast.result.type) == "block<2x3xbf16>"
    assert witness(program, KernelOptions(), execute_cpp=False).round_trips_saved == 1


def test_a_broadcast_with_two_readers_is_none_of_theirs() -> None:
    def body(x: ttl.Block, m: ttl.Block) -> ttl.Block:
        wide = ttl.math.bcast(m, 1)
        return (x - wide) + wide

    assert joined(body, (2, 3), (2, 1)) == ["bcast_col", "sub", "add"]


def test_a_computed_value_that_nothing_reads_from_l1_stays_in_dst() -> None:
    def body(x: ttl.Block, m: ttl.Block) -> ttl.Block:
        power = ttl.math.exp(x)
        return ttl.math.max(power - ttl.math.bcast(m, 1), power)

    assert joined(body, (2, 3), (2, 1)) == ["bcast_col", "sub", "max"]


def test_a_block_that_is_popped_on_the_way_is_read_before() -> None:
    @ttl.kernel()
    def popped(x: ttl.Tensor, m: ttl.Tensor, y: ttl.Tensor) -> tuple[Op, ...]:
        x_cb, m_cb, y_cb = (ttl.make_circular_buffer_like(t, t.shape) for t in (x, m, y))

        @ttl.compute()
        def compute() -> None:
            with m_cb.wait() as column:
                wide = ttl.math.bcast(column, 1)
            with x_cb.wait() as block, y_cb.reserve() as room:
                room.store(block - wide)

        return ttl.Program(compute)(x, m, y)

    program = popped(ttl.Tensor((2, 3)), ttl.Tensor((2, 1)), ttl.Tensor((2, 3)))
    assert [op.name for op in after(program, "join-broadcasts") if "bcast" in op.name] == ["ttl.bcast_col"]
