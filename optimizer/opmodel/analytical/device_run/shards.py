"""Shards that data-movement ops derive (`synthesize_output_shard_spec.cpp`, `transpose_utils.cpp`, 0.81)."""

from __future__ import annotations

from math import prod

from optimizer.device import DeviceSpec
from optimizer.layouts.memory_config import CoreRange, MemoryConfig, ShardOrientation, ShardSpec, TensorMemoryLayout
from optimizer.layouts.tiling import TILE, ceil_div, round_up
from optimizer.opmodel.analytical.derive import block_spec
from optimizer.opmodel.analytical.device_run.session import Shape
from optimizer.opmodel.analytical.tensors import BLOCK, HEIGHT, WIDTH, bounding_box

ROW_WISE = ShardOrientation.ROW_MAJOR


def reshaped(spec: ShardSpec, shape: tuple[int, int]) -> ShardSpec:
    """The same cores with shards of another size."""
    return ShardSpec(spec.grid_yx, shape, spec.core_ranges, spec.orientation)


def with_spec(memory: MemoryConfig, spec: ShardSpec) -> MemoryConfig:
    """The memory config with other shards; their grid is a column of height shards or a row of width shards."""
    grid = {HEIGHT: (spec.num_cores, 1), WIDTH: (1, spec.num_cores)}.get(memory.memory_layout, spec.grid_yx)
    laid = spec if grid == spec.grid_yx else ShardSpec(grid, spec.shape, spec.core_ranges, spec.orientation)
    return MemoryConfig(memory.memory_layout, memory.buffer_type, laid)


def first_cores(count: int, device: DeviceSpec, orientation: ShardOrientation) -> tuple[CoreRange, ...]:
    """`num_cores_to_corerangeset`: the first cores of the grid, filled row by row or column by column."""
    rows, columns = device.grid_yx
    by_row = orientation is ROW_WISE
    full, rest = divmod(count, columns if by_row else rows)
    ranges: list[CoreRange] = []
    if full:
        ranges.append((0, 0, columns - 1, full - 1) if by_row else (0, 0, full - 1, rows - 1))
    if rest:
        ranges.append((0, full, rest - 1, full) if by_row else (full, 0, full, rest - 1))
    return tuple(ranges)


def flat(
    kind: TensorMemoryLayout,
    count: int,
    shape: tuple[int, int],
    device: DeviceSpec,
    orientation: ShardOrientation = ROW_WISE,
) -> ShardSpec:
    """Height or width shards on the first `count` cores."""
    grid = (count, 1) if kind is HEIGHT else (1, count)
    return ShardSpec(grid, shape, first_cores(count, device, orientation), orientation)


def synthesized(
    shape: Shape,
    kind: TensorMemoryLayout,
    device: DeviceSpec,
    orientation: ShardOrientation = ROW_WISE,
    tiled: bool = True,
) -> ShardSpec:
    """Shards of a padded shape over the whole grid, on the cores that get one."""
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
        return flat(kind, max(1, ceil_div(height, cut[0])), cut, device, orientation)
    cut = (round_up(height, up), round_up(ceil_div(width, device.num_cores), up))
    return flat(kind, max(1, ceil_div(width, cut[1])), cut, device, orientation)


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
            return flat(kind, count, (spec.shape[0], width // count), device, spec.orientation)
    return None


def adjusted(spec: ShardSpec, from_shape: Shape, to_shape: Shape) -> ShardSpec | None:
    """`adjust_shard_spec_to_shape`: shards scaled exactly, None when that leaves a fraction."""
    rows_a, rows_b = prod(from_shape[:-1]), prod(to_shape[:-1])
    tall, wide = spec.shape[0] * rows_b, spec.shape[1] * to_shape[-1]
    if rows_a == 0 or from_shape[-1] == 0 or tall % rows_a or wide % from_shape[-1]:
        return None
    return reshaped(spec, (tall // rows_a, wide // from_shape[-1]))


def grid_shards(spec: ShardSpec) -> tuple[int, int]:
    """(rows, columns) of shards that a block-sharded grid holds; swapped when filled column by column."""
    rows, columns = bounding_box(spec)
    return (rows, columns) if spec.orientation is ROW_WISE else (columns, rows)


def is_rectangle(spec: ShardSpec) -> bool:
    rows, columns = bounding_box(spec)
    return rows * columns == spec.num_cores


def tile_aligned(spec: ShardSpec) -> bool:
    return spec.shape[0] % TILE == 0 and spec.shape[1] % TILE == 0
