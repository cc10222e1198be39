"""What each option of one node costs in total, if all others are chosen as well as they can be (min-marginals).

Bucket elimination with that node left to the end: what then remains is a table over its options, exact while no bucket
gets too wide, and lower bounds where one had to be split (Dechter, "Bucket elimination: a unifying framework for
reasoning", 1999). Capacity is left aside.

Options of a node that forbid the same options of its neighbours are worked on together, and only where nothing is
forbidden.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem
from optimizer.solver.graphs.usages import Table

TABLE_LIMIT = 8_000_000
"""Entries of the largest table that is built."""

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class _Factor:
    scope: tuple[int, ...]
    """Nodes: the axes of the table."""
    table: Table


@dataclass(frozen=True)
class _Cluster:
    """A bucket, or a part of one: a node with tables that are minimised together."""

    node: int
    rest: tuple[int, ...]
    factors: tuple[_Factor, ...]


@dataclass(frozen=True)
class _Block:
    """Options of a node that leave the same options of its neighbours open, and the cost of all combinations."""

    options: Indices
    open_: tuple[Indices, ...]
    total: Table


def node_totals(problem: GraphProblem, node: int, table_limit: int = TABLE_LIMIT) -> tuple[Table, bool]:
    """Per option of a node the least total with it, FORBIDDEN if there is none; and whether these are exact."""
    elimination = _Elimination(problem, node, table_limit)
    return elimination.totals(), elimination.exact


class _Elimination:
    def __init__(self, problem: GraphProblem, last: int, table_limit: int) -> None:
        self._sizes = problem.sizes
        self._last = last
        self._limit = table_limit
        self._of: list[dict[int, _Factor]] = [{} for _ in self._sizes]
        self._serial = 0
        self._least = 0
        self.exact = True
        for v, row in enumerate(problem.costs):
            self._add(_Factor((v,), row))
        for pair in problem.pairs:
            self._add(_Factor((pair.a, pair.b), pair.matrix))

    def totals(self) -> Table:
        """Eliminate all nodes but the last one, narrowest first, and add up what is left."""
        heap = [(self._width(v), v) for v in range(len(self._sizes)) if v != self._last]
        heapq.heapify(heap)
        done = {self._last}
        while heap:
            width, v = heapq.heappop(heap)
            if v in done:
                continue
            now = self._width(v)
            if now != width:
                heapq.heappush(heap, (now, v))
                continue
            done.add(v)
            for u in sorted(self._eliminate(v) - done):
                heapq.heappush(heap, (self._width(u), u))
        total = np.full(self._sizes[self._last], self._least, dtype=np.int64)
        for factor in self._of[self._last].values():
            total += factor.table
        return np.minimum(total, FORBIDDEN)

    def _add(self, factor: _Factor) -> None:
        for v in factor.scope:
            self._of[v][self._serial] = factor
        self._serial += 1

    def _width(self, v: int) -> int:
        return prod(self._sizes[u] for u in {u for factor in self._of[v].values() for u in factor.scope})

    def _eliminate(self, v: int) -> set[int]:
        held = sorted(self._of[v].items(), key=lambda item: (-len(item[1].scope), item[0]))
        for serial, factor in held:
            for u in factor.scope:
                del self._of[u][serial]
        groups = self._groups([factor for _, factor in held])
        self.exact = self.exact and len(groups) == 1
        neighbours: set[int] = set()
        for group in groups:
            rest = tuple(sorted({u for factor in group for u in factor.scope if u != v}))
            message = self._message(_Cluster(v, rest, tuple(group)))
            neighbours.update(rest)
            if rest:
                self._add(_Factor(rest, message))
            else:
                self._least += int(message)
        return neighbours

    def _message(self, cluster: _Cluster) -> Table:
        """Over the neighbours: the least that the cluster, and all before it, cost."""
        message = np.full([self._sizes[u] for u in cluster.rest], FORBIDDEN, dtype=np.int64)
        for block in self._blocks(cluster):
            least = block.total.min(axis=0)
            if cluster.rest:
                at = np.ix_(*block.open_)
                message[at] = np.minimum(message[at], least)
            else:
                message = np.minimum(message, least)
        return message

    def _groups(self, factors: Sequence[_Factor]) -> list[list[_Factor]]:
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

    # -- the tables of one cluster -------------------------------------------------------------------
    def _blocks(self, cluster: _Cluster) -> Iterator[_Block]:
        """All combinations that no table of the node with one neighbour forbids, in blocks of equal openness."""
        v, rest = cluster.node, cluster.rest
        masks = [self._allowed(cluster, u) for u in rest]
        own = np.zeros(self._sizes[v], dtype=np.int64)
        for factor in cluster.factors:
            if factor.scope == (v,):
                own += factor.table
        groups: dict[bytes, list[int]] = {}
        packed = [np.packbits(mask, axis=1) for mask in masks]
        for option in np.flatnonzero(own < FORBIDDEN).tolist():
            groups.setdefault(b"|".join(rows[option].tobytes() for rows in packed), []).append(option)
        for members in groups.values():
            open_ = tuple(np.flatnonzero(mask[members[0]]) for mask in masks)
            size = prod(len(row) for row in open_)
            if size:
                step = max(1, self._limit // size)
                for start in range(0, len(members), step):
                    options = np.asarray(members[start : start + step], dtype=np.intp)
                    yield _Block(options, open_, self._total(cluster, options, open_))

    def _allowed(self, cluster: _Cluster, u: int) -> NDArray[np.bool_]:
        """(options of the node, options of a neighbour): combinations that no table of just the two forbids."""
        v = cluster.node
        allowed = np.ones((self._sizes[v], self._sizes[u]), dtype=np.bool_)
        for factor in cluster.factors:
            if factor.scope == (v, u):
                allowed &= factor.table < FORBIDDEN
            elif factor.scope == (u, v):
                allowed &= factor.table.T < FORBIDDEN
            elif factor.scope == (u,):
                allowed &= factor.table[None, :] < FORBIDDEN
        return allowed

    def _total(self, cluster: _Cluster, options: Indices, open_: tuple[Indices, ...]) -> Table:
        """The cluster's tables added up, the node's axis first."""
        axes = [cluster.node, *cluster.rest]
        indices = dict(zip(axes, (options, *open_), strict=True))
        total = np.zeros([len(indices[u]) for u in axes], dtype=np.int64)
        for factor in cluster.factors:
            part = factor.table[np.ix_(*(indices[u] for u in factor.scope))]
            order = sorted(range(len(factor.scope)), key=lambda n: axes.index(factor.scope[n]))
            shape = [len(indices[u]) if u in factor.scope else 1 for u in axes]
            total += part.transpose(order).reshape(shape)
        return np.minimum(total, FORBIDDEN)
