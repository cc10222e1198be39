"""Size of the table that tells the tiled reshape program where the pieces of each output tile come from.

Source: `compute_reshape_mapping_host_tensor` in tt-metal 0.81 `reshape_tiled_program_factory.cpp`. A piece is
contiguous both in an input and in an output tile, whose four 16 x 16 faces lie one after the other; an output
tile has a slot per input tile it draws from and per piece of the input tile with most pieces.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from optimizer.layouts.tiling import TILE, ceil_div

Array = npt.NDArray[np.int64]
Shape3 = tuple[int, ...]

FACE = TILE // 2
SLOT_BYTES = 16
"""Input tile, offset there, offset in the output tile, length: four 32-bit words."""
SLOT_STEP = 16
MOST_TILES = 4096
"""Unlike output tiles looked at; of more, evenly spread ones are."""


@lru_cache(maxsize=4096)
def table_bytes(before: Shape3, after: Shape3) -> int:
    """Bytes of one page of the table for two rank-3 shapes of equal volume (one page is buffered)."""
    starts, heights, widths = _unlike_tiles(before, after)
    slots = int(_slots(before, after[2], starts, heights, widths).max())
    return SLOT_BYTES * (slots + slots % SLOT_STEP)


def _unlike_tiles(before: Shape3, after: Shape3) -> tuple[Array, Array, Array]:
    """Flat position of the first element, rows and columns of output tiles that draw from the input unlike others."""
    deep, high, wide = after
    rows = np.arange(ceil_div(high, TILE), dtype=np.int64) * TILE
    columns = np.arange(ceil_div(wide, TILE), dtype=np.int64) * TILE
    period = before[2] * (TILE if before[1] % TILE == 0 else before[1])
    rows, columns = _spread(rows, MOST_TILES * 16), _spread(columns, MOST_TILES * 16)
    by_row = _phases((rows * wide) % period, np.minimum(TILE, high - rows))
    by_column = _phases(columns % period, np.minimum(TILE, wide - columns))
    by_channel = np.unique((np.arange(min(deep, MOST_TILES), dtype=np.int64) * high * wide) % period)
    by_row, by_column = _spread(by_row, MOST_TILES), _spread(by_column, MOST_TILES)
    grid = (by_channel[:, None, None] + by_row[None, :, None, 0] + by_column[None, None, :, 0]) % period
    shape = grid.shape
    heights = np.broadcast_to(by_row[None, :, None, 1], shape)
    widths = np.broadcast_to(by_column[None, None, :, 1], shape)
    tiles = _spread(np.stack([grid.ravel(), heights.ravel(), widths.ravel()], axis=1), MOST_TILES * 64)
    tiles = _spread(np.unique(tiles, axis=0), MOST_TILES)
    return tiles[:, 0], tiles[:, 1], tiles[:, 2]


def _phases(starts: Array, sizes: Array) -> Array:
    """Distinct (start, size) pairs."""
    found: Array = np.unique(np.stack([starts, sizes], axis=1), axis=0)
    return found


def _spread(items: Array, most: int) -> Array:
    """All of them, or `most` evenly spread ones with both ends."""
    if len(items) <= most:
        return items
    kept: Array = items[np.unique(np.linspace(0, len(items) - 1, most).astype(np.int64))]
    return kept


def _slots(before: Shape3, wide: int, starts: Array, heights: Array, widths: Array) -> Array:
    """Slots of every tile: pieces of the input tile with most, times input tiles."""
    count = len(starts)
    keys: list[Array] = []
    last = np.full((3, count), -1, dtype=np.int64)
    for row in range(int(heights.max())):
        column = np.where(row < heights, 0, widths)
        while bool((active := column < widths).any()):
            page, within, length = _piece(before, starts + row * wide + column, column, widths)
            place = _offset(np.full(count, row, dtype=np.int64), column)
            here = np.stack([page, within, place])
            fresh = active & (here != last).any(axis=0)
            keys.append((np.nonzero(fresh)[0] << 40) + page[fresh])
            last = np.where(active, np.stack([page, within + length, place + length]), last)
            column = np.where(active, column + length, column)
    pages, pieces = np.unique(np.concatenate(keys), return_counts=True)
    owner = pages >> 40
    most = np.zeros(count, dtype=np.int64)
    np.maximum.at(most, owner, pieces)
    tiles: Array = np.bincount(owner, minlength=count).astype(np.int64)
    total: Array = most * tiles
    return total


def _piece(before: Shape3, at: Array, column: Array, widths: Array) -> tuple[Array, Array, Array]:
    """(input tile, offset in it, length) of the piece at a flat position."""
    tiles_wide = ceil_div(before[2], TILE)
    deep, rest = np.divmod(at, before[1] * before[2])
    y, x = np.divmod(rest, before[2])
    page = (deep * ceil_div(before[1], TILE) + y // TILE) * tiles_wide + x // TILE
    length = np.minimum(widths - column, FACE - column % FACE)
    length = np.minimum(length, np.minimum(FACE - x % FACE, before[2] - x))
    return page, _offset(y % TILE, x % TILE), np.maximum(length, 1)


def _offset(y: Array, x: Array) -> Array:
    """Place of an element in a tile."""
    place: Array = (y // FACE * 2 + x // FACE) * FACE * FACE + y % FACE * FACE + x % FACE
    return place
