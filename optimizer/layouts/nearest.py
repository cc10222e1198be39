"""What comes nearest to a layout override that nothing satisfies, and which rule of shapes and cores forbids it."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.ir.graph import Op, Value
from optimizer.layouts.legal_tensor_layouts import LegalTensorLayoutAnalysis
from optimizer.layouts.memory_config import BufferType, PageLayout, TensorLayout, TensorMemoryLayout
from optimizer.layouts.overrides import LayoutOverride, spelled
from optimizer.layouts.tiling import TILE, ceil_div, physical_shape

SHOWN = 5
"""Layouts that are proposed."""


def nearest(override: LayoutOverride, layouts: Sequence[TensorLayout]) -> tuple[str, ...]:
    """Of the given layouts those that differ least, nearest first, in the option's spelling."""

    def distance(layout: TensorLayout) -> tuple[bool, bool, int, int, str]:
        kind = override.memory_layout not in (None, layout.memory_layout)
        place = override.buffer_type not in (None, layout.memory.buffer_type)
        spec = layout.shard_spec
        apart = 0
        if override.grid_yx is not None:
            rows, cols = (0, 0) if spec is None else spec.grid_yx
            apart = abs(rows - override.grid_yx[0]) + abs(cols - override.grid_yx[1])
        return (kind, place, apart, -layout.num_shard_cores, spelled(layout))

    return tuple(dict.fromkeys(spelled(layout) for layout in sorted(layouts, key=distance)))[:SHOWN]


def why_none(op: Op, value: Value, override: LayoutOverride, pools: LegalTensorLayoutAnalysis, page: PageLayout) -> str:
    """The rule by which no legal layout of a value is what the override asks for."""
    kind, grid = override.memory_layout, override.grid_yx
    sharded = grid is not None or kind not in (None, TensorMemoryLayout.INTERLEAVED)
    if override.buffer_type is BufferType.DRAM and sharded:
        return "a tensor in DRAM is interleaved over its banks; only one in L1 is sharded"
    if sharded and len(op.outputs) != 1:
        return f"{op.op} has {len(op.outputs)} results, and those are interleaved"
    if grid is None:
        return f"{op.op} has no such result"
    kinds = [kind] if kind is not None else [k for k in TensorMemoryLayout if k is not TensorMemoryLayout.INTERLEAVED]
    return "; ".join(_grid_rule(k, value, grid, pools, page) for k in kinds)


def _grid_rule(
    kind: TensorMemoryLayout,
    value: Value,
    grid_yx: tuple[int, int],
    pools: LegalTensorLayoutAnalysis,
    page: PageLayout,
) -> str:
    """Why a kind of sharding cannot have a grid: the board, the tensor's size, or cores without a shard."""
    unit = TILE if page is PageLayout.TILE else 1
    name = "tiles" if unit == TILE else "elements"
    rows, cols = (size // unit for size in physical_shape(value.shape, page))
    device = pools.device
    if kind is TensorMemoryLayout.HEIGHT_SHARDED and grid_yx[1] != 1:
        return f"height sharding has one column of shards, Nx1, N at most {min(rows, device.num_cores)}"
    if kind is TensorMemoryLayout.WIDTH_SHARDED and grid_yx[0] != 1:
        return f"width sharding has one row of shards, 1xN, N at most {min(cols, device.num_cores)}"
    largest = device.grid_yx if kind is TensorMemoryLayout.BLOCK_SHARDED else (device.num_cores, device.num_cores)
    if grid_yx[0] > largest[0] or grid_yx[1] > largest[1]:
        return f"{device.name} has {device.grid_yx[0]}x{device.grid_yx[1]} cores"
    if grid_yx[0] > rows or grid_yx[1] > cols:
        return f"{kind.value}: the tensor has {rows}x{cols} {name}, a shard at least one"
    used = tuple(ceil_div(size, ceil_div(size, n)) for size, n in zip((rows, cols), grid_yx, strict=True))
    return (
        f"{kind.value}: {rows}x{cols} {name} in shards of {ceil_div(rows, grid_yx[0])}x{ceil_div(cols, grid_yx[1])} "
        f"take {used[0]}x{used[1]} cores and would leave others of {grid_yx[0]}x{grid_yx[1]} empty"
    )
