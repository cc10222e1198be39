"""A whole-graph choice problem in plain integers: one option per node, costs on nodes and on pairs of nodes, and a
memory that has a capacity at every time step.

    minimise   sum_v cost[v][x_v]  +  sum_(u,v) matrix[u,v][x_u, x_v]
    subject to sum_v bytes of x_v alive at t  <=  capacity[t]        for every step t

It knows no graph and no board. Memory layout of a network, distributed strategies with live intervals (IOPDDL) and
chains are instances of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optimizer.errors import StateError
from optimizer.solver.graphs.usages import Table, Usage, UsageArrays

FORBIDDEN = 1 << 44
"""A cost that no solution may contain. Sums of a few thousand of them still fit 64 bits."""


@dataclass(frozen=True)
class PairCost:
    """Costs of two nodes' options together: shape (options of `a`, options of `b`)."""

    a: int
    b: int
    matrix: Table


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
        """The usages, for sums over all of them at once."""
        return UsageArrays.of(self.usages)

    def value(self, chosen: Sequence[int]) -> int:
        """Cost of a choice, capacity aside."""
        total = sum(int(row[i]) for row, i in zip(self.costs, chosen, strict=True))
        return total + sum(int(p.matrix[chosen[p.a], chosen[p.b]]) for p in self.pairs)

    def loads(self, chosen: Sequence[int], nodes: Sequence[int] | None = None) -> Table:
        """Bytes that a choice takes at every step, by all nodes or by some."""
        change = np.zeros(len(self.capacity) + 1, dtype=np.int64)
        for v in range(len(chosen)) if nodes is None else nodes:
            for use in self.usages[v][chosen[v]] if self.usages else ():
                if use.first <= use.last:
                    change[use.first] += use.size
                    change[use.last + 1] -= use.size
        return np.asarray(np.cumsum(change[:-1]), dtype=np.int64)

    def fits(self, chosen: Sequence[int]) -> bool:
        return bool((self.loads(chosen) <= np.asarray(self.capacity)).all())


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
