"""Choosing some nodes again, and choices that fit by prices: against all combinations."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.solver.graphs.elimination import eliminate
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, PairCost
from optimizer.solver.graphs.neighbourhood import Neighbourhoods
from optimizer.solver.graphs.price_ascent import fit_by_prices
from optimizer.solver.graphs.usages import Usage
from tests.samples import examples
from tests.solver.graph_samples import brute_force, problems


@settings(max_examples=examples(200))
@given(problems(), st.data())
def test_nodes_are_chosen_anew_within_what_the_others_leave(problem: GraphProblem, data: st.DataObject) -> None:
    start = eliminate(problem).chosen
    if start is None:
        return
    free = data.draw(st.sets(st.integers(0, len(start) - 1)).map(sorted))
    strict = data.draw(st.sets(st.integers(0, len(problem.capacity) - 1)))
    capacity = np.asarray(problem.capacity, dtype=np.int64)
    found = Neighbourhoods(problem).rechosen(start, free, capacity, strict)
    if found is None:
        return
    assert all(found[v] == start[v] for v in range(len(start)) if v not in free)
    assert problem.value(found) < FORBIDDEN
    limits = np.where([t in strict for t in range(len(capacity))], capacity, np.maximum(capacity, problem.loads(start)))
    assert (problem.loads(found) <= limits).all()


@settings(max_examples=examples(200))
@given(problems(), st.data())
def test_what_fits_by_itself_is_chosen_best(problem: GraphProblem, data: st.DataObject) -> None:
    """With memory for everything, the new choice is the best of all combinations of the free nodes."""
    roomy = GraphProblem(problem.costs, problem.pairs, problem.usages, tuple(1000 for _ in problem.capacity))
    start = eliminate(roomy).chosen
    if start is None:
        return
    worse = tuple(
        data.draw(st.sampled_from(range(len(row)))) if data.draw(st.booleans()) else i
        for row, i in zip(roomy.costs, start, strict=True)
    )
    free = data.draw(st.sets(st.integers(0, len(start) - 1)).map(sorted))
    found = Neighbourhoods(roomy).rechosen(worse, free, np.full(len(roomy.capacity), 1000), ())
    ways = product(*(range(n) if v in free else (worse[v],) for v, n in enumerate(roomy.sizes)))
    best = min((roomy.value(way) for way in ways), default=FORBIDDEN)
    assert (found is None) == (best >= FORBIDDEN and roomy.value(worse) >= FORBIDDEN and _inside(roomy, worse, free))
    if found is not None and best < FORBIDDEN:
        assert roomy.value(found) == best


def _inside(problem: GraphProblem, chosen: tuple[int, ...], free: list[int]) -> bool:
    """Whether no choice of the free nodes is allowed, whatever the others cost among themselves."""
    part = [v for v in range(len(chosen)) if v in free]
    for way in product(*(range(problem.sizes[v]) for v in part)):
        full = list(chosen)
        for v, i in zip(part, way, strict=True):
            full[v] = i
        costs = [int(problem.costs[v][full[v]]) for v in part]
        costs += [int(p.matrix[full[p.a], full[p.b]]) for p in problem.pairs if p.a in part or p.b in part]
        if sum(costs) < FORBIDDEN:
            return False
    return True


@settings(max_examples=examples(200))
@given(problems())
def test_dearer_memory_ends_in_a_choice_that_fits(problem: GraphProblem) -> None:
    exact, found = brute_force(problem), fit_by_prices(problem, 20)
    if found.chosen is not None:
        assert problem.fits(found.chosen)
        assert exact.value <= found.value == problem.value(found.chosen) < FORBIDDEN
    free = eliminate(problem)
    if free.chosen is not None and problem.fits(free.chosen):
        assert found.value == exact.value


def test_prices_rise_until_the_dearer_option_is_taken() -> None:
    """Two nodes want 6 of 8 bytes each; one of them has to do without."""
    costs = (np.asarray([0, 10]), np.asarray([0, 7]))
    usages = tuple(((Usage(0, 1, 6),), ()) for _ in costs)
    problem = GraphProblem(costs, (), usages, (8, 8))
    assert fit_by_prices(problem, 12).chosen in ((0, 1), (1, 1))
    assert fit_by_prices(problem, 0).chosen is None


def test_a_ball_grows_by_pairs_up_to_its_limit() -> None:
    chain = tuple(PairCost(v, v + 1, np.zeros((1, 1), dtype=np.int64)) for v in range(5))
    around = Neighbourhoods(GraphProblem(tuple(np.zeros(1, dtype=np.int64) for _ in range(6)), chain))
    assert around.around([2], 1, 10) == (1, 2, 3)
    assert around.around([2], 5, 4) == (0, 1, 2, 3)
