"""All exact means in turn: the optimum, whichever of them are left out."""

from __future__ import annotations

import numpy as np
import pytest
from graph_samples import brute_force, problems
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_solvers.graph_exact import ExactLimits, solve_graph

from optimizer.solver.graphs.graph_problem import GraphProblem
from optimizer.solver.graphs.usages import Usage
from tests.samples import examples

WITHOUT = {
    "nothing": ExactLimits(),
    "prices": ExactLimits(price_iterations=0),
    "frontier": ExactLimits(states=0),
    "cpsat": ExactLimits(cpsat_work=0),
    "prices and frontier": ExactLimits(price_iterations=0, states=0),
}


@settings(max_examples=examples(100), deadline=None)
@given(problems(), st.sampled_from(sorted(WITHOUT)))
def test_the_answer_is_the_optimum(problem: GraphProblem, without: str) -> None:
    exact, found = brute_force(problem), solve_graph(problem, limits=WITHOUT[without])
    assert found.value == found.lower_bound == exact.value
    if found.chosen is not None:
        assert problem.fits(found.chosen)
        assert problem.value(found.chosen) == exact.value


@settings(max_examples=examples(60), deadline=None)
@given(problems(), st.integers(1, 60))
def test_with_an_upper_bound_only_less_is_found(problem: GraphProblem, upper_bound: int) -> None:
    exact, found = brute_force(problem), solve_graph(problem, upper_bound=upper_bound)
    if exact.value < upper_bound:
        assert found.value == found.lower_bound == exact.value
    else:
        assert (found.chosen, found.lower_bound) == (None, upper_bound)


@pytest.fixture
def shared() -> GraphProblem:
    """Four nodes save 1, 2, 3, 4 with 10 bytes each; two fit."""
    costs = tuple(np.asarray([10, 10 - saved]) for saved in (1, 2, 3, 4))
    return GraphProblem(costs, (), tuple(((), (Usage(0, 0, 10),)) for _ in costs), (20,))


def test_a_hint_is_returned_if_nothing_else_is_found(shared: GraphProblem) -> None:
    found = solve_graph(shared, (1, 1, 0, 0), stop=lambda: True)
    assert found.chosen == (1, 1, 0, 0)
    assert found.lower_bound <= 33 < found.value == 37
    assert solve_graph(shared, (1, 1, 0, 0)).chosen == (0, 0, 1, 1)


def test_a_hint_that_does_not_fit_is_ignored(shared: GraphProblem) -> None:
    assert solve_graph(shared, (1, 1, 1, 1)).value == 33
