"""Tile, padding and shard arithmetic: how a shape becomes bytes per core.

Source of the rules: tt-mlir `TTNNLayoutAttr` (tile-pad the last two dims before collapsing the leading
ones into rows) and tt-metal's allocator, whose figures these formulas reproduce.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import (
    BufferType,
    CoreRange,
    MemoryConfig,
    PageLayout,
    ShardSpec,
    TensorLayout,
    TensorMemoryLayout,
)

TILE = 32
FACE = TILE // 2


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def round_up(a: int, multiple: int) -> int:
    return -(-a // multiple) * multiple


@lru_cache(maxsize=65536)
def padded_shape(shape: tuple[int, ...], page_layout: PageLayout) -> tuple[int, ...]:
    """Shape with the last two dims rounded up to tiles (tile layout) or as is (row-major). Rank >= 1."""
    if page_layout is PageLayout.ROW_MAJOR:
        return shape
    if len(shape) < 2:
        return (TILE, round_up(shape[0] if shape else 1, TILE))
    return (*shape[:-2], round_up(shape[-2], TILE), round_up(shape[-1], TILE))


@lru_cache(maxsize=65536)
def physical_shape(shape: tuple[int, ...], page_layout: PageLayout) -> tuple[int, int]:
    """The two-dimensional (rows, columns) form: leading dims times padded height, padded width."""
    padded = padded_shape(shape, page_layout)
    if not padded:
        return (1, 1)
    return (prod(padded[:-1]), padded[-1])


def tile_grid(shape: tuple[int, ...]) -> tuple[int, int]:
    """(rows, columns) of the tensor in tiles."""
    rows, cols = physical_shape(shape, PageLayout.TILE)
    return (rows // TILE, cols // TILE)


def core_ranges_for(
    memory_layout: TensorMemoryLayout, grid_yx: tuple[int, int], device: DeviceSpec
) -> tuple[CoreRange, ...]:
    """Cores of a virtual grid: one rectangle for block, a row-major fill of the worker grid otherwise.

    A height or width grid of n cores takes n // W full rows and, if W does not divide n, the first
    n % W cores of the next row (tt-mlir's canonical core range set, tt-metal `num_cores_to_corerangeset`).
    """
    rows, cols = grid_yx
    if memory_layout is TensorMemoryLayout.BLOCK_SHARDED:
        return ((0, 0, cols - 1, rows - 1),)
    width = device.grid_yx[1]
    full, tail = divmod(rows * cols, width)
    ranges: list[CoreRange] = []
    if full:
        ranges.append((0, 0, width - 1, full - 1))
    if tail:
        ranges.append((0, full, tail - 1, full))
    return tuple(ranges)


def sharded_layout(
    shape: tuple[int, ...],
    memory_layout: TensorMemoryLayout,
    grid_yx: tuple[int, int],
    device: DeviceSpec,
    page_layout: PageLayout = PageLayout.TILE,
) -> TensorLayout:
    """The L1 layout that spreads a tensor evenly over a virtual grid; the last shards may be partly empty."""
    rows, cols = physical_shape(shape, page_layout)
    height, width = ceil_div(rows, grid_yx[0]), ceil_div(cols, grid_yx[1])
    if page_layout is PageLayout.TILE:
        height, width = round_up(height, TILE), round_up(width, TILE)
    spec = ShardSpec(grid_yx, (height, width), core_ranges_for(memory_layout, grid_yx, device))
    return TensorLayout(page_layout, MemoryConfig(memory_layout, BufferType.L1, spec))


def tensor_bytes(shape: tuple[int, ...], dtype: DType, page_layout: PageLayout) -> int:
    """Bytes of the whole tensor, padding included."""
    rows, cols = physical_shape(shape, page_layout)
    if page_layout is PageLayout.TILE:
        return (rows // TILE) * (cols // TILE) * dtype.tile_bytes
    return rows * cols * dtype.element_bytes


@lru_cache(maxsize=262144)
def l1_bytes_per_core(shape: tuple[int, ...], dtype: DType, layout: TensorLayout, device: DeviceSpec) -> int:
    """L1 bytes that a tensor takes on every core (the allocator is lock-step); 0 unless it is in L1.

    Interleaved: `ceil(pages / cores) * page`, a page being a tile or a row rounded up to the L1
    alignment. Sharded: the bytes of one shard. A sharded layout without shards has no size: ValueError.
    """
    if not layout.is_l1:
        return 0
    rows, cols = physical_shape(shape, layout.page_layout)
    if layout.is_sharded:
        spec = layout.shard_spec
        if spec is None:
            raise ValueError("a sharded layout without shard_spec has no size")
        height, width = spec.shape
        if layout.is_tile:
            return ceil_div(height, TILE) * ceil_div(width, TILE) * dtype.tile_bytes
        return height * round_up(width * dtype.element_bytes, device.l1_alignment_bytes)
    if layout.is_tile:
        return ceil_div((rows // TILE) * (cols // TILE), device.num_cores) * dtype.tile_bytes
    page = round_up(cols * dtype.element_bytes, device.l1_alignment_bytes)
    return ceil_div(rows, device.num_cores) * page
