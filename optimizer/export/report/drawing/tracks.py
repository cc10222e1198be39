"""Which way every edge takes, and a track for it that no other edge shares.

Between two rows there is a gap, beside every lane a gutter, above all columns a channel. An edge leaves its node into
the gap below, goes along a gutter (to another column perhaps by way of the channel) and comes in from the gap above.
Edges of one node share their tracks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from optimizer.export.report.drawing.columns import Column
from optimizer.export.report.drawing.ranks import Edges, Grid

CHANNEL = -1
"""As a gap: above all rows."""
Gutter = tuple[int, int]
"""(column, lane that it is left of); the last one of a column is right of its last lane."""


@dataclass(frozen=True)
class Cell:
    """Where a node is."""

    column: int
    row: int
    """Within the column. The gap above has the same number, the one below the next."""
    lane: int


@dataclass(frozen=True)
class Way:
    """How an edge goes from cell to cell: by gutters, none of them if straight down."""

    gutters: tuple[Gutter, ...] = ()
    lane: int | None = None
    """The lane along which it goes down where that is free."""


@dataclass(frozen=True)
class Tracks:
    """A number of every node's track in the gutters that its edges use, and in the channel."""

    gutters: Mapping[Gutter, Mapping[int, int]]
    channel: Mapping[int, int]

    def count(self, gutter: Gutter) -> int:
        return max(self.gutters.get(gutter, {}).values(), default=-1) + 1


def cells(grid: Grid, columns: tuple[Column, ...]) -> list[Cell]:
    column_of = [n for n, column in enumerate(columns) for _ in range(column.first, column.end)]
    return [
        Cell(column_of[row], row - columns[column_of[row]].first, lane)
        for row, lane in zip(grid.rows, grid.lanes, strict=True)
    ]


def ways(edges: Edges, at: list[Cell], columns: tuple[Column, ...]) -> list[Way]:
    """The way of every edge."""
    used = {(cell.column, cell.row, cell.lane): -1 for cell in at}
    return [_way(source, at[source], at[target], columns, used) for source, target in edges]


def _way(
    node: int, source: Cell, target: Cell, columns: tuple[Column, ...], used: dict[tuple[int, int, int], int]
) -> Way:
    """`used` says which node's edges go through a cell, -1 if a node is there."""
    if target.column == source.column:
        between = range(source.row + 1, target.row)
        for lane in (target.lane, source.lane):
            if all(used.get((source.column, row, lane), node) == node for row in between):
                used |= {(source.column, row, lane): node for row in between}
                return Way(lane=lane)
        beside = target.lane if source.lane <= target.lane else target.lane + 1
        return Way(((source.column, beside),))
    leaves = (source.column, columns[source.column].lanes)
    arrives = (target.column - 1, columns[target.column - 1].lanes)
    return Way((leaves,) if leaves == arrives else (leaves, arrives))


def tracks(edges: Edges, at: list[Cell], taken: list[Way]) -> Tracks:
    """Tracks such that no two nodes share one where both use it."""
    spans: dict[Gutter, dict[int, tuple[int, int]]] = {}
    across: dict[int, tuple[int, int]] = {}
    for (source, target), way in zip(edges, taken, strict=True):
        leaves, arrives = at[source].row + 1, at[target].row
        if len(way.gutters) == 1:
            _widen(spans.setdefault(way.gutters[0], {}), source, (leaves, arrives))
        elif way.gutters:
            first, last = way.gutters
            _widen(spans.setdefault(first, {}), source, (CHANNEL, leaves))
            _widen(spans.setdefault(last, {}), source, (CHANNEL, arrives))
            _widen(across, source, (first[0], last[0]))
    return Tracks({gutter: _numbered(found) for gutter, found in sorted(spans.items())}, _numbered(across))


def _widen(spans: dict[int, tuple[int, int]], node: int, ends: Iterable[int]) -> None:
    reached = (*spans.get(node, ()), *ends)
    spans[node] = (min(reached), max(reached))


def _numbered(spans: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """The lowest number that is free where a span begins."""
    ends: list[int] = []
    numbers = {}
    for node, (start, end) in sorted(spans.items(), key=lambda item: (item[1], item[0])):
        number = next((n for n, free_from in enumerate(ends) if free_from < start), len(ends))
        ends[number : number + 1] = [end]
        numbers[node] = number
    return numbers
