"""Node by node elimination (min-plus dynamic programming over the whole graph), with mini-buckets where it gets wide.

Eliminating a node replaces all tables it occurs in by one over its neighbours: the least cost it can add to theirs.
The order is by smallest resulting table. Exact while every table stays below the work limit, and then the sum of
constants is the optimum (capacity aside). Where a table would be larger, the tables of that node are split into
groups, each minimised alone: the result is then a lower bound only, and the choice read off is a good one, not a
proven one (Dechter and Rish, "Mini-buckets"). Capacity enters through prices: a byte at step t costs `price[t]`.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, prod

import numpy as np

from optimizer.solver.graph_problem import FORBIDDEN, GraphProblem, GraphSolution, Table

DEFAULT_TABLE_LIMIT = 8_000_000
"""Entries of the largest table that is built."""


@dataclass(frozen=True)
class _Factor:
    scope: tuple[int, ...]
    """Nodes, ascending: the axes of the table."""
    table: Table


def priced_costs(problem: GraphProblem, price: Sequence[float]) -> tuple[Table, ...]:
    """Node costs with every option charged for its bytes, rounded down so that bounds stay bounds."""
    if not problem.usages or not any(price):
        return problem.costs
    upto = np.concatenate(([0.0], np.cumsum(np.asarray(price, dtype=np.float64))))
    result = []
    for row, options in zip(problem.costs, problem.usages, strict=True):
        charge = [floor(sum(float(upto[u.last + 1] - upto[u.first]) * u.size for u in uses)) for uses in options]
        result.append(row + np.asarray(charge, dtype=np.int64))
    return tuple(result)


def eliminate(
    problem: GraphProblem, costs: Sequence[Table] | None = None, table_limit: int = DEFAULT_TABLE_LIMIT
) -> GraphSolution:
    """The best choice when capacity is ignored; `lower_bound` equals `value` if no table was split.

    `costs` replaces the node costs (prices, exclusions). Deterministic: ties go to the lowest option.
    """
    run = _Elimination(problem, problem.costs if costs is None else costs, table_limit)
    return run.solve()


class _Elimination:
    def __init__(self, problem: GraphProblem, costs: Sequence[Table], table_limit: int) -> None:
        self._sizes = problem.sizes
        self._limit = table_limit
        self._costs = costs
        self._pairs = problem.pairs
        self._of: list[dict[int, _Factor]] = [{} for _ in self._sizes]
        self._serial = 0
        self._bound = 0
        self._buckets: list[tuple[int, tuple[_Factor, ...]]] = []
        for v, row in enumerate(costs):
            self._add(_Factor((v,), row))
        for pair in self._pairs:
            swap = pair.a > pair.b
            scope = (pair.b, pair.a) if swap else (pair.a, pair.b)
            self._add(_Factor(scope, pair.matrix.T if swap else pair.matrix))

    def solve(self) -> GraphSolution:
        heap = [(self._width(v), v) for v in range(len(self._sizes))]
        heapq.heapify(heap)
        done: set[int] = set()
        while heap:
            width, v = heapq.heappop(heap)
            if v in done:
                continue
            now = self._width(v)
            if now != width:
                heapq.heappush(heap, (now, v))
                continue
            done.add(v)
            for u in sorted(self._eliminate(v)):
                heapq.heappush(heap, (self._width(u), u))
        chosen = self._read_off()
        value = sum(int(row[i]) for row, i in zip(self._costs, chosen, strict=True))
        value += sum(int(p.matrix[chosen[p.a], chosen[p.b]]) for p in self._pairs)
        if value >= FORBIDDEN:
            return GraphSolution(None, FORBIDDEN, min(self._bound, FORBIDDEN))
        return GraphSolution(tuple(chosen), value, self._bound)

    def _add(self, factor: _Factor) -> None:
        for v in factor.scope:
            self._of[v][self._serial] = factor
        self._serial += 1

    def _width(self, v: int) -> int:
        """Entries of the table that eliminating this node builds."""
        scope = {u for factor in self._of[v].values() for u in factor.scope}
        return prod(self._sizes[u] for u in scope)

    def _eliminate(self, v: int) -> set[int]:
        """Replace the node's tables; returns the neighbours."""
        held = dict(sorted(self._of[v].items(), key=lambda item: (-len(item[1].scope), item[0])))
        for serial, factor in held.items():
            for u in factor.scope:
                del self._of[u][serial]
        factors = tuple(held.values())
        self._buckets.append((v, factors))
        neighbours: set[int] = set()
        for group in self._groups(factors):
            scope = tuple(sorted({u for factor in group for u in factor.scope}))
            rest = tuple(u for u in scope if u != v)
            table = np.minimum(self._sum(group, scope).min(axis=scope.index(v)), FORBIDDEN)
            neighbours.update(rest)
            if rest:
                self._add(_Factor(rest, table))
            else:
                self._bound += int(table)
        return neighbours

    def _groups(self, factors: tuple[_Factor, ...]) -> list[list[_Factor]]:
        """First-fit by size: each group's joint table stays below the limit, unless one alone exceeds it."""
        groups: list[tuple[list[_Factor], set[int]]] = []
        for factor in factors:
            for group, scope in groups:
                joint = scope.union(factor.scope)
                if prod(self._sizes[u] for u in joint) <= self._limit:
                    group.append(factor)
                    scope.update(joint)
                    break
            else:
                groups.append(([factor], set(factor.scope)))
        return [group for group, _ in groups]

    def _sum(self, group: Sequence[_Factor], scope: tuple[int, ...]) -> Table:
        total = np.zeros(tuple(self._sizes[u] for u in scope), dtype=np.int64)
        for factor in group:
            shape = tuple(self._sizes[u] if u in factor.scope else 1 for u in scope)
            total += factor.table.reshape(shape)
        return total

    def _read_off(self) -> list[int]:
        """Choose in reverse order: each node's best against all tables it was eliminated with."""
        chosen = [0] * len(self._sizes)
        for v, factors in reversed(self._buckets):
            row = np.zeros(self._sizes[v], dtype=np.int64)
            for factor in factors:
                at = tuple(slice(None) if u == v else chosen[u] for u in factor.scope)
                row += factor.table[at]
            chosen[v] = int(row.argmin())
        return chosen
