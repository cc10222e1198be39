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

SPARSE_FACTOR = 8
"""A combination costs so many times more when looked at option by option."""
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
        """Combinations that eliminating this node looks at."""
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
            rest = tuple(sorted({u for factor in group for u in factor.scope if u != v}))
            joint = self._sizes[v] * prod(self._sizes[u] for u in rest)
            sparse = SPARSE_FACTOR * self._open_count(group, v, rest) < joint
            table = self._least_sparse(group, v, rest) if sparse else self._least(group, v, rest)
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

    def _open_count(self, group: Sequence[_Factor], v: int, rest: tuple[int, ...]) -> int:
        """Combinations that the tables of `v` with one neighbour do not forbid."""
        count = np.ones(self._sizes[v], dtype=np.int64)
        for u in rest:
            allowed = np.ones((self._sizes[v], self._sizes[u]), dtype=np.bool_)
            for factor in group:
                if set(factor.scope) == {u, v}:
                    allowed &= (factor.table if factor.scope[0] == v else factor.table.T) < FORBIDDEN
            count *= allowed.sum(axis=1)
        return int(count.sum())

    def _least(self, group: Sequence[_Factor], v: int, rest: tuple[int, ...]) -> Table:
        """The group's joint table, minimised over the options of `v`."""
        scope = tuple(sorted((v, *rest)))
        total = np.zeros(tuple(self._sizes[u] for u in scope), dtype=np.int64)
        for factor in group:
            total += factor.table.reshape(tuple(self._sizes[u] if u in factor.scope else 1 for u in scope))
        return np.asarray(np.minimum(total.min(axis=scope.index(v)), FORBIDDEN))

    def _least_sparse(self, group: Sequence[_Factor], v: int, rest: tuple[int, ...]) -> Table:
        """The same where most combinations are forbidden.

        Option by option, and only over the neighbours' options that it does not forbid: few, as a rule.
        """
        least = np.full(tuple(self._sizes[u] for u in rest), FORBIDDEN, dtype=np.int64)
        for option in range(self._sizes[v]):
            rows = [self._slice(factor, v, option) for factor in group]
            open_: list[Table] = [np.arange(self._sizes[u]) for u in rest]
            base = 0
            for scope, table in rows:
                if not scope:
                    base += int(table)
                elif len(scope) == 1:
                    axis = rest.index(scope[0])
                    open_[axis] = open_[axis][table[open_[axis]] < FORBIDDEN]
            if base >= FORBIDDEN or not all(map(len, open_)):
                continue
            total = np.full(tuple(map(len, open_)), base, dtype=np.int64)
            for scope, table in rows:
                if scope:
                    shape = tuple(len(open_[n]) if u in scope else 1 for n, u in enumerate(rest))
                    total += table[np.ix_(*(open_[rest.index(u)] for u in scope))].reshape(shape)
            at = np.ix_(*open_) if rest else ()
            least[at] = np.minimum(least[at], total)
        return least

    def _slice(self, factor: _Factor, v: int, option: int) -> tuple[tuple[int, ...], Table]:
        if v not in factor.scope:
            return factor.scope, factor.table
        axis = factor.scope.index(v)
        scope = (*factor.scope[:axis], *factor.scope[axis + 1 :])
        return scope, np.asarray(factor.table.take(option, axis=axis))

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
