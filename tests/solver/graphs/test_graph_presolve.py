"""Presolve: the same optimum, and a way back to a choice of the larger problem."""

from __future__ import annotations

import numpy as np
from graph_samples import brute_force, problems
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.solver.graphs.dominance import survivors
from optimizer.solver.graphs.graph_presolve import presolve
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, PairCost
from optimizer.solver.graphs.usages import Usage
from tests.samples import examples


@settings(max_examples=examples(200), deadline=None)
@given(problems())
def test_the_optimum_stays_and_its_choice_comes_back(problem: GraphProblem) -> None:
    exact, small = brute_force(problem), presolve(problem)
    if not small.feasible:
        assert exact.chosen is None
        return
    found = brute_force(small.problem)
    assert min(found.value + small.offset, FORBIDDEN) == exact.value
    if found.chosen is not None:
        chosen = small.restore(found.chosen)
        assert problem.fits(chosen)
        assert problem.value(chosen) == exact.value


@settings(max_examples=examples(200), deadline=None)
@given(problems(), st.integers(0, 60))
def test_an_upper_bound_removes_nothing_below_it(problem: GraphProblem, upper_bound: int) -> None:
    exact, small = brute_force(problem), presolve(problem, upper_bound)
    if exact.value < upper_bound:
        assert brute_force(small.problem).value + small.offset == exact.value
    else:
        assert not small.feasible or brute_force(small.problem).value + small.offset >= upper_bound


def test_a_choice_whose_options_all_stay_comes_back_as_it_is() -> None:
    costs = tuple(np.asarray([0, 3]) for _ in range(3))
    usages = tuple(((Usage(0, 0, 2),), ()) for _ in costs)
    small = presolve(GraphProblem(costs, (), usages, (4,)))
    assert small.restore((0, 1, 0)) == (0, 1, 0)


def test_what_does_not_fit_together_below_a_bound_is_impossible() -> None:
    """Under 6 both nodes would have to be cheap; together they are too large. Each alone would fit."""
    costs = tuple(np.asarray([0, 3]) for _ in range(2))
    usages = tuple(((Usage(0, 0, 3),), (Usage(0, 0, 1),)) for _ in costs)
    problem = GraphProblem(costs, (), usages, (5,))
    assert presolve(problem, 4).feasible
    assert not presolve(problem, 3).feasible


def test_nodes_without_memory_disappear() -> None:
    """A cycle of three, and a chain on it: every node has at most two neighbours once the others are gone."""
    matrix = np.asarray([[0, 4], [3, 1]])
    pairs = tuple(PairCost(a, b, matrix) for a, b in ((0, 1), (1, 2), (0, 2), (2, 3), (3, 4)))
    small = presolve(GraphProblem(tuple(np.asarray([2, 0]) for _ in range(5)), pairs))
    assert small.problem.sizes == ()
    assert small.offset == brute_force(GraphProblem(tuple(np.asarray([2, 0]) for _ in range(5)), pairs)).value


def test_an_option_goes_only_if_another_is_no_dearer_anywhere() -> None:
    """Option 1 costs 5 more but saves up to 5 in the pair; option 2 saves less than it costs."""
    costs = np.asarray([0, 5, 5])
    matrix = np.asarray([[9, 9], [9, 4], [5, 5]])
    assert survivors(costs, [matrix], np.zeros((3, 0), dtype=np.int64)).tolist() == [0]
    assert survivors(np.asarray([0, 4, 5]), [matrix], np.zeros((3, 0), dtype=np.int64)).tolist() == [0, 1]


def test_an_option_that_takes_less_memory_stays() -> None:
    extra = np.asarray([[8], [4], [4]])
    assert survivors(np.asarray([0, 1, 2]), [], extra).tolist() == [0, 1]


def test_of_equal_options_the_first_stays() -> None:
    assert survivors(np.asarray([3, 3]), [np.asarray([[1], [1]])], np.zeros((2, 0), dtype=np.int64)).tolist() == [0]
    shifted = [np.asarray([[1], [2]]), np.asarray([[2], [1]])]
    assert survivors(np.asarray([3, 3]), shifted, np.zeros((2, 0), dtype=np.int64)).tolist() == [0]
