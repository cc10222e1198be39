"""fill_implicit_tile_padding works on its operand's buffer: recorded answers of mock devices, and refusals."""

from __future__ import annotations

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import DRAM_ROW_MAJOR, DRAM_TILE, L1_TILE, TensorLayout
from optimizer.opmodel.base import OpConstraints, OpQuery, TensorSpec
from optimizer.opmodel.registry import create


def answer(
    shape: tuple[int, ...], dtype: DType = DType.BF16, layout: TensorLayout = DRAM_TILE, to: TensorLayout | None = None
) -> OpConstraints:
    query = OpQuery(
        "ttnn.fill_implicit_tile_padding",
        (TensorSpec(shape, dtype, layout),),
        (("value", -1e9),),
        output=None if to is None else to.memory,
    )
    return create("analytical", DeviceSpec.load("n150")).constraints(query)


@pytest.mark.parametrize("layout", [DRAM_TILE, L1_TILE])
@pytest.mark.parametrize(
    ("shape", "bf16", "f32"),
    [
        ((1, 1, 197, 197), 12288, 24576),
        ((1, 1, 64, 1000), 10240, 20480),
        ((50, 64), 10240, 20480),
        ((5,), 12288, 24576),
        ((1, 1, 64, 64), 0, 0),
    ],
)
def test_buffers(shape: tuple[int, ...], bf16: int, f32: int, layout: TensorLayout) -> None:
    for dtype, cb in ((DType.BF16, bf16), (DType.F32, f32)):
        found = answer(shape, dtype, layout)
        assert (found.valid, found.cb_bytes, found.peak_bytes, found.l1_peak_bytes) == (True, cb, cb, 0)
        assert found.outputs == (TensorSpec(shape, dtype, layout),)


def test_what_it_does_not_fill() -> None:
    assert "in tiles" in str(answer((1, 1, 64, 50), layout=DRAM_ROW_MAJOR).error)
    assert "share exponents" in str(answer((1, 1, 64, 50), DType.BFP8_B).error)
    assert "operand's buffer" in str(answer((1, 1, 64, 50), layout=DRAM_TILE, to=L1_TILE).error)
