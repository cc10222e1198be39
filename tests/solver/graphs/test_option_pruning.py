"""Options that may go below a known value: no choice that matters is lost, and the bound holds."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.solver.graphs.graph_problem import GraphProblem, PairCost
from optimizer.solver.graphs.lagrangian import maximise
from optimizer.solver.graphs.option_pruning import prune, whole
from tests.samples import examples
from tests.solver.graph_samples import brute_force, problems


def better(problem: GraphProblem, value: int) -> set[tuple[int, ...]]:
    """Every choice that fits and costs less."""
    choices = product(*(range(size) for size in problem.sizes))
    return {chosen for chosen in choices if problem.value(chosen) < value and problem.fits(chosen)}


@settings(max_examples=examples(300))
@given(problems(), st.data())
def test_every_better_choice_survives_whatever_the_prices(problem: GraphProblem, data: st.DataObject) -> None:
    price = st.sampled_from([0.0, 0.1, 0.5, 1.0, 7.0])
    prices = data.draw(st.lists(price, min_size=len(problem.capacity), max_size=len(problem.capacity)))
    value = data.draw(st.integers(1, 120))
    wanted = better(problem, value)
    left = prune(whole(problem), prices, value)
    if not left.feasible:
        assert not wanted
        return
    assert wanted <= {left.restore(chosen) for chosen in product(*(range(size) for size in left.problem.sizes))}
    assert left.lower_bound <= min((problem.value(chosen) for chosen in wanted), default=value)
    for chosen in wanted:
        inner = left.shrink(chosen)
        assert inner is not None
        assert left.restore(inner) == chosen
        assert left.problem.value(inner) == problem.value(chosen)
        assert left.problem.fits(inner)


@settings(max_examples=examples(100))
@given(problems())
def test_pruning_again_at_better_prices_keeps_the_optimum(problem: GraphProblem) -> None:
    exact = brute_force(problem)
    if exact.chosen is None:
        return
    left = prune(whole(problem), [0.0] * len(problem.capacity), exact.value + 1)
    again = prune(left, maximise(left.problem).prices, exact.value + 1)
    assert left.feasible
    assert again.feasible
    assert left.lower_bound <= again.lower_bound <= exact.value
    assert brute_force(again.problem).value == exact.value


def test_a_chain_is_pruned_to_its_best_choice() -> None:
    """On a tree the passes are exact: only options of choices below the value are left."""
    rng = np.random.default_rng(0)
    costs = tuple(rng.integers(0, 1000, 5) for _ in range(12))
    pairs = tuple(PairCost(v, v + 1, rng.integers(0, 1000, (5, 5))) for v in range(11))
    problem = GraphProblem(costs, pairs)
    reach = costs[0]
    for pair, cost in zip(pairs, costs[1:], strict=True):
        reach = (reach[:, None] + pair.matrix).min(axis=0) + cost
    best = int(reach.min())
    left = prune(whole(problem), [], best + 1)
    assert left.lower_bound == best
    assert max(left.problem.sizes) <= 2
    assert not prune(whole(problem), [], best).feasible
