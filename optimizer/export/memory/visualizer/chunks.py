"""L1 tensors core by core: what of each lies on which core, in pages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import CoreRange, ShardOrientation, TensorLayout
from optimizer.layouts.tiling import TILE, ceil_div, physical_shape, round_up


@dataclass(frozen=True, slots=True)
class Chunk:
    """The part of a tensor on one core, from the tensor's address on."""

    core_x: int
    core_y: int
    pages: int
    page_bytes: int
    size_bytes: int
    """From its first page to the end of its last; there may be gaps in the last shards of a row."""


@lru_cache(maxsize=4096)
def chunks(shape: tuple[int, ...], dtype: DType, layout: TensorLayout, device: DeviceSpec) -> tuple[Chunk, ...]:
    """Of a tensor in L1. Cores that get no page have no chunk.

    Interleaved pages are dealt out over the banks, which are numbered here as the cores are, row by row; tt-metal has
    an order of its own, which depends on the chip.
    """
    rows, columns = physical_shape(shape, layout.page_layout)
    unit = TILE if layout.is_tile else 1
    spec = layout.shard_spec
    width = columns if spec is None else spec.shape[1]
    page = dtype.tile_bytes if layout.is_tile else _row_bytes(width, dtype, device)
    if spec is None:
        total = (rows // unit) * (columns // unit if layout.is_tile else 1)
        dealt = (ceil_div(total - bank, device.num_cores) for bank in range(device.num_cores))
        return tuple(
            Chunk(bank % device.grid_yx[1], bank // device.grid_yx[1], pages, page, pages * page)
            for bank, pages in enumerate(dealt)
            if pages > 0
        )
    across = spec.shape[1] // unit if layout.is_tile else 1
    by_columns = spec.orientation is ShardOrientation.COL_MAJOR
    found = []
    for number, (x, y) in enumerate(core for ranges in spec.core_ranges for core in _cores(ranges, by_columns)):
        row, column = divmod(number, spec.grid_yx[1])
        high = ceil_div(min(spec.shape[0], rows - row * spec.shape[0]), unit)
        wide = ceil_div(min(spec.shape[1], columns - column * spec.shape[1]), unit)
        if high > 0 and wide > 0:
            wide = wide if layout.is_tile else 1
            found.append(Chunk(x, y, high * wide, page, ((high - 1) * across + wide) * page))
    return tuple(found)


def _row_bytes(columns: int, dtype: DType, device: DeviceSpec) -> int:
    return round_up(columns * dtype.element_bytes, device.l1_alignment_bytes)


def _cores(ranges: CoreRange, by_columns: bool) -> Iterator[tuple[int, int]]:
    """The (x, y) of a rectangle, row by row or column by column."""
    x0, y0, x1, y1 = ranges
    if by_columns:
        yield from ((x, y) for x in range(x0, x1 + 1) for y in range(y0, y1 + 1))
    else:
        yield from ((x, y) for y in range(y0, y1 + 1) for x in range(x0, x1 + 1))
