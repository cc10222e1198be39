"""The memory of a graph problem as rows of a linear program: only steps that can overflow, least use pushed out.

A step is left out if its neighbour in time holds at least as much of every choice within no more capacity, or if even
the largest options fit together. Of the others, what a node takes whichever option it has is taken off the limit:

    sum over nodes of (bytes of the option - least bytes of the node)  <=  capacity - sum of least bytes

Only options that are not forbidden count for the least and the largest.
Per node the rows are cut into segments in which no option changes, so that a row costs nothing where nothing happens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem
from optimizer.solver.graphs.usages import Table, Usage

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class NodeUse:
    """What one node takes above its least, in the rows it matters to."""

    starts: Table
    """First row of each segment, ascending."""
    ends: Table
    """The row after each segment's last."""
    extra: Table
    """Bytes above the least of the options that are not forbidden: shape (options, segments)."""


@dataclass(frozen=True)
class Capacity:
    """Rows `sum of extras <= limits` that, together, say the same as the problem's capacity."""

    steps: tuple[int, ...]
    """The problem's time step of each row, ascending."""
    limits: Table
    """Per row, bytes left when every node takes its least; below zero if nothing fits."""
    nodes: dict[int, NodeUse]
    """Nodes whose options differ in some row."""


def capacity_of(problem: GraphProblem) -> Capacity:
    """The rows that can bind."""
    if not problem.capacity:
        return Capacity((), np.zeros(0, dtype=np.int64), {})
    steps = _decisive_steps(problem)
    nodes = {v: profile for v, row in enumerate(problem.usages) if (profile := _profile(row, steps)) is not None}
    limits = np.asarray([problem.capacity[t] for t in steps], dtype=np.int64)
    allowed = {v: problem.costs[v] < FORBIDDEN for v in nodes}
    return reduced(Capacity(tuple(map(int, steps)), limits, nodes), allowed)


def reduced(capacity: Capacity, allowed: Mapping[int, Mask]) -> Capacity:
    """The same with least use pushed out, and only rows that can bind; `allowed` says which options of a node count."""
    least, most = np.zeros((2, len(capacity.steps) + 1), dtype=np.int64)
    floors = {v: _least(use.extra[allowed[v]]) for v, use in capacity.nodes.items()}
    for v, use in capacity.nodes.items():
        for change, row in ((least, floors[v]), (most, use.extra[allowed[v]].max(axis=0, initial=0))):
            np.add.at(change, use.starts, row)
            np.subtract.at(change, use.ends, row)
    binds = np.flatnonzero(np.cumsum(most[:-1]) > capacity.limits)
    limits = capacity.limits - np.cumsum(least[:-1])
    nodes = {}
    for v, use in capacity.nodes.items():
        first, last = np.searchsorted(binds, use.starts), np.searchsorted(binds, use.ends)
        extra = use.extra - floors[v]
        kept = (first < last) & extra[allowed[v]].any(axis=0)
        if kept.any():
            nodes[v] = NodeUse(first[kept], last[kept], extra[:, kept])
    return Capacity(tuple(capacity.steps[r] for r in binds), limits[binds], nodes)


class FlatUses:
    """The uses of all nodes of a capacity as it is now, end to end, for the same sum over all of them many times."""

    def __init__(self, capacity: Capacity) -> None:
        uses = list(capacity.nodes.values())
        self.nodes = np.asarray(list(capacity.nodes), dtype=np.int64)
        self._rows = len(capacity.steps)
        self._limits = capacity.limits
        known: dict[bytes, int] = {}
        distinct: list[Table] = []
        kinds = []
        for use in uses:
            content = blake2b(repr(use.extra.shape).encode() + use.extra.tobytes()).digest()
            kinds.append(known.setdefault(content, len(known)))
            if kinds[-1] == len(distinct):
                distinct.append(use.extra)
        self.kinds = kinds
        """Per node, equal for equal extras."""
        self._sizes = np.concatenate((np.zeros(0, dtype=np.int64), *(extra.ravel() for extra in distinct)))
        begin = np.cumsum([0, *(extra.size for extra in distinct)])
        width = np.asarray([len(use.starts) for use in uses], dtype=np.int64)
        self.first = np.cumsum(np.concatenate(([0], width)))
        """Per node, its first segment; then the number of segments."""
        self.starts = np.concatenate((np.zeros(0, dtype=np.int64), *(use.starts for use in uses)))
        self.ends = np.concatenate((np.zeros(0, dtype=np.int64), *(use.ends for use in uses)))
        owner = np.repeat(np.arange(len(uses)), width)
        self._at = begin[np.asarray(kinds, dtype=np.int64)][owner] + np.arange(len(owner)) - self.first[owner]
        self._width, self._node = width[owner], self.nodes[owner]
        largest = [extra.max(axis=0) for extra in distinct]
        self._largest = np.concatenate((np.zeros(0, dtype=np.int64), *(largest[kind] for kind in kinds)))

    def excess(self, chosen: Sequence[int]) -> Table:
        """Bytes above the limit in every row; negative where there is room."""
        row = self._sizes[self._at + np.asarray(chosen, dtype=np.int64)[self._node] * self._width]
        change = np.zeros(self._rows + 1, dtype=np.int64)
        np.add.at(change, self.starts, row)
        np.subtract.at(change, self.ends, row)
        return np.asarray(np.cumsum(change[:-1]) - self._limits, dtype=np.int64)

    def most(self, prices: NDArray[np.float64]) -> float:
        """No node's bytes cost more than this at a price per byte in every row."""
        upto = np.concatenate(([0.0], np.cumsum(prices)))
        if not len(self.nodes):
            return 0.0
        return float(np.add.reduceat(self._largest * (upto[self.ends] - upto[self.starts]), self.first[:-1]).max())


def joined(first: NodeUse, second: NodeUse) -> NodeUse:
    """What two nodes take together that always have options of the same number."""
    marks = np.unique(np.concatenate((first.starts, first.ends, second.starts, second.ends)))
    sizes = np.zeros((len(first.extra), len(marks)), dtype=np.int64)
    for use in (first, second):
        sizes[:, np.searchsorted(marks, use.starts)] += use.extra
        sizes[:, np.searchsorted(marks, use.ends)] -= use.extra
    return NodeUse(marks[:-1], marks[1:], np.cumsum(sizes, axis=1)[:, :-1])


def _least(sizes: Table) -> Table:
    return sizes.min(axis=0) if len(sizes) else np.zeros(sizes.shape[1], dtype=np.int64)


def _decisive_steps(problem: GraphProblem) -> Table:
    """Steps not implied by the one after or before them."""
    capacity = problem.capacity
    begins, ceases = np.zeros((2, len(capacity)), dtype=np.bool_)
    for row in problem.usages:
        for usages in {id(usages): usages for usages in row}.values():
            for use in usages:
                if use.size and use.first <= use.last:
                    begins[use.first] = True
                    ceases[use.last] = True
    kept: list[int] = []
    fresh = False
    for t, limit in enumerate(capacity):
        fresh = fresh or bool(begins[t])
        if t + 1 < len(capacity) and not ceases[t] and capacity[t + 1] <= limit:
            continue
        if kept and not fresh and capacity[kept[-1]] <= limit:
            continue
        kept.append(t)
        fresh = False
    return np.asarray(kept, dtype=np.int64)


def _profile(row: Sequence[Sequence[Usage]], steps: Table) -> NodeUse | None:
    """Segments of a node and every option's bytes in each."""
    found = [(i, use) for i, usages in enumerate(row) for use in usages if use.size]
    if not found:
        return None
    first = np.searchsorted(steps, [use.first for _, use in found])
    after = np.searchsorted(steps, [use.last for _, use in found], side="right")
    marks = np.unique(np.concatenate((first, after)))
    sizes = np.zeros((len(row), len(marks)), dtype=np.int64)
    options = np.asarray([i for i, _ in found])
    amount = np.asarray([use.size for _, use in found], dtype=np.int64)
    np.add.at(sizes, (options, np.searchsorted(marks, first)), amount)
    np.subtract.at(sizes, (options, np.searchsorted(marks, after)), amount)
    return NodeUse(marks[:-1], marks[1:], np.cumsum(sizes, axis=1)[:, :-1])
