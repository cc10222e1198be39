"""The order in which the frontier dynamic program meets the nodes of a graph problem: few open nodes, early rows first.

A node is open while it has a pair with a node that has not been met. The next node is the one that leaves the fewest
combinations of open options; of equal ones the one whose memory begins first.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from optimizer.solver.graphs.capacity import Capacity
from optimizer.solver.graphs.graph_problem import GraphProblem

OPEN_ROW = 0.05
"""What a row that is entered and not complete counts against a node's logarithm of options: keeps time's order."""


def frontier_order(problem: GraphProblem, capacity: Capacity) -> tuple[int, ...]:
    """Every node once."""
    neighbours: list[set[int]] = [set() for _ in problem.costs]
    for pair in problem.pairs:
        neighbours[pair.a].add(pair.b)
        neighbours[pair.b].add(pair.a)
    return _Greedy(problem.sizes, neighbours, _begins(neighbours, capacity)).run()


def _begins(neighbours: Sequence[set[int]], capacity: Capacity) -> list[int]:
    """Per node the first row it takes part in; without any, that of the nearest node that does."""
    begin = [int(capacity.nodes[v].starts[0]) if v in capacity.nodes else -1 for v in range(len(neighbours))]
    ring = [v for v, row in enumerate(begin) if row >= 0]
    while ring:
        reached: dict[int, int] = {}
        for v in ring:
            for u in neighbours[v]:
                if begin[u] < 0:
                    reached[u] = min(reached.get(u, begin[v]), begin[v])
        for u, row in reached.items():
            begin[u] = row
        ring = sorted(reached)
    return [row if row >= 0 else len(capacity.steps) for row in begin]


class _Greedy:
    def __init__(self, sizes: Sequence[int], neighbours: Sequence[set[int]], begin: Sequence[int]) -> None:
        self._weight = [log(size) if size > 1 else 0.0 for size in sizes]
        self._neighbours = neighbours
        self._begin = begin
        self._waiting = set(range(len(sizes)))
        self._open: set[int] = set()

    def run(self) -> tuple[int, ...]:
        by_time = sorted(self._waiting, key=lambda v: (self._begin[v], v))
        at, order = 0, list[int]()
        while self._waiting:
            while by_time[at] not in self._waiting:
                at += 1
            near = {u for v in self._open for u in self._neighbours[v]} & self._waiting
            v = min(near | {by_time[at]}, key=lambda u: (self._growth(u), self._begin[u], u))
            self._waiting.discard(v)
            order.append(v)
            self._open = {u for u in (*self._open, v) if self._neighbours[u] & self._waiting}
        return tuple(order)

    def _growth(self, v: int) -> float:
        """Logarithm of the combinations that meeting a node adds."""
        waiting = self._neighbours[v] & self._waiting
        growth = self._weight[v] if waiting else 0.0
        for u in self._neighbours[v] & self._open:
            if self._neighbours[u] & self._waiting == {v}:
                growth -= self._weight[u]
        first = min(self._begin[u] for u in self._waiting)
        return growth + OPEN_ROW * (self._begin[v] - first)
