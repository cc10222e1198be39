"""Which element types an op takes."""

from __future__ import annotations

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import DRAM_TILE
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.opmodel.registry import create


@pytest.mark.parametrize(
    ("op", "first", "second", "runs"),
    [
        ("ttnn.sin", DType.I32, None, False),
        ("ttnn.sin", DType.F32, None, True),
        ("ttnn.neg", DType.I32, None, True),
        ("ttnn.neg", DType.U32, None, False),
        ("ttnn.bitwise_and", DType.BF16, DType.BF16, False),
        ("ttnn.bitwise_and", DType.U32, DType.U32, True),
        ("ttnn.add", DType.F32, DType.BF16, True),
        ("ttnn.add", DType.F32, DType.I32, False),
        ("ttnn.multiply", DType.F32, DType.I32, True),
        ("ttnn.multiply", DType.F32, DType.U16, False),
        ("ttnn.remainder", DType.F32, DType.BF16, False),
        ("ttnn.softmax", DType.BFP4_B, None, False),
        ("ttnn.mean", DType.I32, None, False),
        ("ttnn.sum", DType.I32, None, True),
        ("ttnn.clamp", DType.U32, None, False),
    ],
)
def test_element_types_that_tt_metal_takes(op: str, first: DType, second: DType | None, runs: bool) -> None:
    """As mock devices answer (ttnn 0.81.1)."""
    model = create("analytical", DeviceSpec.preset("n150"), 32768)
    dtypes = (first,) if second is None else (first, second)
    attrs = (("dim", -1), ("min", 0), ("max", 1))

    answer = model.constraints(OpQuery(op, tuple(TensorSpec((1, 1, 64, 64), d, DRAM_TILE) for d in dtypes), attrs))

    assert answer.valid is runs, answer.error
