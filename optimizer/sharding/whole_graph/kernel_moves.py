"""A choice of a `GlobalProblem` made better kernel by kernel: each is held, and the nodes around it chosen again.

Weights fill what L1 has left, and a kernel needs room for its circular buffers at its step. So the search begins several
times: with the weights as they are, and with fewer of them, so that kernels of several sizes fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator

import numpy as np

from optimizer.sharding.whole_graph.global_problem import Choice, GlobalProblem
from optimizer.sharding.whole_graph.weight_choice import WeightChoice
from optimizer.solver.graphs.graph_problem import FORBIDDEN, Table
from optimizer.solver.graphs.neighbourhood import Neighbourhoods

AROUND = (2, 60)
"""Nodes chosen again with a kernel: within so many pairs of it, and so many at most."""
TRIED = 6
"""Kernels of one group that are tried, those that save most first,"""
ALIKE = 2
"""for so many groups of a kind; for the others those that paid for one of them."""
RESERVES = 3
"""Sizes of kernels for which room is made."""


class KernelMoves:
    """The moves of one problem."""

    def __init__(
        self, model: GlobalProblem, weights: WeightChoice, around: Neighbourhoods, stop: Callable[[], bool]
    ) -> None:
        self._model, self._weights, self._around, self._stop = model, weights, around, stop
        self._integers = model.integers

    def better(self, chosen: Choice, capacity: Table) -> Iterator[Choice]:
        """Choices with kernels, made from this one; every one is meant to be replayed."""
        filled = (self._weights.filled(chosen, reserve) for reserve in self._reserves())
        for start in dict.fromkeys((chosen, *(found for found in filled if found is not None))):
            found = self._moved(start, capacity)
            if found != chosen:
                yield found

    def _reserves(self) -> tuple[int, ...]:
        """Bytes of kernels' circular buffers, a few sizes of many."""
        options = ((v, i) for v, node in self._model.kernel_nodes() for i in range(1, len(node.offers) + 1)[:TRIED])
        sizes = sorted({use.size for v, i in options for use in self._integers.usages[v][i]})
        return tuple(dict.fromkeys(sizes[n * (len(sizes) - 1) // (RESERVES - 1)] for n in range(RESERVES) if sizes))

    def _moved(self, chosen: Choice, capacity: Table) -> Choice:
        """The choice with one kernel after the other, as long as each makes it better."""
        paying: dict[Hashable, set[int]] = {}
        seen: Counter[Hashable] = Counter()
        for v, node in self._model.kernel_nodes():
            kind = tuple(id(self._model.ways_of(op_id)) for op_id in node.group), node.costs.tobytes()
            options = range(1, len(node.offers) + 1)[:TRIED] if seen[kind] < ALIKE else sorted(paying.get(kind, ()))
            seen[kind] += 1
            best = (self._integers.value(chosen), 0, chosen)
            for i in options:
                found = None if i == chosen[v] or self._stop() else self._held(chosen, v, i, capacity)
                if found is not None:
                    best = min(best, (self._integers.value(found), i, found))
            if best[1]:
                chosen = best[2]
                paying.setdefault(kind, set()).add(best[1])
        return chosen

    def _held(self, chosen: Choice, v: int, option: int, capacity: Table) -> Choice | None:
        """The nodes around a kernel chosen again with it; None if that is not possible within the capacity."""
        only = np.arange(len(self._integers.costs[v])) == option
        free = self._around.around((v,), *AROUND)
        found = self._around.rechosen(chosen, free, capacity, range(len(capacity)), self._stop, {v: only})
        return None if found is None or self._integers.value(found) >= FORBIDDEN else found
