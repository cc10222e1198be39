"""Bounds by prices of memory: never above the optimum, at least the bound without prices, and choices that fit."""

from __future__ import annotations

import numpy as np
from graph_samples import brute_force, problems
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.solver.graphs.capacity import FlatUses, capacity_of
from optimizer.solver.graphs.elimination import eliminate
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem
from optimizer.solver.graphs.lagrangian import maximise
from optimizer.solver.graphs.usages import Usage
from tests.samples import examples


@settings(max_examples=examples(100))
@given(problems(), st.data())
def test_rows_say_the_same_as_the_capacity(problem: GraphProblem, data: st.DataObject) -> None:
    chosen = tuple(
        data.draw(st.sampled_from([i for i, c in enumerate(row) if c < FORBIDDEN] or [0])) for row in problem.costs
    )
    if all(row[i] < FORBIDDEN for row, i in zip(problem.costs, chosen, strict=True)):
        assert (FlatUses(capacity_of(problem)).excess(chosen) <= 0).all() == problem.fits(chosen)


@settings(max_examples=examples(100), deadline=None)
@given(problems(), st.integers(1, 12))
def test_the_bound_lies_between_the_relaxation_and_the_optimum(problem: GraphProblem, iterations: int) -> None:
    exact, relaxed = brute_force(problem), eliminate(problem)
    found = maximise(problem, iterations)
    assert relaxed.lower_bound <= found.lower_bound <= exact.value
    if found.best is not None:
        assert problem.fits(found.best.chosen or ())
        assert problem.value(found.best.chosen or ()) == found.best.value >= exact.value
    again = maximise(problem, iterations, start=found.prices, table_limit=2)
    assert again.lower_bound <= exact.value


def test_prices_close_the_gap_where_memory_is_divided() -> None:
    """Four nodes save 1, 2, 3, 4 with 10 bytes each; two fit. Priced between 2 and 3 it is exact."""
    costs = tuple(np.asarray([10, 10 - saved]) for saved in (1, 2, 3, 4))
    usages = tuple(((), (Usage(0, 0, 10),)) for _ in costs)
    problem = GraphProblem(costs, (), usages, (20,))
    found = maximise(problem, 40)
    assert eliminate(problem).lower_bound == 30
    assert found.lower_bound == 33
    assert found.best is not None
    assert found.best.chosen == (0, 0, 1, 1)
    assert 0.1 < found.prices[0] < 0.4


def test_a_known_plan_ends_the_search_when_it_is_proven() -> None:
    costs = tuple(np.asarray([10, 10 - saved]) for saved in (1, 2, 3, 4))
    usages = tuple(((), (Usage(0, 0, 10),)) for _ in costs)
    problem = GraphProblem(costs, (), usages, (20,))
    start = maximise(problem, 40).prices
    assert maximise(problem, 40, upper_bound=33, start=start).iterations == 1
    assert maximise(problem, 40, stop=lambda: True).iterations == 1


def test_what_cannot_fit_is_known_without_a_search() -> None:
    usages = (((Usage(0, 0, 5),), (Usage(0, 0, 6),)),)
    found = maximise(GraphProblem((np.zeros(2, dtype=np.int64),), (), usages, (4,)))
    assert (found.lower_bound, found.best, found.iterations) == (FORBIDDEN, None, 0)
