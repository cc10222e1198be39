"""Shard specs that tt-metal derives when the caller names only a memory layout.

Sources: tt-metal 0.81 `synthesize_output_shard_spec.cpp`, `transpose_utils.cpp`.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from optimizer.device import DeviceSpec
from optimizer.layouts.memory_config import CoreRange, MemoryConfig, ShardOrientation, ShardSpec, TensorMemoryLayout
from optimizer.layouts.tiling import TILE, ceil_div, padded_shape, round_up
from optimizer.opmodel.analytical.case import need
from optimizer.opmodel.analytical.tensors import BLOCK, HEIGHT, TILED, WIDTH
from optimizer.opmodel.base import TensorSpec

Shape = tuple[int, ...]
ROW_WISE = ShardOrientation.ROW_MAJOR
BAD_ACCESS = "bad optional access: a sharded memory config needs shards here"


def named_shards(memory: MemoryConfig, message: str = BAD_ACCESS) -> ShardSpec:
    """The shards that a memory config names; refused where it leaves them to the op."""
    need(memory.shard_spec is not None, message)
    assert memory.shard_spec is not None
    return memory.shard_spec


def reshaped(spec: ShardSpec, shape: tuple[int, int]) -> ShardSpec:
    """The same cores with shards of another size."""
    return ShardSpec(spec.grid_yx, shape, spec.core_ranges, spec.orientation)


def with_spec(memory: MemoryConfig, spec: ShardSpec) -> MemoryConfig:
    """The memory config with other shards; their grid is a column of height shards or a row of width shards."""
    grid = {HEIGHT: (spec.num_cores, 1), WIDTH: (1, spec.num_cores)}.get(memory.memory_layout, spec.grid_yx)
    laid = spec if grid == spec.grid_yx else ShardSpec(grid, spec.shape, spec.core_ranges, spec.orientation)
    return MemoryConfig(memory.memory_layout, memory.buffer_type, laid)


def first_cores(
    count: int, grid_yx: tuple[int, int], orientation: ShardOrientation = ROW_WISE
) -> tuple[CoreRange, ...]:
    """`num_cores_to_corerangeset`: the first cores of a grid, filled row by row or column by column."""
    rows, columns = grid_yx
    by_row = orientation is ROW_WISE
    full, rest = divmod(count, columns if by_row else rows)
    ranges: list[CoreRange] = []
    if full:
        ranges.append((0, 0, columns - 1, full - 1) if by_row else (0, 0, full - 1, rows - 1))
    if rest:
        ranges.append((0, full, rest - 1, full) if by_row else (full, 0, full, rest - 1))
    return tuple(ranges)


def flat_spec(
    kind: TensorMemoryLayout,
    cores: int,
    shape: tuple[int, int],
    device: DeviceSpec,
    orientation: ShardOrientation = ROW_WISE,
) -> ShardSpec:
    """Height or width shards on the first `cores` cores."""
    grid = (cores, 1) if kind is HEIGHT else (1, cores)
    return ShardSpec(grid, shape, first_cores(cores, device.grid_yx, orientation), orientation)


def block_spec(rows: int, columns: int, shape: tuple[int, int], orientation: ShardOrientation = ROW_WISE) -> ShardSpec:
    """Block shards on a `rows` x `columns` rectangle of cores (physical, as laid out on the chip)."""
    grid = (rows, columns) if orientation is ROW_WISE else (columns, rows)
    return ShardSpec(grid, shape, ((0, 0, columns - 1, rows - 1),), orientation)


@lru_cache(maxsize=16384)
def synthesized(
    shape: Shape,
    kind: TensorMemoryLayout,
    device: DeviceSpec,
    orientation: ShardOrientation = ROW_WISE,
    tiled: bool = True,
) -> ShardSpec:
    """Shards of a padded shape over the whole grid (`generate_shard_spec_all_cores`), on the cores that get one."""
    height, width, up = prod(shape[:-1]), shape[-1], TILE if tiled else 1
    rows, columns = device.grid_yx
    if kind is BLOCK:
        tall, wide = (rows, columns) if orientation is ROW_WISE else (columns, rows)
        block = (round_up(ceil_div(height, tall), up), round_up(ceil_div(width, wide), up))
        used = (ceil_div(height, block[0]), ceil_div(width, block[1]))
        y, x = used if orientation is ROW_WISE else (used[1], used[0])
        return block_spec(max(y, 1), max(x, 1), block, orientation)
    if kind is HEIGHT:
        cut = (round_up(ceil_div(height, device.num_cores), up), round_up(width, up))
        return flat_spec(kind, max(1, ceil_div(height, cut[0])), cut, device, orientation)
    cut = (round_up(height, up), round_up(ceil_div(width, device.num_cores), up))
    return flat_spec(kind, max(1, ceil_div(width, cut[1])), cut, device, orientation)


def paged_rows(
    spec: ShardSpec, kind: TensorMemoryLayout, width: int, size: int, device: DeviceSpec
) -> ShardSpec | None:
    """Width shards whose rows are L1-aligned and divide the width (`shrink_shard_for_rm_page_alignment`, strict).

    `size` is bytes per element; None where no such shards exist.
    """

    def whole(part: int) -> bool:
        return part * size % device.l1_alignment_bytes == 0 and part > 0 and width % part == 0

    if whole(spec.shape[1]):
        return spec
    if kind is not WIDTH:
        return None
    for count in range(device.num_cores, 0, -1):
        if width % count == 0 and whole(width // count):
            return flat_spec(kind, count, (spec.shape[0], width // count), device, spec.orientation)
    return None


def adjusted(spec: ShardSpec, from_shape: Shape, to_shape: Shape) -> ShardSpec | None:
    """`adjust_shard_spec_to_shape`: shards scaled exactly, None when that leaves a fraction."""
    rows_a, rows_b = prod(from_shape[:-1]), prod(to_shape[:-1])
    tall, wide = spec.shape[0] * rows_b, spec.shape[1] * to_shape[-1]
    if rows_a == 0 or from_shape[-1] == 0 or tall % rows_a or wide % from_shape[-1]:
        return None
    return reshaped(spec, (tall // rows_a, wide // from_shape[-1]))


@lru_cache(maxsize=16384)
def _stretched(spec: ShardSpec, from_shape: Shape, to_shape: Shape) -> ShardSpec:
    """The shard of one shape stretched to another on the same cores (`adjust_to_shape` of eltwise ops)."""
    a, b = padded_shape(from_shape, TILED), padded_shape(to_shape, TILED)
    height = max(spec.shape[0] * prod(b[:-1]) // prod(a[:-1]), TILE)
    return reshaped(spec, (height, max(spec.shape[1] * b[-1] // a[-1], TILE)))


def scaled_memory(tensor: TensorSpec, to_shape: Shape) -> MemoryConfig:
    """A tensor's memory config stretched to another shape."""
    memory = tensor.layout.memory
    if memory.shard_spec is None or tensor.shape == to_shape:
        return memory
    spec = _stretched(memory.shard_spec, tensor.shape, to_shape)
    return MemoryConfig(memory.memory_layout, memory.buffer_type, spec)


def grid_shards(spec: ShardSpec) -> tuple[int, int]:
    """(rows, columns) of shards that a block-sharded grid holds; swapped when filled column by column."""
    rows, columns = spec.bounding_box_yx
    return (rows, columns) if spec.orientation is ROW_WISE else (columns, rows)


def tile_aligned(spec: ShardSpec) -> bool:
    return spec.shape[0] % TILE == 0 and spec.shape[1] % TILE == 0
