"""CP-SAT on whole-graph problems: exact with capacity, cut-offs, stopping."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest
from graph_samples import brute_force, problems
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.solver.graphs.graph_cpsat import solve_cpsat
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, PairCost
from optimizer.solver.graphs.usages import Usage
from tests.samples import examples


def dense(nodes: int, options: int) -> GraphProblem:
    """All nodes in pairs with random costs, all in one memory: hard to prove."""
    rng = random.Random(7)
    costs = tuple(np.asarray([rng.randint(0, 50) for _ in range(options)]) for _ in range(nodes))
    pairs = tuple(
        PairCost(a, b, np.asarray([[rng.randint(0, 99) for _ in range(options)] for _ in range(options)]))
        for b in range(nodes)
        for a in range(b)
    )
    usages = tuple(tuple((Usage(0, 0, rng.randint(1, 9)),) for _ in range(options)) for _ in range(nodes))
    return GraphProblem(costs, pairs, usages, (4 * nodes,))


@settings(max_examples=examples(80), deadline=None)
@given(problems())
def test_the_answer_is_the_optimum(problem: GraphProblem) -> None:
    exact, found = brute_force(problem), solve_cpsat(problem)
    assert found.value == found.lower_bound == exact.value
    if found.chosen is not None:
        assert problem.fits(found.chosen)
        assert problem.value(found.chosen) == exact.value


@settings(max_examples=examples(40), deadline=None)
@given(problems(), st.integers(1, 80))
def test_with_an_upper_bound_only_less_is_found(problem: GraphProblem, upper_bound: int) -> None:
    exact, found = brute_force(problem), solve_cpsat(problem, upper_bound=upper_bound)
    if exact.value < upper_bound:
        assert found.value == found.lower_bound == exact.value
    else:
        assert (found.chosen, found.lower_bound) == (None, upper_bound)


def test_the_same_work_gives_the_same_choice() -> None:
    problem = dense(12, 5)
    first, second = (solve_cpsat(problem, work_limit=0.5) for _ in range(2))
    assert first == second
    assert 0 < first.lower_bound < first.value < FORBIDDEN


def test_stopping_returns_what_is_known() -> None:
    asked = threading.Event()

    def stop() -> bool:
        asked.set()
        return True

    found = solve_cpsat(dense(16, 6), stop=stop)
    assert asked.is_set()
    assert 0 <= found.lower_bound < FORBIDDEN


def test_an_interrupt_ends_the_search() -> None:
    def stop() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve_cpsat(dense(16, 6), stop=stop)
    assert "cp-sat" not in [thread.name for thread in threading.enumerate()]
