"""A whole-graph choice problem in plain integers: one option per node, costs on nodes and on pairs of nodes, and a
memory that has a capacity at every time step.

    minimise   sum_v cost[v][x_v]  +  sum_(u,v) matrix[u,v][x_u, x_v]
    subject to sum_v bytes of x_v alive at t  <=  capacity[t]        for every step t

It knows no graph and no board. Memory layout of a network, distributed strategies with live intervals (IOPDDL) and
chains are instances of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, product

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import StateError

Table = NDArray[np.int64]

FORBIDDEN = 1 << 44
"""A cost that no solution may contain. Sums of a few thousand of them still fit 64 bits."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes taken at every step from `first` to `last`, both included."""

    first: int
    last: int
    size: int


@dataclass(frozen=True)
class PairCost:
    """Costs of two nodes' options together: shape (options of `a`, options of `b`)."""

    a: int
    b: int
    matrix: Table


@dataclass(frozen=True, slots=True, eq=False)
class UsageArrays:
    """All usages of a problem side by side, node by node. Options of a node that take the same tuple of usages share a
    *taker*."""

    first: Table
    last: Table
    size: Table
    taker: Table
    """Of every usage."""
    usages_before: Table
    """Of every node, and the count of all."""
    takers_before: Table
    of_options: tuple[Table, ...]
    """Per node, the taker of every option, counted from the node's first."""

    def of_nodes(self, nodes: Sequence[int], begin: int) -> UsageArrays:
        """Those of some nodes alone, with steps counted from `begin`."""
        counts = np.diff(self.usages_before)[list(nodes)]
        takers = np.diff(self.takers_before)[list(nodes)]
        usages_before, takers_before = (np.concatenate(([0], np.cumsum(c))) for c in (counts, takers))
        at = np.repeat(self.usages_before[list(nodes)] - usages_before[:-1], counts) + np.arange(counts.sum())
        moved = np.repeat(takers_before[:-1] - self.takers_before[list(nodes)], counts)
        return UsageArrays(
            self.first[at] - begin, self.last[at] - begin, self.size[at], self.taker[at] + moved,
            usages_before, takers_before, tuple(self.of_options[v] for v in nodes),
        )  # fmt: skip


@dataclass(frozen=True)
class GraphProblem:
    """An instance. Costs are integers >= 0, `FORBIDDEN` excludes."""

    costs: tuple[Table, ...]
    """Per node, one cost per option."""
    pairs: tuple[PairCost, ...]
    usages: tuple[tuple[tuple[Usage, ...], ...], ...] = ()
    """Per node and option, what it takes of the memory; empty if nothing takes any."""
    capacity: tuple[int, ...] = ()
    """Per time step."""
    begin: int = 0
    """The step of the usages that the first of `capacity` is."""
    arrays: UsageArrays | None = field(default=None, compare=False, repr=False)
    """`usage_arrays`, if they are known."""

    def __post_init__(self) -> None:
        sizes = self.sizes
        if min(sizes, default=1) == 0:
            raise StateError(f"node {sizes.index(0)} has no option")
        for pair in self.pairs:
            if pair.a == pair.b or pair.matrix.shape != (sizes[pair.a], sizes[pair.b]):
                raise StateError(f"the costs of nodes {pair.a} and {pair.b} are not {sizes[pair.a]} x {sizes[pair.b]}")
        if self.usages and tuple(map(len, self.usages)) != sizes:
            raise StateError("usages do not match the options")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Options per node."""
        return tuple(len(row) for row in self.costs)

    @cached_property
    def usage_arrays(self) -> UsageArrays:
        """The usages, for sums over all of them at once, with steps counted from `begin`."""
        if self.arrays is not None:
            return self.arrays
        rows: list[tuple[int, int, int, int]] = []
        usages_before, takers_before, of_options = [0], [0], []
        for options in self.usages:
            known: dict[int, int] = {}
            for uses in options:
                if id(uses) not in known:
                    number = known[id(uses)] = len(known)
                    rows += [(u.first, u.last, u.size, takers_before[-1] + number) for u in uses]
            of_options.append(np.asarray([known[id(uses)] for uses in options], dtype=np.int64))
            usages_before.append(len(rows))
            takers_before.append(takers_before[-1] + len(known))
        first, last, size, taker = np.asarray(rows, dtype=np.int64).reshape(-1, 4).T
        before = np.asarray(usages_before), np.asarray(takers_before)
        return UsageArrays(first - self.begin, last - self.begin, size, taker, *before, tuple(of_options))

    def value(self, chosen: Sequence[int]) -> int:
        """Cost of a choice, capacity aside."""
        total = sum(int(row[i]) for row, i in zip(self.costs, chosen, strict=True))
        return total + sum(int(p.matrix[chosen[p.a], chosen[p.b]]) for p in self.pairs)

    def load(self, chosen: Sequence[int]) -> list[int]:
        """Bytes taken at every step."""
        change = [0] * (len(self.capacity) + 1)
        for rows, i in zip(self.usages, chosen, strict=False):
            for usage in rows[i]:
                if usage.first <= usage.last:
                    change[usage.first - self.begin] += usage.size
                    change[usage.last - self.begin + 1] -= usage.size
        return list(accumulate(change[:-1]))

    def fits(self, chosen: Sequence[int]) -> bool:
        return all(used <= limit for used, limit in zip(self.load(chosen), self.capacity, strict=True))


@dataclass(frozen=True)
class GraphSolution:
    """A choice, or the proof that there is none (`chosen` None), with what is proven about all others."""

    chosen: tuple[int, ...] | None
    value: int
    """Cost of the choice; FORBIDDEN if there is none."""
    lower_bound: int
    """No choice that respects the problem costs less."""

    @property
    def gap(self) -> float:
        """Share of the value that is not proven necessary."""
        return 0.0 if self.value <= self.lower_bound else (self.value - self.lower_bound) / self.value


def brute_force(problem: GraphProblem) -> GraphSolution:
    """The best of all combinations, the first of equal ones: for tests of other solvers."""
    best: tuple[int, tuple[int, ...] | None] = (FORBIDDEN, None)
    for chosen in product(*(range(n) for n in problem.sizes)):
        value = problem.value(chosen)
        if value < best[0] and problem.fits(chosen):
            best = (value, chosen)
    return GraphSolution(best[1], best[0], best[0])
