"""Whole-graph problems: elimination against all combinations, bounds, prices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import StateError
from optimizer.solver.graphs import elimination
from optimizer.solver.graphs.elimination import eliminate, priced_costs
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, PairCost
from optimizer.solver.graphs.usages import Usage
from tests.samples import examples
from tests.solver.graph_samples import brute_force


@st.composite
def problems(draw: st.DrawFn, tight: bool = False) -> GraphProblem:
    """Up to seven nodes of up to three options on any edges; some pairs are forbidden."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=7))
    costs = tuple(np.asarray([draw(st.integers(0, 20)) for _ in range(n)], dtype=np.int64) for n in sizes)
    pairs = []
    for b in range(len(sizes)):
        for a in range(b):
            if draw(st.booleans()):
                cell = st.one_of(st.integers(0, 20), st.just(FORBIDDEN))
                rows = [[draw(cell) for _ in range(sizes[b])] for _ in range(sizes[a])]
                swap = draw(st.booleans())
                matrix = np.asarray(rows, dtype=np.int64)
                pairs.append(PairCost(b, a, matrix.T) if swap else PairCost(a, b, matrix))
    if not tight:
        return GraphProblem(costs, tuple(pairs))
    steps = len(sizes)
    usages = []
    for v, n in enumerate(sizes):
        ends = [draw(st.integers(v, steps - 1)) for _ in range(n)]
        usages.append(tuple((Usage(v, end, draw(st.integers(0, 5))),) for end in ends))
    return GraphProblem(costs, tuple(pairs), tuple(usages), (draw(st.integers(3, 8)),) * steps)


@settings(max_examples=examples(300))
@given(problems(), st.sampled_from([0, 1 << 60]))
def test_elimination_finds_the_optimum(problem: GraphProblem, many_options: int) -> None:
    """Whether options are looked at one by one or by classes (0: wherever that is less work)."""
    exact = brute_force(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elimination, "MANY_OPTIONS", many_options)
        found = eliminate(problem)
    assert found.value == found.lower_bound == exact.value
    assert (found.chosen is None) == (exact.chosen is None)
    if found.chosen is not None:
        assert problem.value(found.chosen) == exact.value


@settings(max_examples=examples(200))
@given(problems(), st.integers(1, 9))
def test_split_tables_bound_the_optimum_from_both_sides(problem: GraphProblem, table_limit: int) -> None:
    exact, found = brute_force(problem), eliminate(problem, table_limit=table_limit)
    assert found.lower_bound <= exact.value <= found.value


@settings(max_examples=examples(200))
@given(problems(tight=True), st.data())
def test_prices_of_memory_keep_the_bound(problem: GraphProblem, data: st.DataObject) -> None:
    """Lagrangian duality: cost with prices, less what the whole capacity would cost, never exceeds the optimum."""
    prices = [data.draw(st.floats(0, 3)) for _ in problem.capacity]
    relaxed = eliminate(problem, priced_costs(problem, prices)).lower_bound
    paid = sum(price * limit for price, limit in zip(prices, problem.capacity, strict=True))
    assert min(relaxed - paid, FORBIDDEN) <= brute_force(problem).value


def test_a_split_reports_less_than_it_proves() -> None:
    """Three nodes in a triangle of disagreement: with tables of two nodes only, the bound is loose."""
    differ = np.asarray([[5, 0], [0, 5]], dtype=np.int64)
    free = tuple(np.zeros(2, dtype=np.int64) for _ in range(3))
    problem = GraphProblem(free, (PairCost(0, 1, differ), PairCost(1, 2, differ), PairCost(0, 2, differ)))
    assert eliminate(problem).lower_bound == 5
    loose = eliminate(problem, table_limit=4)
    assert (loose.lower_bound, loose.value, loose.gap) == (0, 5, 1.0)


def test_capacity_is_checked_per_step() -> None:
    usages = (((Usage(0, 1, 4),), ()), ((Usage(1, 2, 3),), ()))
    costs = (np.asarray([1, 10]), np.asarray([1, 4]))
    problem = GraphProblem(costs, (), usages, (6, 6, 6))
    assert problem.loads((0, 0)).tolist() == [4, 7, 3]
    assert brute_force(problem).chosen == (0, 1)


def test_problems_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(StateError, match="node 0 has no option"):
        GraphProblem((np.asarray([], dtype=np.int64),), ())
    with pytest.raises(StateError, match="costs of nodes 0 and 1 are not 1 x 2"):
        GraphProblem((np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64)), (PairCost(0, 1, np.zeros((2, 2))),))


def test_some_nodes_of_a_problem_are_priced_as_by_themselves() -> None:
    """Shared usages, options without any, and steps counted from the first that the nodes touch."""
    shared = (Usage(2, 4, 10), Usage(3, 3, 5))
    usages = (((Usage(0, 5, 7),), ()), (shared, shared, (Usage(4, 4, 1),)), ((), (Usage(3, 5, 2),)))
    costs = tuple(np.arange(len(options), dtype=np.int64) for options in usages)
    whole = GraphProblem(costs, (), usages, (100,) * 6)
    free, begin = (1, 2), 2
    arrays = whole.usage_arrays.of_nodes(free)
    assert arrays.span == (2, 5)
    moved = tuple(
        tuple(tuple(Usage(u.first - begin, u.last - begin, u.size) for u in uses) for uses in options)
        for options in usages[1:]
    )
    part, price = GraphProblem(costs[1:], (), moved, (100,) * 4), [0.5, 1.0, 2.0, 4.0]

    for got, wanted in zip(priced_costs(part, price, arrays.from_step(begin)), priced_costs(part, price), strict=True):
        assert np.array_equal(got, wanted)
    assert list(priced_costs(part, price)[0]) == [40, 41, 4]
    assert list(arrays.from_step(begin).loads((0, 1), 4)) == part.loads((0, 1)).tolist() == [10, 17, 12, 2]
