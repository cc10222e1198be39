"""Rows in columns, as in a newspaper, so that a long graph fills a screen instead of a strip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import log

from optimizer.export.report.drawing.ranks import Edges, Grid

NODE_WIDTH, GAP, GUTTER_WIDTH = 160, 19, 40
"""What a lane takes, the room between two rows, and that beside a column, at least."""
ASPECT = 2.0
"""Width of the picture to its height."""
SHORTEST = 420
"""Height of a column, if the graph has as much."""
SLACK = 0.25
"""Share of a column that may be left empty where that cuts fewer edges."""
TRIED = 60
"""Heights of columns."""


@dataclass(frozen=True)
class Column:
    """Rows `first` to `end` - 1."""

    first: int
    end: int
    lanes: int
    height: int


def columns(grid: Grid, heights: Sequence[int], edges: Edges) -> tuple[Column, ...]:
    """The columns whose picture comes closest to the aspect, for rows of these heights."""
    lanes = [1] * grid.height
    for row, lane in zip(grid.rows, grid.lanes, strict=True):
        lanes[row] = max(lanes[row], lane + 1)
    rows = _Rows(lanes, [height + GAP for height in heights], _cuts(grid, edges))
    whole = sum(rows.heights)
    step = max(1, (whole - SHORTEST) // TRIED)
    return min(map(rows.broken, [*range(min(SHORTEST, whole), whole, step), whole]), key=_distance)


def _cuts(grid: Grid, edges: Edges) -> list[int]:
    """How many nodes above each row are read by a node in it or further down."""
    last: dict[int, int] = {}
    for source, target in edges:
        last[source] = max(last.get(source, 0), grid.rows[target])
    change = [0] * (grid.height + 2)
    for source, row in last.items():
        change[grid.rows[source] + 1] += 1
        change[row + 1] -= 1
    return list(accumulate(change))


@dataclass(frozen=True)
class _Rows:
    lanes: list[int]
    heights: list[int]
    cut: list[int]

    def broken(self, most: int) -> tuple[Column, ...]:
        """Columns of at most so much height, broken where the fewest edges are cut."""
        found, first = [], 0
        while first < len(self.lanes):
            end, height, ends = first, 0, list[int]()
            while end < len(self.lanes) and (end == first or height + self.heights[end] <= most):
                height += self.heights[end]
                end += 1
                if height >= most * (1 - SLACK):
                    ends.append(end)
            if end < len(self.lanes):
                end = min(ends or [end], key=lambda row: (self.cut[row], -row))
            found.append(Column(first, end, max(self.lanes[first:end]), sum(self.heights[first:end])))
            first = end
        return tuple(found)


def _distance(found: tuple[Column, ...]) -> float:
    """How far a picture is from the aspect, and which share of it is empty below its columns."""
    width = sum(column.lanes * NODE_WIDTH + GUTTER_WIDTH for column in found)
    height = max(column.height for column in found)
    empty = 1 - sum(column.height for column in found) / (height * len(found))
    return abs(log(width / height / ASPECT)) + empty
