"""Random graph problems that shrink: shared by the tests of the graph solvers."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import strategies as st

from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, GraphSolution, PairCost
from optimizer.solver.graphs.usages import Usage


@st.composite
def problems(draw: st.DrawFn, most_nodes: int = 6) -> GraphProblem:
    """A few nodes of up to three options; every option may hold several spans of memory."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=most_nodes))
    cell = st.one_of(st.integers(0, 30), st.just(FORBIDDEN))
    costs = tuple(np.asarray([draw(cell) for _ in range(n)], dtype=np.int64) for n in sizes)
    pairs = []
    for b in range(len(sizes)):
        for a in range(b):
            if draw(st.booleans()):
                rows = [[draw(cell) for _ in range(sizes[b])] for _ in range(sizes[a])]
                swap = draw(st.booleans())
                matrix = np.asarray(rows, dtype=np.int64)
                pairs.append(PairCost(b, a, matrix.T) if swap else PairCost(a, b, matrix))
    steps = draw(st.integers(1, 6))
    span = st.tuples(st.integers(0, steps - 1), st.integers(0, steps - 1), st.integers(0, 6))
    spans = st.lists(span.map(lambda s: Usage(min(s[:2]), max(s[:2]), s[2])), max_size=2).map(tuple)
    usages = tuple(tuple(draw(spans) for _ in range(n)) for n in sizes)
    capacity = draw(st.lists(st.integers(0, 12), min_size=steps, max_size=steps))
    return GraphProblem(costs, tuple(pairs), usages, tuple(capacity))


def brute_force(problem: GraphProblem) -> GraphSolution:
    """The best of all combinations, the first of equal ones."""
    best: tuple[int, tuple[int, ...] | None] = (FORBIDDEN, None)
    for chosen in product(*(range(n) for n in problem.sizes)):
        value = problem.value(chosen)
        if value < best[0] and problem.fits(chosen):
            best = (value, chosen)
    return GraphSolution(best[1], best[0], best[0])
