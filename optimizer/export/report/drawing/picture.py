"""Coordinates of the picture, in pixels at its natural size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from optimizer.export.report.drawing.columns import GAP, GUTTER_WIDTH, NODE_WIDTH, Column, columns
from optimizer.export.report.drawing.ranks import Edges, Grid, placed
from optimizer.export.report.drawing.tracks import Cell, Gutter, Tracks, Way, cells, tracks, ways

TRACK = 8
"""From one track to the next."""
INNER_GUTTER, MARGIN = 20, 16
LEAVING, ARRIVING = 7, 13
"""Where in a gap edges go sideways, below the node above: those that come out of it, those that go on below."""


@dataclass(frozen=True)
class Box:
    x: int
    y: int
    width: int
    height: int

    @property
    def middle(self) -> int:
        return self.x + self.width // 2


@dataclass(frozen=True)
class Picture:
    """Boxes of the nodes and corners of the edges, in the order in which they were given."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    paths: tuple[tuple[tuple[int, int], ...], ...]


def picture(sizes: Sequence[tuple[int, int]], edges: Edges) -> Picture:
    """Draw nodes of these sizes (width, height), each of which comes after those it reads."""
    if not sizes:
        return Picture(2 * MARGIN, 2 * MARGIN, (), ())
    grid = placed(len(sizes), edges)
    heights = _heights(grid, sizes)
    broken = columns(grid, heights, edges)
    at = cells(grid, broken)
    taken = ways(edges, at, broken)
    scale = _Scale(broken, heights, tracks(edges, at, taken))
    boxes = tuple(scale.box(cell, size) for cell, size in zip(at, sizes, strict=True))
    paths = tuple(
        _simple(scale.path(source, boxes[source], boxes[target], at[source], at[target], way))
        for (source, target), way in zip(edges, taken, strict=True)
    )
    return Picture(scale.width, scale.height, boxes, paths)


def _heights(grid: Grid, sizes: Sequence[tuple[int, int]]) -> list[int]:
    """Of every row: that of the highest node in it."""
    heights = [0] * grid.height
    for row, (_, height) in zip(grid.rows, sizes, strict=True):
        heights[row] = max(heights[row], height)
    return heights


class _Scale:
    """Whole rows, lanes and tracks as pixels."""

    def __init__(self, broken: tuple[Column, ...], heights: Sequence[int], numbered: Tracks) -> None:
        self._tracks = numbered
        gutters = [(n, lane) for n, column in enumerate(broken) for lane in range(column.lanes + 1)]
        widths = [self._gutter_width(gutter, broken) for gutter in gutters]
        lanes = [0 if lane == broken[n].lanes else NODE_WIDTH for n, lane in gutters]
        ends = accumulate((a + b for a, b in zip(widths, lanes, strict=True)), initial=MARGIN)
        self._gutter_x = dict(zip(gutters, ends, strict=False))
        self._gutter_widths = dict(zip(gutters, widths, strict=True))
        self._top = MARGIN + TRACK * len(set(numbered.channel.values()))
        self._heights = [heights[column.first : column.end] for column in broken]
        self._gaps = [list(accumulate((h + GAP for h in rows), initial=self._top)) for rows in self._heights]
        self.width = MARGIN + sum(widths) + sum(lanes) + MARGIN
        self.height = max(gaps[-1] for gaps in self._gaps) + GAP + MARGIN

    def _gutter_width(self, gutter: Gutter, broken: tuple[Column, ...]) -> int:
        column, lane = gutter
        outer = lane == broken[column].lanes
        count = self._tracks.count(gutter)
        least = (GUTTER_WIDTH if column + 1 < len(broken) else 0) if outer else (INNER_GUTTER if lane else 0)
        return max(least, TRACK * (count + 1) if count else 0)

    def box(self, cell: Cell, size: tuple[int, int]) -> Box:
        """A node in the middle of its cell."""
        width, height = size
        gutter = (cell.column, cell.lane)
        left = self._gutter_x[gutter] + self._gutter_widths[gutter]
        spare = self._heights[cell.column][cell.row] - height
        return Box(
            left + (NODE_WIDTH - width) // 2, self._gap_y(cell.column, cell.row, GAP) + spare // 2, width, height
        )

    def _lane_x(self, column: int, lane: int) -> int:
        gutter = (column, lane)
        return self._gutter_x[gutter] + self._gutter_widths[gutter] + NODE_WIDTH // 2

    def _gap_y(self, column: int, gap: int, below: int) -> int:
        """So many pixels below the row that is above a gap."""
        return self._gaps[column][gap] + below

    def _track_x(self, gutter: Gutter, node: int) -> int:
        spare = self._gutter_widths[gutter] - TRACK * (self._tracks.count(gutter) - 1)
        return self._gutter_x[gutter] + spare // 2 + TRACK * self._tracks.gutters[gutter][node]

    def path(self, node: int, out: Box, into: Box, source: Cell, target: Cell, way: Way) -> list[tuple[int, int]]:
        """From the lower side of one box to the upper side of another, along lines at right angles."""
        leave = self._gap_y(source.column, source.row + 1, LEAVING)
        arrive = self._gap_y(target.column, target.row, ARRIVING)
        xs = [self._track_x(gutter, node) for gutter in way.gutters]
        points = [(out.middle, out.y + out.height)]
        if way.lane is not None:
            x = self._lane_x(source.column, way.lane)
            points += [(out.middle, leave), (x, leave), (x, arrive), (into.middle, arrive)]
        elif len(xs) == 1:
            points += [(out.middle, leave), (xs[0], leave), (xs[0], arrive), (into.middle, arrive)]
        else:
            across = self._top - TRACK * (self._tracks.channel[node] + 1)
            points += [(out.middle, leave), (xs[0], leave), (xs[0], across)]
            points += [(xs[1], across), (xs[1], arrive), (into.middle, arrive)]
        return [*points, (into.middle, into.y)]


def _simple(points: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Without points that are no corners."""
    kept = [points[0]]
    for point, after in pairwise(points[1:]):
        straight = (kept[-1][0] == point[0] == after[0]) or (kept[-1][1] == point[1] == after[1])
        if point != kept[-1] and not straight:
            kept.append(point)
    return (*kept, points[-1])
