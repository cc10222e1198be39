"""Shard specs that tt-metal derives when the caller names only a memory layout."""

from __future__ import annotations

from functools import lru_cache

from optimizer.device import DeviceSpec
from optimizer.layouts.memory_config import CoreRange, MemoryConfig, ShardOrientation, ShardSpec, TensorMemoryLayout
from optimizer.layouts.tiling import TILE, ceil_div, core_ranges_for, padded_shape, round_up
from optimizer.opmodel.analytical.tensors import BLOCK, HEIGHT, TILED
from optimizer.opmodel.base import TensorSpec


def flat_spec(
    kind: TensorMemoryLayout,
    cores: int,
    shape: tuple[int, int],
    device: DeviceSpec,
    orientation: ShardOrientation = ShardOrientation.ROW_MAJOR,
) -> ShardSpec:
    """Height or width shards on the first `cores` cores, filled row by row."""
    grid = (cores, 1) if kind is HEIGHT else (1, cores)
    return ShardSpec(grid, shape, core_ranges_for(kind, grid, device), orientation)


def block_spec(
    rows: int, columns: int, shape: tuple[int, int], orientation: ShardOrientation = ShardOrientation.ROW_MAJOR
) -> ShardSpec:
    """Block shards on a `rows` x `columns` rectangle of cores (physical, as laid out on the chip)."""
    ranges: tuple[CoreRange, ...] = ((0, 0, columns - 1, rows - 1),)
    grid = (rows, columns) if orientation is ShardOrientation.ROW_MAJOR else (columns, rows)
    return ShardSpec(grid, shape, ranges, orientation)


@lru_cache(maxsize=16384)
def whole_grid_spec(kind: TensorMemoryLayout, rows: int, columns: int, tiled: bool, device: DeviceSpec) -> ShardSpec:
    """Shards for every worker core (`generate_shard_spec_all_cores`), on the cores that get one."""
    grid_rows, grid_columns = device.grid_yx
    cores = device.num_cores
    up = TILE if tiled else 1
    if kind is BLOCK:
        block = (round_up(ceil_div(rows, grid_rows), up), round_up(ceil_div(columns, grid_columns), up))
        return block_spec(ceil_div(rows, block[0]), ceil_div(columns, block[1]), block)
    if kind is HEIGHT:
        shape = (round_up(ceil_div(rows, cores), up), columns)
        return flat_spec(kind, ceil_div(rows, shape[0]), shape, device)
    shape = (rows, round_up(ceil_div(columns, cores), up))
    return flat_spec(kind, ceil_div(columns, shape[1]), shape, device)


@lru_cache(maxsize=16384)
def scaled_spec(spec: ShardSpec, from_shape: tuple[int, ...], to_shape: tuple[int, ...]) -> ShardSpec:
    """The shard of one shape stretched to another on the same cores (`adjust_to_shape` of eltwise ops)."""
    a, b = padded_shape(from_shape, TILED), padded_shape(to_shape, TILED)
    rows_a, rows_b = _rows(a), _rows(b)
    height = max(spec.shape[0] * rows_b // rows_a, TILE)
    width = max(spec.shape[1] * b[-1] // a[-1], TILE)
    return ShardSpec(spec.grid_yx, (height, width), spec.core_ranges, spec.orientation)


def _rows(padded: tuple[int, ...]) -> int:
    rows = 1
    for size in padded[:-1]:
        rows *= size
    return rows


def scaled_memory(tensor: TensorSpec, to_shape: tuple[int, ...]) -> MemoryConfig:
    """A tensor's memory config stretched to another shape."""
    memory = tensor.layout.memory
    if memory.shard_spec is None or tensor.shape == to_shape:
        return memory
    return MemoryConfig(
        memory.memory_layout, memory.buffer_type, scaled_spec(memory.shard_spec, tensor.shape, to_shape)
    )
