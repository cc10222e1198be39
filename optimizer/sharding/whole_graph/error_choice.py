"""Which ops take which share of the error budget, for a plan whose layouts are settled: a knapsack.

Every op may run in another of its ways that reads and gives the same and takes no more of L1. Of these, the ones are
chosen that together take the least time within the budget: faster ways are less exact.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.layouts.tiling import ceil_div
from optimizer.precision.budget import ErrorBudget
from optimizer.sharding.whole_graph.global_problem import GlobalProblem
from optimizer.solver.graphs.knapsack import choose_items

STEPS = 4096
"""The budget is dealt out in so many parts; what an op takes is rounded up to whole ones."""


class ErrorChoice:
    """Deals out the error budget in choices of one problem."""

    def __init__(self, model: GlobalProblem, budget: ErrorBudget) -> None:
        self._model = model
        self._budget = budget
        self._twins_known: dict[tuple[int, int], tuple[int, ...]] = {}

    def filled(self, chosen: Sequence[int]) -> tuple[int, ...] | None:
        """The same choice with every op in the way that the budget is best spent on; None where the least exact of
        each do not fit it."""
        groups, left = [], self._budget.capacity
        unit = max(1, ceil_div(self._budget.capacity, STEPS))
        for t in range(len(self._model.schedule)):
            twins = self._twins(t, chosen[t])
            units = [self._units(t, i) for i in twins]
            times = [self._model.ways[t][i].option.time_ns for i in twins]
            least = min(units)
            slowest = max(ns for ns, u in zip(times, units, strict=True) if u == least)
            groups.append([(slowest - ns, ceil_div(u - least, unit)) for ns, u in zip(times, units, strict=True)])
            left -= least
        if left < 0:
            return None
        taken = choose_items(groups, left // unit)
        result = list(chosen)
        for t, item in enumerate(taken):
            twins = self._twins(t, chosen[t])
            if item is None:  # nothing is faster than the most exact
                item = min(range(len(twins)), key=lambda i: (self._units(t, twins[i]), twins[i]))
            result[t] = twins[item]
        return self._model.with_best_kernels(result)

    def _units(self, t: int, option: int) -> int:
        noise = self._model.ways[t][option].option.noise
        return self._budget.units(self._model.schedule[t], self._model.result(t), noise)

    def _twins(self, t: int, option: int) -> tuple[int, ...]:
        """Ways of the same interface that take no more of L1, at weights that several ops read none."""
        ways = self._model.ways[t]
        key = (id(ways), option)
        if key not in self._twins_known:
            one = ways[option].option
            shared = self._model.shared_weights(t)
            self._twins_known[key] = tuple(
                i
                for i in self._model.twins(t, option)
                if ways[i].option.peak_bytes <= one.peak_bytes
                and ways[i].option.weight_bytes <= one.weight_bytes
                and all(ways[i].option.operands[k] == one.operands[k] for k in shared)
            )
        return self._twins_known[key]
