"""Costs of a graph problem with a price per byte in every row of its memory, in integers.

For whatever prices, `cost + price of the bytes taken - price of the capacity` is at most the cost of a choice that
fits. Prices are rounded to whole multiples of a power of two, charges are rounded down in units finer than the costs'
and the price of the capacity up, so that this holds to the last digit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimizer.solver.graphs.capacity import Capacity, FlatUses
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, PairCost
from optimizer.solver.graphs.usages import Table

Floats = NDArray[np.float64]

FINE_BITS = 8
"""Costs are counted in 1/256 where there is room, so that rounding charges down loses next to nothing."""
MOST_PRICE_BITS = 40
"""Prices are multiples of 2^-40 or coarser."""


@dataclass(frozen=True)
class Charged:
    """Node costs at some prices."""

    costs: tuple[Table, ...]
    """In 1/scale; FORBIDDEN stays."""
    paid: int
    """In 1/scale: what the whole capacity costs."""
    prices: Floats
    """As rounded."""


class PricedProblem:
    """The problem in units of 1/`scale` of its costs."""

    def __init__(self, problem: GraphProblem, capacity: Capacity) -> None:
        self._capacity = capacity
        self.uses = FlatUses(capacity)
        self._largest = sum(int(row[row < FORBIDDEN].max(initial=0)) for row in problem.costs)
        self._largest += sum(int(p.matrix[p.matrix < FORBIDDEN].max(initial=0)) for p in problem.pairs)
        bits = max(0, min(FINE_BITS, (FORBIDDEN - 1).bit_length() - 2 - self._largest.bit_length()))
        self.scale = 1 << bits
        rows = {id(row): row for row in problem.costs}
        rows = {key: _scaled(row, self.scale) for key, row in rows.items()}
        costs = tuple(rows[id(row)] for row in problem.costs)
        matrices = {id(p.matrix): p.matrix for p in problem.pairs}
        scaled = {key: _scaled(matrix, self.scale) for key, matrix in matrices.items()}
        pairs = tuple(PairCost(p.a, p.b, scaled[id(p.matrix)]) for p in problem.pairs)
        self.problem = GraphProblem(costs, pairs)
        """Without prices and without memory."""

    def charge(self, prices: Floats) -> Charged:
        """Costs at prices per row (of the unscaled cost per byte, >= 0)."""
        unit = self._unit_of(prices)
        whole = np.round(prices * unit).astype(np.int64)
        upto = np.concatenate(([0], np.cumsum(whole)))
        costs = list(self.problem.costs)
        segments, first = upto[self.uses.ends] - upto[self.uses.starts], self.uses.first
        known: dict[tuple[int, int, bytes], Table] = {}
        for n, (v, use) in enumerate(self._capacity.nodes.items()):
            price = segments[first[n] : first[n + 1]]
            key = id(costs[v]), self.uses.kinds[n], price.tobytes()
            if key not in known:
                charge = use.extra @ price * self.scale // unit
                known[key] = np.where(costs[v] >= FORBIDDEN, FORBIDDEN, np.minimum(costs[v] + charge, FORBIDDEN - 1))
            costs[v] = known[key]
        paid = sum(int(price) * int(limit) for price, limit in zip(whole, self._capacity.limits, strict=True))
        return Charged(tuple(costs), -(-paid * self.scale // unit), whole / unit)

    def within_limits(self, prices: Floats) -> Floats:
        """The prices, divided by a power of two if charges could otherwise make an allowed sum look forbidden."""
        upto = np.concatenate(([0.0], np.cumsum(prices)))
        charges = [(use.extra @ (upto[use.ends] - upto[use.starts])).max() for use in self._capacity.nodes.values()]
        total = (float(sum(charges)) + 1) * self.scale
        return prices / (1 << max(0, int(np.ceil(np.log2(total * 4 / FORBIDDEN)))))

    def _unit_of(self, prices: Floats) -> int:
        """A power of two: prices times it are whole numbers, and charges in them stay below 2^61."""
        most = max(1.0, float(prices.sum()), self.uses.most(prices)) * self.scale
        return 1 << min(MOST_PRICE_BITS, max(0, 60 - int(np.ceil(np.log2(most)))))


def _scaled(table: Table, scale: int) -> Table:
    return np.where(table >= FORBIDDEN, FORBIDDEN, table * scale)
