"""Re-choosing a few nodes of a graph problem while all others stay as they are (large-neighbourhood search).

What a fixed neighbour costs goes into the nodes' own costs, what a fixed node takes of the memory out of the capacity;
the rest is a small problem of the same kind, solved exactly where it fits by itself and by prices where it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np

from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, PairCost
from optimizer.solver.graphs.price_ascent import fit_by_prices
from optimizer.solver.graphs.usages import Table, Usage

PRICE_ROUNDS = 12
"""Rounds of prices for one neighbourhood that does not fit by itself."""


class Neighbourhoods:
    """The neighbourhoods of one problem."""

    def __init__(self, problem: GraphProblem) -> None:
        self._problem = problem
        self._pairs: list[list[PairCost]] = [[] for _ in problem.costs]
        for pair in problem.pairs:
            self._pairs[pair.a].append(pair)
            self._pairs[pair.b].append(pair)

    def around(self, seeds: Iterable[int], hops: int, limit: int) -> tuple[int, ...]:
        """Nodes within `hops` pairs of the seeds, nearest first while there are fewer than `limit`; ascending."""
        found = dict.fromkeys(sorted(seeds))
        edge = list(found)
        for _ in range(hops):
            reached = {pair.b if pair.a == v else pair.a for v in edge for pair in self._pairs[v]}
            edge = sorted(u for u in reached if u not in found)
            for u in edge:
                if len(found) < limit:
                    found[u] = None
        return tuple(sorted(found))

    def holders(self, chosen: Sequence[int], step: int) -> tuple[int, ...]:
        """Nodes that take memory at a step."""
        usages = self._problem.usages
        return tuple(v for v, i in enumerate(chosen) if any(u.size and u.first <= step <= u.last for u in usages[v][i]))

    def rechosen(
        self,
        chosen: Sequence[int],
        free: Sequence[int],
        capacity: Table,
        strict: Collection[int],
        stop: Callable[[], bool] | None = None,
    ) -> tuple[int, ...] | None:
        """The choice with these nodes chosen again, as cheaply as found; None if nothing was found that fits.

        At the `strict` steps the capacity must hold; at others it may be exceeded as far as it is now.
        """
        own = self._problem.loads(chosen, free)
        left = capacity - (self._problem.loads(chosen) - own)
        at = np.asarray(sorted(strict), dtype=np.int64)
        if (left[at] < 0).any():
            return None
        lenient = np.maximum(left, own)
        lenient[at] = left[at]
        usages = self._problem.usage_arrays.of_nodes(free)
        begin, end = usages.span
        bare = self._bare(chosen, free, lenient[begin : end + 1])
        best = fit_by_prices(bare, PRICE_ROUNDS, stop=stop, usages=usages.from_step(begin)).chosen
        if best is None:
            return None
        result = list(chosen)
        for v, i in zip(free, best, strict=True):
            result[v] = i
        return tuple(result)

    def part(self, chosen: Sequence[int], free: Sequence[int], left: Table) -> GraphProblem:
        """The problem of the free nodes alone: costs with fixed neighbours in the nodes, `left` of the memory."""
        begin, end = self._problem.usage_arrays.of_nodes(free).span
        bare = self._bare(chosen, free, left[begin : end + 1])
        return replace(bare, usages=tuple(_moved(self._problem.usages[v], begin) for v in free))

    def _bare(self, chosen: Sequence[int], free: Sequence[int], left: Table) -> GraphProblem:
        """The same without usages: making them again takes longer than `fit_by_prices` does."""
        index = {v: n for n, v in enumerate(free)}
        costs, pairs = [], []
        for v in free:
            row = self._problem.costs[v].copy()
            for pair in self._pairs[v]:
                other = pair.b if pair.a == v else pair.a
                if other not in index:
                    row += pair.matrix[:, chosen[other]] if pair.a == v else pair.matrix[chosen[other], :]
                elif pair.a == v:
                    pairs.append(PairCost(index[v], index[other], pair.matrix))
            costs.append(np.minimum(row, FORBIDDEN))
        return GraphProblem(tuple(costs), tuple(pairs), (), tuple(map(int, left)))


def _moved(options: Sequence[tuple[Usage, ...]], begin: int) -> tuple[tuple[Usage, ...], ...]:
    """The usages of a node's options with steps counted from `begin`; options that share theirs still do."""
    known: dict[int, tuple[Usage, ...]] = {}
    for uses in options:
        if id(uses) not in known:
            known[id(uses)] = tuple(Usage(u.first - begin, u.last - begin, u.size) for u in uses)
    return tuple(known[id(uses)] for uses in options)
