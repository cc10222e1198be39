"""Size of the table that tells the tiled reshape program where the pieces of each output tile come from.

Source: `compute_reshape_mapping_host_tensor` in tt-metal 0.81 `reshape_tiled_program_factory.cpp`. A piece is
contiguous both in an input and in an output tile, whose four 16 x 16 faces lie one after the other; an output
tile has a slot per input tile it draws from and per piece of the input tile with most pieces.

Output tiles whose first elements lie at the same place of a repeating stretch of the input draw from it alike,
so one of each kind is looked at.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd

import numpy as np
import numpy.typing as npt

from optimizer.layouts.tiling import FACE, TILE, ceil_div

Array = npt.NDArray[np.int64]
Shape3 = tuple[int, ...]

SLOT_BYTES = 16
"""Input tile, offset there, offset in the output tile, length: four 32-bit words."""
SLOT_STEP = 16
MOST_TILES = 4096
"""Unlike output tiles looked at; of more, evenly spread ones are."""
TOGETHER = 512
"""Tiles looked at together, to bound memory."""
MOST_SUMS = 64 * MOST_TILES
"""Sums of phases looked at to find the unlike tiles."""
_Y, _X = np.divmod(np.arange(TILE * TILE, dtype=np.int64), TILE)
_PLACE = (_Y // FACE * 2 + _X // FACE) * FACE * FACE + _Y % FACE * FACE + _X % FACE
"""Place in a tile of the element at row `index // 32`, column `index % 32`."""


@lru_cache(maxsize=4096)
def table_bytes(before: Shape3, after: Shape3) -> int:
    """Bytes of one page of the table for two rank-3 shapes of equal volume (one page is buffered)."""
    slots = max(
        _slots(before, after[2], starts[at : at + TOGETHER], height, width)
        for starts, height, width in _unlike_tiles(before, after)
        for at in range(0, len(starts), TOGETHER)
    )
    return SLOT_BYTES * (slots + slots % SLOT_STEP)


def _unlike_tiles(before: Shape3, after: Shape3) -> list[tuple[Array, int, int]]:
    """Per size of output tile: flat positions of the first elements where those draw from the input unlike others,
    rows and columns."""
    deep, high, wide = after
    period = before[2] * (TILE if before[0] == 1 or before[1] % TILE == 0 else before[1])
    channels = _phases(high * wide, deep, period)
    found = []
    for row, rows, height in _edges(high):
        bands = _sums(channels, _phases(TILE * wide, rows, period) + row * wide, period)
        for column, columns, width in _edges(wide):
            if wide == before[2]:  # rows stay rows: one column of tiles is like another
                columns = 1
            starts = _sums(bands, _phases(TILE, columns, period) + column, period)
            found.append((starts[_spread_indices(len(starts), MOST_TILES)], height, width))
    return found


def _edges(size: int) -> list[tuple[int, int, int]]:
    """(first element, tiles, elements per tile) of the whole tiles along an axis and of the one cut short."""
    whole, rest = divmod(size, TILE)
    found = [(0, whole, TILE)] if whole else []
    return [*found, (whole * TILE, 1, rest)] if rest else found


def _phases(step: int, count: int, period: int) -> Array:
    """Different values of `step * i % period` for i below `count`."""
    different = min(count, period // gcd(step, period))
    return (_spread_indices(different, MOST_TILES * 16) * step) % period


def _sums(some: Array, others: Array, period: int) -> Array:
    """Different sums of two kinds of phases."""
    if len(some) == 1 or len(others) == 1:  # one kind's phases differ already
        return np.sort((some + others) % period)
    which, other = np.divmod(_spread_indices(len(some) * len(others), MOST_SUMS), len(others))
    found: Array = np.unique((some[which] + others[other]) % period)
    return found


def _spread_indices(count: int, most: int) -> Array:
    """Indices of all of `count` items, or of `most` evenly spread ones with both ends."""
    if count <= most:
        return np.arange(count, dtype=np.int64)
    return np.linspace(0, count - 1, most).astype(np.int64)


def _slots(before: Shape3, wide: int, starts: Array, height: int, width: int) -> int:
    """Most slots of tiles of one size: pieces of the input tile with most, times input tiles."""
    unit = gcd(gcd(before[2], wide), FACE)
    if unit >= FACE // 2 or before[2] < FACE:
        keys = _by_unit(before, wide, starts, height, width, unit)
    else:
        keys = _by_piece(before, wide, starts, height, width)
    pages, pieces = np.unique(keys, return_counts=True)
    owner = pages >> 40
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    tiles = np.diff(first, append=len(owner))
    return int((np.maximum.reduceat(pieces, first) * tiles).max())


def _by_unit(before: Shape3, wide: int, starts: Array, height: int, width: int, unit: int) -> Array:
    """(output tile, input tile) of every piece; nothing ends inside `unit` elements, so these are joined."""
    rows = np.arange(height, dtype=np.int64)[:, None]
    columns = np.arange(0, width, unit, dtype=np.int64)[None, :]
    y, x = np.divmod(starts[:, None] + (rows * wide + columns).ravel()[None, :], before[2])
    page, within = _input_place(before, y, x)
    place = _PLACE[(rows * TILE + columns).ravel()]
    begins = np.ones(page.shape, dtype=bool)
    begins[:, 1:] = (
        (page[:, 1:] != page[:, :-1]) | (within[:, 1:] != within[:, :-1] + unit) | (place[1:] != place[:-1] + unit)
    )
    page += np.arange(len(starts), dtype=np.int64)[:, None] << 40
    found: Array = page[begins]
    return found


def _by_piece(before: Shape3, wide: int, starts: Array, height: int, width: int) -> Array:
    """`_by_unit` where there is no such unit: the pieces of all rows are followed side by side."""
    rows = np.arange(height, dtype=np.int64)
    y, x = np.divmod((starts[:, None] + rows * wide).ravel(), before[2])
    tile = np.repeat(np.arange(len(starts), dtype=np.int64) << 40, height)
    line = np.tile(rows * TILE, len(starts))
    row, column = np.arange(len(y)), np.zeros(len(y), dtype=np.int64)
    firsts: Array | None = None
    ends = np.empty((3, len(y)), dtype=np.int64)  # where the last piece of each row stops
    keys: list[Array] = []
    while len(row):
        page, within = _input_place(before, y, x)
        here = np.stack((page, within, _PLACE[line + column]))
        if firsts is None:
            firsts = here.copy()
        else:
            keys.append((tile + page)[(here != ends[:, row]).any(axis=0)])
        length = np.minimum(
            np.minimum(width - column, FACE - column % FACE), np.minimum(FACE - x % FACE, before[2] - x)
        )
        here[1:] += length
        ends[:, row] = here
        column, x = column + length, x + length
        past = x == before[2]
        y, x = y + past, np.where(past, 0, x)
        more = column < width
        row, column, x, y, tile, line = (part[more] for part in (row, column, x, y, tile, line))
    assert firsts is not None
    begins = np.ones((len(starts), height), dtype=bool)
    shape = (3, len(starts), height)
    begins[:, 1:] = (firsts.reshape(shape)[:, :, 1:] != ends.reshape(shape)[:, :, :-1]).any(axis=0)
    owner = np.repeat(np.arange(len(starts), dtype=np.int64) << 40, height)
    return np.concatenate([(owner + firsts[0])[begins.ravel()], *keys])


def _input_place(before: Shape3, y: Array, x: Array) -> tuple[Array, Array]:
    """(input tile, place in it) of the elements at rows `y`, counted through all channels, and columns `x`."""
    if before[0] == 1 or before[1] % TILE == 0:
        band, line = np.divmod(y, TILE)
    else:
        channel, row = np.divmod(y, before[1])
        band, line = np.divmod(row, TILE)
        band += channel * ceil_div(before[1], TILE)
    across, column = np.divmod(x, TILE)
    return band * ceil_div(before[2], TILE) + across, _PLACE[line * TILE + column]
