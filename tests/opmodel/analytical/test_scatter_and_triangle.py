"""Scatter and triangles: answers of tt-metal 0.81.1 on mock devices, by board where they differ."""

from __future__ import annotations

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import (
    DRAM_ROW_MAJOR,
    DRAM_TILE,
    BufferType,
    MemoryConfig,
    PageLayout,
    TensorLayout,
    TensorMemoryLayout,
)
from optimizer.opmodel.base import OpConstraints, OpQuery, TensorSpec
from optimizer.opmodel.registry import create

L1 = MemoryConfig(TensorMemoryLayout.INTERLEAVED, BufferType.L1)
MEMORY = {"D": None, "L": L1}


def scatter(
    op: str, x: tuple[int, ...], index: tuple[int, ...], dtype: str, dim: int, output: str, board: str
) -> OpConstraints:
    inputs = tuple(TensorSpec(s, DType(t), DRAM_ROW_MAJOR) for s, t in ((x, dtype), (index, "u32"), (index, dtype)))
    query = OpQuery(f"ttnn.{op}", inputs, (("dim", dim),), output=MEMORY[output])
    return create("analytical", DeviceSpec.load(board)).constraints(query)


@pytest.mark.parametrize(
    ("op", "x", "index", "dtype", "output", "board", "cb", "peak"),
    [
        ("scatter", (64, 64), (64, 32), "bf16", "D", "n150", 448, 448),
        ("scatter", (2, 3, 60, 70), (2, 3, 60, 20), "bf16", "L", "n150", 480, 1344),
        ("scatter", (2, 3, 60, 70), (2, 3, 60, 20), "f32", "L", "n150", 768, 2496),
        ("scatter", (4096,), (100,), "i32", "D", "n150", 33600, 33600),
        ("scatter_add", (100,), (28,), "bf16", "D", "n150", 1056, 1056),
        ("scatter_add", (2, 32, 2, 100, 100), (2, 32, 2, 100, 61), "f32", "D", "p150", 1344, 1344),
        ("scatter", (7,), (1,), "u32", "L", "p150", 128, 160),
    ],
)
def test_scatter_takes_rows(
    op: str, x: tuple[int, ...], index: tuple[int, ...], dtype: str, output: str, board: str, cb: int, peak: int
) -> None:
    answer = scatter(op, x, index, dtype, len(x) - 1, output, board)
    assert (answer.cb_bytes, answer.peak_bytes) == (cb, peak)
    assert answer.outputs[0].layout.page_layout is PageLayout.ROW_MAJOR


def test_scatter_along_another_dim_is_left_to_the_importer() -> None:
    answer = scatter("scatter", (64, 64), (32, 64), "bf16", 0, "D", "n150")
    assert not answer.valid
    assert answer.error == "only the last dim is supported"


@pytest.mark.parametrize(
    ("shape", "dtype", "operand", "output", "cb", "peak"),
    [
        ((1, 1, 64, 64), "bf16", "D", "D", 12288, 12288),
        ((1, 1, 1024, 1024), "bf16", "L", "L", 12288, 77824),
        ((1, 1, 1024, 1024), "f32", "D", "L", 20480, 118784),
        ((2, 3, 60, 70), "i32", "D", "L", 24576, 32768),
        ((7,), "bfp8_b", "L", "L", 8448, 11584),
    ],
)
@pytest.mark.parametrize("op", ["ttnn.tril", "ttnn.triu"])
def test_triangle_holds_its_mask(
    op: str, shape: tuple[int, ...], dtype: str, operand: str, output: str, cb: int, peak: int
) -> None:
    layout = DRAM_TILE if operand == "D" else TensorLayout(PageLayout.TILE, L1)
    query = OpQuery(op, (TensorSpec(shape, DType(dtype), layout),), (("diagonal", 1),), output=MEMORY[output])
    answer = create("analytical", DeviceSpec.load("n150")).constraints(query)
    assert (answer.cb_bytes, answer.peak_bytes) == (cb, peak)


def test_a_triangle_of_rows_is_refused() -> None:
    query = OpQuery("ttnn.tril", (TensorSpec((64, 64), DType.BF16, DRAM_ROW_MAJOR),))
    answer = create("analytical", DeviceSpec.load("n150")).constraints(query)
    assert not answer.valid
