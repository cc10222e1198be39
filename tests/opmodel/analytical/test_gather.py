"""Gathering: answers of tt-metal 0.81.1 on a mock n150."""

from __future__ import annotations

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import DRAM_ROW_MAJOR, DRAM_TILE, L1_TILE
from optimizer.opmodel.base import OpConstraints, OpQuery, TensorSpec
from optimizer.opmodel.registry import create

PLACES = {"dram": DRAM_TILE, "l1": L1_TILE}
Given = tuple[tuple[int, ...], str, str]


def gathered(x: Given, index: Given, dim: int, asked: str | None) -> OpConstraints:
    operands = tuple(TensorSpec(shape, DType(dtype), PLACES[place]) for shape, dtype, place in (x, index))
    query = OpQuery("ttnn.gather", operands, (("dim", dim),), output=PLACES[asked].memory if asked else None)
    return create("analytical", DeviceSpec.load("n150")).constraints(query)


@pytest.mark.parametrize(
    ("x", "index", "dim", "asked", "lies", "peak"),
    [
        (((8, 320), "bf16", "dram"), ((8, 64), "u16", "dram"), -1, "l1", "l1", 32768),
        (((1, 8, 320), "bf16", "l1"), ((1, 8, 32), "u32", "dram"), -1, None, "l1", 36864),
        (((3, 2, 1, 1000), "bf16", "dram"), ((3, 2, 1, 2000), "u32", "dram"), -1, "dram", "dram", 198656),
        (((2, 3, 8, 320), "f32", "l1"), ((2, 1, 8, 320), "u16", "l1"), -3, "dram", "l1", 127040),
        (((2, 3, 48, 320), "f32", "l1"), ((32, 3, 48, 320), "u32", "dram"), 0, "dram", "dram", 270400),
        (((3, 2, 1, 20, 64), "bf16", "l1"), ((20, 2, 1, 20, 64), "u32", "l1"), 0, "dram", "l1", 36864),
    ],
)
def test_place_and_peak(x: Given, index: Given, dim: int, asked: str | None, lies: str, peak: int) -> None:
    """Along another dim than the last the result lies where the index does, whatever was asked for."""
    answer = gathered(x, index, dim, asked)

    assert [(out.shape, out.layout) for out in answer.outputs] == [(index[0], PLACES[lies])]
    assert answer.peak_bytes == peak


@pytest.mark.parametrize(("dtype", "place"), [("i32", "dram"), ("u32", "row_major")])
def test_what_is_refused(dtype: str, place: str) -> None:
    layout = DRAM_TILE if place == "dram" else DRAM_ROW_MAJOR
    index = TensorSpec((1, 32, 32), DType(dtype), layout)
    query = OpQuery("ttnn.gather", (TensorSpec((1, 32, 64), DType.BF16, DRAM_TILE), index), (("dim", -1),))

    assert not create("analytical", DeviceSpec.load("n150")).constraints(query).valid
