"""A row and a lane for every node: rows follow what is read, lanes keep a branch straight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Edges = Sequence[tuple[int, int]]
"""(from, to) with from < to."""
WIDEST = 8
"""Nodes of a row, unless the graph is so large that it would become a thread."""

TRIED = 100
"""Rows that are looked at for room."""


@dataclass(frozen=True)
class Grid:
    """Where the nodes are, in whole rows and lanes."""

    rows: tuple[int, ...]
    lanes: tuple[int, ...]

    @property
    def height(self) -> int:
        return max(self.rows, default=-1) + 1


def placed(count: int, edges: Edges) -> Grid:
    """Rows and lanes of nodes 0 to `count` - 1."""
    sources, targets = _neighbours(count, edges)
    widest = max(WIDEST, int(count**0.5) // 2)
    rows = _rows(sources, widest)
    _pull_down(rows, sources, targets, widest)
    return Grid(tuple(rows), tuple(_lanes(rows, sources, targets)))


def _neighbours(count: int, edges: Edges) -> tuple[list[list[int]], list[list[int]]]:
    sources: list[list[int]] = [[] for _ in range(count)]
    targets: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        sources[target].append(source)
        targets[source].append(target)
    return sources, targets


def _rows(sources: list[list[int]], widest: int) -> list[int]:
    """The first row below everything that a node reads that is not full."""
    rows: list[int] = []
    load: dict[int, int] = {}
    free: dict[int, int] = {}
    """Full row -> a row below it that may have room, so that long runs of full rows are skipped."""
    for read in sources:
        row = max((rows[source] + 1 for source in read), default=0)
        passed = []
        while load.get(row, 0) >= widest:
            passed.append(row)
            row = free.get(row, row + 1)
        free |= dict.fromkeys(passed, row)
        load[row] = load.get(row, 0) + 1
        rows.append(row)
    return rows


def _pull_down(rows: list[int], sources: list[list[int]], targets: list[list[int]], widest: int) -> None:
    """Inputs, and what is made of them alone, come down to the first node that reads them."""
    load: dict[int, int] = {}
    for row in rows:
        load[row] = load.get(row, 0) + 1
    floating: list[bool] = []
    for read in sources:
        floating.append(all(floating[source] and len(targets[source]) == 1 for source in read))
    for node in reversed(range(len(rows))):
        if floating[node] and targets[node]:
            lowest = min(rows[target] for target in targets[node]) - 1
            highest = max(rows[node], lowest - TRIED)
            row = next((r for r in range(lowest, highest, -1) if load.get(r, 0) < widest), rows[node])
            load[rows[node]] -= 1
            load[row] = load.get(row, 0) + 1
            rows[node] = row


def _lanes(rows: list[int], sources: list[list[int]], targets: list[list[int]]) -> list[int]:
    """Row by row: a node goes on in the lane of what it reads; where several would, the longest way does."""
    way = [0] * len(rows)
    for node in reversed(range(len(rows))):
        way[node] = max((way[target] + 1 for target in targets[node]), default=0)
    by_row: dict[int, list[int]] = {}
    for node, row in enumerate(rows):
        by_row.setdefault(row, []).append(node)
    lanes = [0] * len(rows)
    for row in sorted(by_row):
        wanted = {node: _wanted(node, rows, lanes, sources) for node in by_row[row]}
        taken: set[int] = set()
        for node in sorted(by_row[row], key=lambda n: (wanted[n], -way[n], n)):
            lanes[node] = _nearest(wanted[node], taken)
            taken.add(lanes[node])
    return lanes


def _wanted(node: int, rows: list[int], lanes: list[int], sources: list[list[int]]) -> int:
    if not sources[node]:
        return 0
    return min((-rows[source], lanes[source]) for source in sources[node])[1]


def _nearest(lane: int, taken: set[int]) -> int:
    """The free lane next to one, to the right of it if two are."""
    distance = 0
    while True:
        for found in (lane + distance, lane - distance):
            if found >= 0 and found not in taken:
                return found
        distance += 1
