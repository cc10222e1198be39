"""Large-neighbourhood search: never worse, always fitting, the same every time, and optimal where a group is all."""

from __future__ import annotations

import random

import numpy as np
import pytest
from graph_samples import brute_force, problems
from hypothesis import given, settings
from reference_solvers.graph_lns import improved

from optimizer.errors import StateError
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, PairCost
from optimizer.solver.graphs.usages import Usage
from tests.samples import examples


@settings(max_examples=examples(40), deadline=None)
@given(problems())
def test_a_group_of_all_nodes_gives_the_optimum(problem: GraphProblem) -> None:
    fitting = (c for c in np.ndindex(*problem.sizes) if problem.fits(c) and problem.value(c) < FORBIDDEN)
    start = max(fitting, key=problem.value, default=None)
    if start is not None:
        found = improved(problem, start, 1)
        assert found.chosen is not None
        assert problem.fits(found.chosen)
        assert problem.value(found.chosen) == found.value == brute_force(problem).value


def ring(nodes: int) -> GraphProblem:
    """Neighbours should differ, some more than others; the options that cost nothing take too much memory together."""
    rng = random.Random(3)
    pairs = tuple(
        PairCost(
            v, (v + 1) % nodes, np.asarray([[rng.randint(2, 9) if i == j else 0 for i in range(3)] for j in range(3)])
        )
        for v in range(nodes)
    )
    costs = tuple(np.asarray([0, rng.randint(1, 5), rng.randint(3, 9)]) for _ in range(nodes))
    usages = tuple(((Usage(v // 8, v // 8 + 1, 5),), (Usage(v // 8, v // 8 + 1, 3),), ()) for v in range(nodes))
    return GraphProblem(costs, pairs, usages, (40,) * (nodes // 8 + 2))


@pytest.mark.slow
def test_more_groups_make_it_no_worse_and_the_same_again() -> None:
    problem = ring(60)
    start = (2,) * 60
    few, many = improved(problem, start, 3), improved(problem, start, 12)
    assert problem.value(start) > few.value >= many.value == problem.value(many.chosen or ())
    assert problem.fits(many.chosen or ())
    assert improved(problem, start, 12) == many
    assert improved(problem, start, 12, stop=lambda: True).chosen == start


def test_the_first_choice_must_fit() -> None:
    with pytest.raises(StateError, match="does not fit"):
        improved(ring(60), (0,) * 60, 1)
