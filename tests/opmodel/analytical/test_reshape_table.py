"""The reshape table's size against a walk over every element of every output tile."""

from __future__ import annotations

from collections import Counter

import pytest

from optimizer.opmodel.analytical.device_run.reshape_table import table_bytes

Shape3 = tuple[int, int, int]


def _place(row: int, column: int) -> int:
    return (row // 16 * 2 + column // 16) * 256 + row % 16 * 16 + column % 16


def _source(before: Shape3, flat: int) -> tuple[int, int, int, int]:
    channel, rest = divmod(flat, before[1] * before[2])
    row, column = divmod(rest, before[2])
    return channel, row // 32, column // 32, _place(row % 32, column % 32)


def _tile_slots(before: Shape3, after: Shape3, channel: int, top: int, left: int) -> int:
    """Slots of the output tile at (channel, top, left): each element either prolongs a piece or begins one."""
    pieces: Counter[tuple[int, int, int]] = Counter()
    last: tuple[tuple[int, int, int], int, int] | None = None
    for row in range(top, min(top + 32, after[1])):
        for column in range(left, min(left + 32, after[2])):
            *tile, within = _source(before, (channel * after[1] + row) * after[2] + column)
            page, place = (tile[0], tile[1], tile[2]), _place(row - top, column - left)
            if last != (page, within - 1, place - 1):
                pieces[page] += 1
            last = (page, within, place)
    return len(pieces) * max(pieces.values())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1, 1, 32), (1, 1, 32)),
        ((1, 5, 5), (1, 1, 25)),
        ((2, 40, 48), (1, 80, 48)),
        ((3, 37, 50), (1, 111, 50)),
        ((1, 64, 32), (1, 1, 2048)),
        ((1, 32, 96), (12, 16, 16)),
        ((12, 24, 1), (1, 12, 24)),
        ((1, 77, 33), (7, 33, 11)),
        ((4, 18, 33), (1, 54, 44)),
        ((6, 35, 24), (5, 14, 72)),
        ((1, 60, 16), (1, 15, 64)),
        ((5, 7, 90), (35, 9, 10)),
    ],
)
def test_size_is_that_of_the_tile_with_most_slots(before: Shape3, after: Shape3) -> None:
    tiles = [(c, y, x) for c in range(after[0]) for y in range(0, after[1], 32) for x in range(0, after[2], 32)]
    slots = max(_tile_slots(before, after, *tile) for tile in tiles)
    assert table_bytes(before, after) == 16 * (slots + slots % 16)


def test_many_tiles_take_few_looks() -> None:
    """Two million output tiles: one per 16-element half of the one row that they hold."""
    assert table_bytes((1, 4096, 16384), (1, 1, 4096 * 16384)) == 16 * (2 + 2)
