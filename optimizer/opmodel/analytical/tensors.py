"""Rules any device tensor must meet, whatever op it meets, and its size in L1.

Source: tt-metal `TensorSpec`/`TensorLayout` validation; the messages are tt-metal's own.
"""

from __future__ import annotations

from functools import lru_cache

from optimizer.device import DeviceSpec
from optimizer.layouts.memory_config import (
    BufferType,
    MemoryConfig,
    PageLayout,
    ShardOrientation,
    ShardSpec,
    TensorLayout,
    TensorMemoryLayout,
)
from optimizer.layouts.tiling import TILE, ceil_div, l1_bytes_per_core, physical_shape, round_up
from optimizer.opmodel.base import TensorSpec

HEIGHT = TensorMemoryLayout.HEIGHT_SHARDED
WIDTH = TensorMemoryLayout.WIDTH_SHARDED
BLOCK = TensorMemoryLayout.BLOCK_SHARDED
INTERLEAVED = TensorMemoryLayout.INTERLEAVED
DRAM_MEMORY = MemoryConfig(INTERLEAVED, BufferType.DRAM)
L1_MEMORY = MemoryConfig(INTERLEAVED, BufferType.L1)
TILED = PageLayout.TILE
ROWS = PageLayout.ROW_MAJOR


def _grid_problem(
    kind: TensorMemoryLayout, spec: ShardSpec, shards: tuple[int, int], device: DeviceSpec, buffer: BufferType
) -> str | None:
    """A core that does not exist; a block-sharded grid may be larger than its shards (measured on mock devices)."""
    if buffer is not BufferType.L1:
        return _dram_problem(spec, device)
    rows, columns = device.grid_yx
    for x0, y0, x1, y1 in spec.core_ranges:
        if kind is BLOCK:
            tall, wide = shards if spec.orientation is ShardOrientation.ROW_MAJOR else (shards[1], shards[0])
            x1, y1 = min(x1, x0 + wide - 1), min(y1, y0 + tall - 1)
        if x1 >= columns or y1 >= rows:
            return f"Invalid shard grid: shard core ({x1}, {y1}) has no L1 bank on this device"
    return None


def _dram_problem(spec: ShardSpec, device: DeviceSpec) -> str | None:
    """DRAM banks lie in one row: bank number is x."""
    for _, _, x1, y1 in spec.core_ranges:
        if y1 > 0:
            return f"Invalid DRAM shard grid: shard core ({x1}, {y1}) is not on row 0"
        if x1 >= device.dram_banks:
            return f"Invalid shard grid: shard core ({x1}, {y1}) has no DRAM bank on this device"
    return None


def _range_problem(spec: ShardSpec) -> str | None:
    if not spec.core_ranges:
        return "Invalid shard grid: no cores"
    for x0, y0, x1, y1 in spec.core_ranges:
        if x0 < 0 or y0 < 0 or x1 < x0 or y1 < y0 or x1 > 255 or y1 > 255:
            return f"Invalid core range ({x0}, {y0}) - ({x1}, {y1})"
    return None


def _count_problem(kind: TensorMemoryLayout, spec: ShardSpec, shards: tuple[int, int]) -> str | None:
    """More shards than cores to hold them."""
    tall, wide = shards
    if kind is HEIGHT and tall > spec.num_cores:
        return f"Number of shards along height {tall} must not exceed number of cores {spec.num_cores}"
    if kind is WIDTH and wide > spec.num_cores:
        return f"Number of shards along width {wide} must not exceed number of cores {spec.num_cores}"
    if kind is not BLOCK:
        return None
    if len(spec.core_ranges) != 1:
        return "Shard grid must be one full contiguous core grid for block sharded"
    grid_rows, grid_columns = spec.bounding_box_yx
    if spec.orientation is ShardOrientation.COL_MAJOR:
        grid_rows, grid_columns = grid_columns, grid_rows
    order = "row" if spec.orientation is ShardOrientation.ROW_MAJOR else "column"
    if tall > grid_rows:
        return f"Number of shards along height {tall} must not exceed number of rows {grid_rows} for {order} major"
    if wide > grid_columns:
        return f"Number of shards along width {wide} must not exceed number of columns {grid_columns} for {order} major"
    return None


@lru_cache(maxsize=262144)
def spec_problem(tensor: TensorSpec, device: DeviceSpec) -> str | None:
    """Why no such tensor can exist on the device, in tt-metal's words; None when it can."""
    layout = tensor.layout
    if layout.page_layout is ROWS and tensor.dtype.is_block_float:
        return f"{tensor.dtype.value} requires tile layout"
    if not layout.is_sharded:
        return None
    spec = layout.shard_spec
    if spec is None:
        return "bad optional access: a sharded tensor needs a shard spec"
    height, width = spec.shape
    if height <= 0 or width <= 0:
        return f"Shard shape ({height}, {width}) must be positive"
    problem = _range_problem(spec)
    if problem is not None:
        return problem
    if layout.is_tile and (height % TILE or width % TILE):
        return f"Physical shard shape ({height}, {width}) must be tile {{32, 32}} sized!"
    rows, columns = physical_shape(tensor.shape, layout.page_layout)
    if not layout.is_tile:  # row-major shards are the alignment of the last dim
        columns = round_up(columns, width)
        if len(tensor.shape) == 1 and height != 1:
            return f"Shard shape must be 1D for 1D tensor, not ({height}, {width})"
    kind = layout.memory_layout
    if kind is HEIGHT and width != columns:
        return f"Shard width {width} must match physical width {columns} for height sharded"
    if kind is WIDTH and height != rows:
        return f"Shard height {height} must match physical height {rows} for width sharded"
    shards = (ceil_div(rows, height), ceil_div(columns, width))
    problem = _count_problem(kind, spec, shards)
    return problem or _grid_problem(kind, spec, shards, device, layout.memory.buffer_type)


@lru_cache(maxsize=262144)
def l1_bytes(tensor: TensorSpec, device: DeviceSpec) -> int:
    """L1 bytes per core of a tensor that passed `spec_problem`; 0 unless it lives in L1."""
    return l1_bytes_per_core(tensor.shape, tensor.dtype, tensor.layout, device)


@lru_cache(maxsize=262144)
def dram_bank_bytes(tensor: TensorSpec, device: DeviceSpec) -> int:
    """Bytes of the fullest DRAM bank; rows are pages of whole alignments (tt-metal `Buffer::aligned_page_size`)."""
    layout = tensor.layout
    if not layout.is_dram:
        return 0
    spec = layout.shard_spec
    if spec is not None:
        height, width = spec.shape
        if layout.is_tile:
            return ceil_div(height, TILE) * ceil_div(width, TILE) * tensor.dtype.tile_bytes
        return height * width * tensor.dtype.element_bytes
    rows, columns = physical_shape(tensor.shape, layout.page_layout)
    if layout.is_tile:
        pages, page = (rows // TILE) * (columns // TILE), tensor.dtype.tile_bytes
    else:
        pages, page = rows, round_up(columns * tensor.dtype.element_bytes, device.dram_alignment_bytes)
    return ceil_div(pages, device.dram_banks) * page


@lru_cache(maxsize=65536)
def tiles(shape: tuple[int, ...]) -> tuple[int, int]:
    """(rows, columns) of a shape in tiles, leading dims folded into rows after padding."""
    rows, columns = physical_shape(shape, TILED)
    return (rows // TILE, columns // TILE)


def like(tensor: TensorSpec, memory: MemoryConfig) -> TensorSpec:
    """The same tensor somewhere else."""
    return TensorSpec(tensor.shape, tensor.dtype, TensorLayout(tensor.layout.page_layout, memory))


def row_bytes(tensor: TensorSpec) -> int:
    """Bytes of a row of a row-major tensor."""
    return max(1, tensor.shape[-1] if tensor.shape else 1) * tensor.dtype.element_bytes


def row_scratch(size: int, device: DeviceSpec) -> int:
    """Scratch of `interleaved_to_sharded` for rows of `size` bytes: four aligned ones, each with room to shift."""
    step = device.dram_alignment_bytes
    return 4 * (round_up(size, step) + step)
