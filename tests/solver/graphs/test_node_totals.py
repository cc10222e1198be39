"""Least totals under a forced option: equal to brute force where exact, below it where buckets are split."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.solver.graphs.elimination import eliminate, node_totals
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, PairCost
from tests.samples import examples
from tests.solver.graph_samples import brute_force


@st.composite
def problems(draw: st.DrawFn) -> GraphProblem:
    """A few nodes with up to four options, random pairs (cycles and islands included), some combinations forbidden."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    costs = [rng.integers(0, 50, n) for n in sizes]
    pairs = []
    for a in range(len(sizes)):
        for b in range(len(sizes)):
            if a != b and rng.random() < 0.35:
                matrix = rng.integers(0, 50, (sizes[a], sizes[b]))
                matrix[rng.random(matrix.shape) < 0.3] = FORBIDDEN
                pairs.append(PairCost(a, b, matrix))
    if rng.random() < 0.3:
        costs[0][0] = FORBIDDEN
    return GraphProblem(tuple(costs), tuple(pairs))


def forced(problem: GraphProblem, node: int, option: int) -> int:
    """The optimum with one option of one node only, by trying everything."""
    row = np.full(problem.sizes[node], FORBIDDEN)
    row[option] = problem.costs[node][option]
    costs = (*problem.costs[:node], row, *problem.costs[node + 1 :])
    return min(brute_force(GraphProblem(costs, problem.pairs)).value, FORBIDDEN)


@settings(max_examples=examples(150))
@given(problems())
def test_equal_to_the_optimum_with_each_option_forced(problem: GraphProblem) -> None:
    for v, n in enumerate(problem.sizes):
        totals = node_totals(problem, v)
        assert totals.tolist() == [forced(problem, v, i) for i in range(n)]


@settings(max_examples=examples(100))
@given(problems())
def test_split_buckets_give_lower_bounds(problem: GraphProblem) -> None:
    for v, n in enumerate(problem.sizes):
        totals = node_totals(problem, v, table_limit=6)
        assert all(totals[i] <= forced(problem, v, i) for i in range(n))


@settings(max_examples=examples(50))
@given(problems())
def test_the_least_of_every_node_is_the_optimum(problem: GraphProblem) -> None:
    best = min(eliminate(problem).value, FORBIDDEN)
    assert {int(node_totals(problem, v).min()) for v in range(len(problem.sizes))} == {best}


def test_a_long_chain_switches_once() -> None:
    """The last node alone takes the dear option (1) and pays the switch (3)."""
    swap = np.array([[0, 3], [3, 0]])
    pairs = tuple(PairCost(v, v + 1, swap) for v in range(200))
    totals = node_totals(GraphProblem(tuple(np.array([0, 1]) for _ in range(201)), pairs), 200)
    assert totals.tolist() == [0, 4]
