"""Large-neighbourhood search on graph problems: connected groups of nodes chosen again, exactly, while all others stay.

A group grows from a random node over random pairs. It is one node larger after each group that was settled and smaller
after one that was too hard, so that its size finds what the exact solvers can do (Shaw 1998; adaptive size after Ropke
and Pisinger 2006). Seeds and all limits are counts: the same choice in every run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from optimizer.errors import StateError
from optimizer.solver.graphs.graph_problem import GraphProblem, GraphSolution
from optimizer.solver.graphs.neighbourhood import Neighbourhoods
from reference_solvers.graph_exact import ExactLimits, solve_graph

GROUP_LIMITS = ExactLimits(price_iterations=10, table_cells=1_000_000, states=300, cpsat_work=1.0)
FIRST_GROUP = 12
SMALLEST_GROUP = 6
SMALLER = 2
"""Nodes fewer after a group that was too hard."""


def improved(
    problem: GraphProblem,
    start: Sequence[int],
    rounds: int,
    *,
    seed: int = 0,
    limits: ExactLimits = GROUP_LIMITS,
    stop: Callable[[], bool] | None = None,
) -> GraphSolution:
    """A choice at least as good as `start`, which must fit, after so many groups; nothing is proven (bound 0).

    `stop` is asked between groups and within them.
    """
    if not problem.fits(start):
        raise StateError("the choice to begin with does not fit the capacity")
    search = _Groups(problem, start, random.Random(seed), limits)
    for _ in range(rounds):
        if stop is not None and stop():
            break
        search.round(stop)
    return GraphSolution(search.chosen, search.value, 0)


class _Groups:
    def __init__(self, problem: GraphProblem, start: Sequence[int], rng: random.Random, limits: ExactLimits) -> None:
        self._problem = problem
        self._capacity = np.asarray(problem.capacity, dtype=np.int64)
        self._around = Neighbourhoods(problem)
        self._neighbours: list[set[int]] = [set() for _ in problem.costs]
        for pair in problem.pairs:
            self._neighbours[pair.a].add(pair.b)
            self._neighbours[pair.b].add(pair.a)
        self._rng = rng
        self._limits = limits
        self._size = FIRST_GROUP
        self.chosen = tuple(start)
        self.value = problem.value(start)

    def round(self, stop: Callable[[], bool] | None) -> None:
        """One group chosen again."""
        free = self._group()
        held = self._problem.loads(self.chosen) - self._problem.loads(self.chosen, free)
        part = self._around.part(self.chosen, free, self._capacity - held)
        before = part.value([self.chosen[v] for v in free])
        found = solve_graph(part, upper_bound=before, limits=self._limits, stop=stop)
        if found.chosen is not None:
            again = dict(zip(free, found.chosen, strict=True))
            self.chosen = tuple(again.get(v, i) for v, i in enumerate(self.chosen))
            self.value += found.value - before
        settled = found.lower_bound >= min(before, found.value)
        self._size = self._size + 1 if settled else max(SMALLEST_GROUP, self._size - SMALLER)

    def _group(self) -> list[int]:
        """Nodes connected by pairs, from a random one over random ones; from another where those end. Ascending."""
        count = len(self._neighbours)
        outside = set(range(count))
        group: list[int] = []
        edge: set[int] = set()
        while len(group) < min(self._size, count):
            v = self._rng.choice(sorted(edge or outside))
            group.append(v)
            outside.discard(v)
            edge = (edge | self._neighbours[v]) & outside
        return sorted(group)
