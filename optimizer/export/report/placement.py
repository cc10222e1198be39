"""Where a tensor lies, as the report colours it."""

from __future__ import annotations

from enum import StrEnum

from optimizer.ir.graph import Op
from optimizer.layouts.memory_config import BufferType, TensorLayout, TensorMemoryLayout
from optimizer.result import OptimizedGraph, Role


class Placement(StrEnum):
    DRAM = "dram"
    INTERLEAVED = "l1_interleaved"
    HEIGHT = "height_sharded"
    WIDTH = "width_sharded"
    BLOCK = "block_sharded"
    HOST = "host"


_SHARDED = {
    TensorMemoryLayout.INTERLEAVED: Placement.INTERLEAVED,
    TensorMemoryLayout.HEIGHT_SHARDED: Placement.HEIGHT,
    TensorMemoryLayout.WIDTH_SHARDED: Placement.WIDTH,
    TensorMemoryLayout.BLOCK_SHARDED: Placement.BLOCK,
}


def placement(layout: TensorLayout) -> Placement:
    """The way into L1, or the other memory."""
    if layout.is_l1:
        return _SHARDED[layout.memory.memory_layout]
    return Placement.HOST if layout.memory.buffer_type is BufferType.HOST else Placement.DRAM


def op_placement(result: OptimizedGraph, op: Op) -> Placement:
    """Where an op leaves its first result."""
    layout = result.layouts.get(op.outputs[0]) if op.outputs else None
    if layout is None:
        return Placement.HOST if result.records[op.id].role is Role.HOST else Placement.DRAM
    return placement(layout)
