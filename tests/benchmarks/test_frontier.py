"""Frontier DP: exact unless it says otherwise, bounds, limits, order."""

from __future__ import annotations

import numpy as np
from graph_samples import brute_force, problems
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_solvers.frontier import solve_frontier
from reference_solvers.frontier_order import frontier_order

from optimizer.solver.graphs.capacity import capacity_of
from optimizer.solver.graphs.graph_problem import GraphProblem, PairCost
from optimizer.solver.graphs.lagrangian import maximise
from optimizer.solver.graphs.usages import Usage
from tests.samples import examples


@settings(max_examples=examples(150), deadline=None)
@given(problems(), st.booleans())
def test_the_answer_is_the_optimum(problem: GraphProblem, priced: bool) -> None:
    exact = brute_force(problem)
    found = solve_frontier(problem, prices=maximise(problem, 5).prices if priced else None)
    assert found.exact
    assert found.solution.value == found.solution.lower_bound == exact.value
    if found.solution.chosen is not None:
        assert problem.fits(found.solution.chosen)
        assert problem.value(found.solution.chosen) == exact.value


@settings(max_examples=examples(150), deadline=None)
@given(problems(), st.integers(1, 3))
def test_with_few_states_the_bound_still_holds(problem: GraphProblem, limit: int) -> None:
    exact, found = brute_force(problem), solve_frontier(problem, state_limit=limit, beam=1)
    assert found.solution.lower_bound <= exact.value <= found.solution.value
    assert not found.exact or found.solution.value == exact.value
    if found.solution.chosen is not None:
        assert problem.fits(found.solution.chosen)


@settings(max_examples=examples(100), deadline=None)
@given(problems(), st.integers(1, 60))
def test_with_an_upper_bound_only_less_is_found(problem: GraphProblem, upper_bound: int) -> None:
    exact, found = brute_force(problem), solve_frontier(problem, upper_bound=upper_bound).solution
    if exact.value < upper_bound:
        assert found.value == found.lower_bound == exact.value
    else:
        assert (found.chosen, found.lower_bound) == (None, upper_bound)


def chain(length: int) -> GraphProblem:
    """Every node is fast with 6 bytes or slow with 1, its bytes last two steps, and changes of mind cost."""
    costs = tuple(np.asarray([1, 7 + v % 3]) for v in range(length))
    change = np.asarray([[0, 2], [2, 0]])
    pairs = tuple(PairCost(v, v + 1, change) for v in range(length - 1))
    usages = tuple(((Usage(v, v + 1, 6),), (Usage(v, v + 1, 1),)) for v in range(length))
    return GraphProblem(costs, pairs, usages, (8,) * (length + 1))


def test_a_long_chain_takes_few_states() -> None:
    found = solve_frontier(chain(400))
    assert found.exact
    assert found.states < 400 * 8
    assert chain(400).fits(found.solution.chosen or ())


def test_a_cut_search_says_so_and_bounds_what_it_lost() -> None:
    exact, found = solve_frontier(chain(40)), solve_frontier(chain(40), state_limit=1, beam=1)
    assert not found.exact
    assert found.solution.lower_bound <= exact.solution.value <= found.solution.value


def test_stopping_ends_with_a_narrow_search() -> None:
    found = solve_frontier(chain(40), stop=lambda: True)
    assert found.states <= 2 * 40
    assert found.solution.lower_bound <= solve_frontier(chain(40)).solution.value


def test_the_order_follows_time_and_keeps_few_nodes_open() -> None:
    problem = chain(30)
    order = frontier_order(problem, capacity_of(problem))
    assert order == tuple(range(30))
    shuffled = GraphProblem(problem.costs[::-1], problem.pairs, problem.usages[::-1], problem.capacity)
    assert frontier_order(shuffled, capacity_of(shuffled))[2:] == tuple(range(27, -1, -1))
