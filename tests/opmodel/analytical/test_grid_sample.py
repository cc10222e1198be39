"""Grid sampling: answers of tt-metal 0.81.1 on mock devices, by board where they differ."""

from __future__ import annotations

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.compute_config import COMPUTE, Computation, exact
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr
from optimizer.layouts.memory_config import DRAM_ROW_MAJOR, DRAM_TILE, L1_ROW_MAJOR, TensorLayout
from optimizer.opmodel.base import OpConstraints, OpCost, OpModel, OpQuery, TensorSpec
from optimizer.opmodel.registry import create

PLACES = {"D": DRAM_ROW_MAJOR, "L": L1_ROW_MAJOR}
Attrs = tuple[tuple[str, Attr], ...]
STATED: Attrs = (("align_corners", False), (COMPUTE, exact(Computation(())).attr))


def spec(shape: tuple[int, ...], dtype: str = "bf16", layout: TensorLayout = DRAM_ROW_MAJOR) -> TensorSpec:
    return TensorSpec(shape, DType(dtype), layout)


def model(board: str = "n150") -> OpModel:
    return create("analytical", DeviceSpec.load(board))


def sampled(x: TensorSpec, grid: TensorSpec, board: str = "n150", attrs: Attrs = STATED) -> OpConstraints:
    return model(board).constraints(OpQuery("ttnn.grid_sample", (x, grid), attrs))


@pytest.mark.parametrize(
    ("x", "points", "dtype", "place", "board", "cb", "peak"),
    [
        ((1, 4, 4, 32), (1, 4, 4), "bf16", "D", "n150", 8352, 8352),
        ((1, 4, 4, 32), (1, 4, 4), "bf16", "L", "n150", 8336, 8400),
        ((1, 4, 4, 32), (1, 4, 4), "f32", "D", "n150", 16672, 16672),
        ((1, 32, 32, 256), (1, 32, 32), "bf16", "D", "n150", 21536, 21536),
        ((1, 32, 32, 256), (1, 32, 32), "bf16", "D", "p150", 21568, 21568),
        ((1, 32, 32, 256), (1, 32, 32), "bf16", "L", "p150", 21520, 26640),
    ],
)
def test_buffers_of_32_bit_sums(
    x: tuple[int, ...], points: tuple[int, ...], dtype: str, place: str, board: str, cb: int, peak: int
) -> None:
    answer = sampled(spec(x, dtype), spec((*points, 2), layout=PLACES[place]), board)

    assert (answer.cb_bytes, answer.peak_bytes) == (cb, peak)
    assert answer.outputs[0].shape == (*points, x[-1])
    assert answer.outputs[0].layout == PLACES[place], "the result lies where the grid does"


def test_16_bit_sums_take_eight_tiles_of_channels_at_once() -> None:
    answer = sampled(spec((1, 32, 32, 256)), spec((1, 32, 32, 2)), attrs=(("align_corners", False),))
    assert answer.cb_bytes == 37920


@pytest.mark.parametrize(
    ("x", "grid", "why"),
    [
        (spec((1, 8, 8, 48)), spec((1, 4, 4, 2)), "channels must be a multiple of 32, but got 48"),
        (spec((1, 8, 8, 32), layout=DRAM_TILE), spec((1, 4, 4, 2)), "Input tensor must be ROW_MAJOR layout"),
        (spec((1, 8, 8, 32)), spec((1, 4, 4, 2), layout=DRAM_TILE), "Grid tensor must be ROW_MAJOR layout"),
        (spec((1, 8, 8, 32)), spec((1, 4, 4, 2), "u32"), "Grid tensor must be BFLOAT16 or FLOAT32"),
        (spec((2, 8, 8, 32)), spec((1, 4, 4, 2)), "2 images, 1 grids"),
    ],
)
def test_what_is_refused(x: TensorSpec, grid: TensorSpec, why: str) -> None:
    answer = sampled(x, grid)

    assert not answer.valid
    assert why in str(answer.error)


def cost(points: int, channels: int) -> OpCost:
    query = OpQuery("ttnn.grid_sample", (spec((1, 64, 64, channels)), spec((1, 1, points, 2))), STATED)
    return model().cost(query)


def test_time_grows_with_points_and_channels() -> None:
    few, many, wide = cost(1 << 12, 64), cost(1 << 15, 64), cost(1 << 15, 256)

    assert few.time_ns < many.time_ns < wide.time_ns


def test_a_result_may_be_asked_for_in_l1() -> None:
    operands = (spec((1, 4, 4, 32)), spec((1, 4, 4, 2)))
    answer = model().constraints(OpQuery("ttnn.grid_sample", operands, STATED, output=L1_ROW_MAJOR.memory))

    assert answer.outputs[0].layout == L1_ROW_MAJOR
