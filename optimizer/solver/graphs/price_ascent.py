"""A choice that fits, from one that does not: memory gets dearer where it overflows, until it does not.

Each round is an elimination over the whole problem with the present prices, so all nodes react at once; a step that
overflows again gets dearer twice as fast. A heuristic: it proves nothing and may find nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from optimizer.solver.graphs.elimination import eliminate, priced_costs
from optimizer.solver.graphs.elimination_memo import EliminationMemo
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, GraphSolution
from optimizer.solver.graphs.usages import UsageArrays

FIRST_PRICE = 0.02
"""Of a step's share of the cost, per share of its capacity: what the first round adds."""


def fit_by_prices(
    problem: GraphProblem,
    rounds: int,
    start: Sequence[float] | None = None,
    stop: Callable[[], bool] | None = None,
    usages: UsageArrays | None = None,
) -> GraphSolution:
    """The cheapest choice that fits of all rounds; `chosen` is None if none does. `start` gives prices per step,
    `usages` what options take, instead of the problem's own."""
    capacity = np.asarray(problem.capacity, dtype=np.int64)
    price = np.zeros(len(capacity)) if start is None else np.array(start, dtype=np.float64)
    added = np.zeros(len(capacity))
    best = GraphSolution(None, FORBIDDEN, 0)
    memo = EliminationMemo()
    for _ in range(rounds):
        if stop is not None and stop():
            break
        chosen = eliminate(problem, priced_costs(problem, [float(p) for p in price], usages), memo=memo).chosen
        if chosen is None:
            break
        taken = problem.loads(chosen) if usages is None else usages.loads(chosen, len(capacity))
        excess = taken - capacity
        value = problem.value(chosen)
        if (excess <= 0).all():
            best = GraphSolution(chosen, value, 0)
            break
        first = FIRST_PRICE * max(value, 1) / (np.maximum(capacity, 1) * max(1, len(capacity)))
        added = np.where(excess > 0, np.maximum(first, 2 * added), added)
        price += np.where(excess > 0, added, 0)
    return best
