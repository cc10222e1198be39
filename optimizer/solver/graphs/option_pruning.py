"""Options that no choice below a known value contains, found by passes that move costs between nodes and pairs.

Going through the nodes in an order and back, each node takes over what its pairs cost at least for each of its options,
gives what all of its options cost at least to the bound, and passes the rest on to the pairs with nodes still to come,
in shares (sequential tree-reweighted message passing: Kolmogorov, "Convergent tree-reweighted message passing for
energy minimization", 2006). Costs are only moved, never changed, and never fall below zero: at any moment no choice
with an option costs less than the bound and what is left on the option. With prices on memory the same holds of the
choices that fit (`optimizer.solver.graphs.priced`). All numbers are integers, so nothing is lost to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimizer.process import logs
from optimizer.solver.graphs.capacity import capacity_of
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, PairCost
from optimizer.solver.graphs.priced import PricedProblem
from optimizer.solver.graphs.usages import Table

_log = logs.room("solver")

SHUT = FORBIDDEN // 2
"""Costs from here on exclude. Sums that are allowed stay far below."""
PASSES = 8
"""Passes at most, there and back counted as two."""
WORTH_ANOTHER = 0.02
"""Share of the options that two passes have to remove for two more."""


@dataclass(frozen=True)
class Pruned:
    """A problem with fewer options."""

    problem: GraphProblem
    options: tuple[Table, ...]
    """Per node, what its options are called in the problem it began with."""
    lower_bound: int
    """No choice that fits costs less."""
    feasible: bool = True
    """False: no choice that fits costs less than the value asked for."""

    def restore(self, chosen: Sequence[int]) -> tuple[int, ...]:
        """A choice in terms of the problem it began with."""
        return tuple(int(row[i]) for row, i in zip(self.options, chosen, strict=True))

    def shrink(self, chosen: Sequence[int]) -> tuple[int, ...] | None:
        """A choice of the problem it began with in terms of this one; None if an option of it is gone."""
        at = [int(np.searchsorted(row, i)) for row, i in zip(self.options, chosen, strict=True)]
        found = all(n < len(row) and row[n] == i for n, row, i in zip(at, self.options, chosen, strict=True))
        return tuple(at) if found else None


def whole(problem: GraphProblem) -> Pruned:
    """Nothing pruned yet."""
    return Pruned(problem, tuple(np.arange(size) for size in problem.sizes), 0)


def prune(before: Pruned, prices: Sequence[float], upper_bound: int, stop: Callable[[], bool] | None = None) -> Pruned:
    """Without the options that no choice within the capacity and below `upper_bound` contains.

    `prices` are per step of the memory, best those of the best bound. `stop` is asked between passes.
    """
    run = _Passes(before.problem, prices, upper_bound)
    left = sum(map(len, run.kept))
    for number in range(PASSES):
        if not run.sweep(forward=number % 2 == 0):
            return Pruned(before.problem, before.options, upper_bound, feasible=False)
        if stop is not None and stop():
            break
        if number % 2:
            now = sum(map(len, run.kept))
            if left - now < WORTH_ANOTHER * left:
                break
            left = now
    bound = min(upper_bound, max(before.lower_bound, run.bound))
    options = tuple(row[kept] for row, kept in zip(before.options, run.kept, strict=True))
    _log.info("pruned", options=sum(before.problem.sizes), left=sum(map(len, options)), below=upper_bound, bound=bound)
    return Pruned(_restricted(before.problem, run.kept), options, bound)


def _restricted(problem: GraphProblem, kept: Sequence[Table]) -> GraphProblem:
    costs = tuple(row[k] for row, k in zip(problem.costs, kept, strict=True))
    pairs = tuple(PairCost(p.a, p.b, p.matrix[np.ix_(kept[p.a], kept[p.b])]) for p in problem.pairs)
    usages = tuple(tuple(row[i] for i in k) for row, k in zip(problem.usages, kept, strict=False))
    return GraphProblem(costs, pairs, usages, problem.capacity)


class _Passes:
    """The problem's costs as moved so far, in 1/scale."""

    def __init__(self, problem: GraphProblem, prices: Sequence[float], upper_bound: int) -> None:
        capacity = capacity_of(problem)
        priced = PricedProblem(problem, capacity)
        charged = priced.charge(priced.within_limits(np.asarray([prices[t] for t in capacity.steps])))
        self._scale = priced.scale
        self._limit = upper_bound * self._scale
        self._constant = -charged.paid
        self._costs = [np.where(row >= SHUT, FORBIDDEN, row) for row in charged.costs]
        self._pairs = [np.where(p.matrix >= SHUT, FORBIDDEN, p.matrix) for p in priced.problem.pairs]
        self.kept = [np.arange(len(row)) for row in self._costs]
        self._ends: list[list[tuple[int, int, bool]]] = [[] for _ in self._costs]
        """Per node: (pair, the other node, whether the node's options are its rows)."""
        for n, p in enumerate(problem.pairs):
            self._ends[p.a].append((n, p.b, True))
            self._ends[p.b].append((n, p.a, False))
        # A node right after the first of its neighbours: values follow the ops that compute them.
        first = [min([v, *(u for _, u, _ in ends)]) for v, ends in enumerate(self._ends)]
        order = sorted(range(len(self._costs)), key=lambda v: (first[v], v))
        self._place = {v: n for n, v in enumerate(order)}
        self._order = order

    @property
    def bound(self) -> int:
        return max(0, -(-self._constant // self._scale))

    def sweep(self, forward: bool) -> bool:
        """One pass; False if no choice below the limit is left."""
        return all(self._visit(v, forward) for v in (self._order if forward else self._order[::-1]))

    def _table(self, pair: int, by_rows: bool) -> Table:
        """A pair's costs with the node's options as rows: a view."""
        return self._pairs[pair] if by_rows else self._pairs[pair].T

    def _visit(self, v: int, forward: bool) -> bool:
        cost = self._costs[v]
        for n, _, by_rows in self._ends[v]:
            table = self._table(n, by_rows)
            least = table.min(axis=1)
            cost = cost + least
            moved = np.where(least >= SHUT, 0, least)
            if moved.any():
                np.subtract(table, moved[:, None], out=table, where=table < SHUT)
        open_ = cost < SHUT
        if not open_.any():
            return False
        base = int(cost[open_].min())
        self._constant += base
        cost = cost - base
        open_ &= cost + self._constant < self._limit
        if not open_.any():
            return False
        if not open_.all():
            cost = cost[open_]
            self._drop(v, open_)
        self._costs[v] = cost
        self._pass_on(v, forward)
        return True

    def _drop(self, v: int, open_: NDArray[np.bool_]) -> None:
        self.kept[v] = self.kept[v][open_]
        for n, _, by_rows in self._ends[v]:
            self._pairs[n] = self._pairs[n][open_] if by_rows else np.ascontiguousarray(self._pairs[n][:, open_])

    def _pass_on(self, v: int, forward: bool) -> None:
        """Shares of the node's cost to its pairs with nodes that are still to come."""
        ahead = [end for end in self._ends[v] if (self._place[end[1]] > self._place[v]) is forward]
        if not ahead:
            return
        share = self._costs[v] // max(len(ahead), len(self._ends[v]) - len(ahead))
        for n, _, by_rows in ahead:
            table = self._table(n, by_rows)
            np.add(table, share[:, None], out=table, where=table < SHUT)
            self._costs[v] = self._costs[v] - share
