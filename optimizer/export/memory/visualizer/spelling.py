"""Tensors and memory configs as a ttnn-visualizer report spells them."""

from __future__ import annotations

from collections.abc import Iterable

from optimizer.layouts.memory_config import BufferType, CoreRange, MemoryConfig, TensorMemoryLayout

BUFFER_TYPES = {BufferType.DRAM: 0, BufferType.L1: 1}
"""Numbers of tt-metal's `BufferType`; what lies on the host has none."""
BUFFER_LAYOUTS = {
    TensorMemoryLayout.INTERLEAVED: 0,
    TensorMemoryLayout.HEIGHT_SHARDED: 2,
    TensorMemoryLayout.WIDTH_SHARDED: 3,
    TensorMemoryLayout.BLOCK_SHARDED: 4,
}
"""Numbers of tt-metal's `TensorMemoryLayout`."""
_BUFFER_NAMES = {BufferType.DRAM: "DRAM", BufferType.L1: "L1", BufferType.HOST: "SYSTEM_MEMORY"}


def shape_text(shape: Iterable[int]) -> str:
    """`Shape([1, 1, 32, 32])`."""
    return f"Shape([{', '.join(map(str, shape))}])"


def memory_config_text(memory: MemoryConfig) -> str:
    """`MemoryConfig(...)` in the form that the visualizer parses: of later forms of shards it shows nothing."""
    shards = "std::nullopt"
    spec = memory.shard_spec
    if spec is not None:
        ranges = ", ".join(f"[(x={x0},y={y0}) - (x={x1},y={y1})]" for x0, y0, x1, y1 in spec.core_ranges)
        height, width = spec.shape
        shards = (
            f"ShardSpec(grid={{{ranges}}},shape={{{height}, {width}}},"
            f"orientation=ShardOrientation::{spec.orientation.value.upper()},halo=0)"
        )
    return (
        f"MemoryConfig(memory_layout=TensorMemoryLayout::{memory.memory_layout.value.upper()},"
        f"buffer_type=BufferType::{_BUFFER_NAMES[memory.buffer_type]},shard_spec={shards})"
    )


def core_range_set_text(ranges: Iterable[CoreRange]) -> str:
    """`{[0-0 - 7-6]}`: corners as x-y."""
    return "{" + ", ".join(f"[{x0}-{y0} - {x1}-{y1}]" for x0, y0, x1, y1 in ranges) + "}"
