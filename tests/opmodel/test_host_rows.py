"""Operands of ops outside of the vocabulary that lie on the host."""

from __future__ import annotations

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import HOST_ROW_MAJOR
from optimizer.opmodel import registry
from optimizer.opmodel.base import OpQuery, TensorSpec


def test_rows_of_a_block_format_are_moved_as_bfloat16() -> None:
    model = registry.create("analytical", DeviceSpec.preset("n150"), 32768)

    block, plain = (
        model.cost(OpQuery("ttnn.unheard_of", (TensorSpec((64, 64), dtype, HOST_ROW_MAJOR),)))
        for dtype in (DType.BFP8_B, DType.BF16)
    )

    assert block.time_ns == plain.time_ns
