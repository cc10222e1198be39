"""What every option of every node would cost at least in total: min-marginals by two passes over a bucket tree.

Elimination sends a message from each node's bucket to the next one its neighbours are eliminated in. A second pass back
down the same tree tells every bucket what all others cost at least for each choice of its neighbours; the two together
are the optimum under "this node takes this option" (Dechter, "Bucket elimination: a unifying framework for reasoning",
1999). Where a bucket would get too wide it is split (mini-buckets): the figures are then lower bounds, as those of the
elimination itself. Capacity enters through prices in the costs.

Options of a node that forbid the same options of its neighbours are worked on together, and only where nothing is
forbidden.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray

from optimizer.solver.graph_problem import FORBIDDEN, GraphProblem, Table

TABLE_LIMIT = 8_000_000
"""Entries of the largest table that is built."""

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class MinMarginals:
    """Least totals, capacity aside."""

    totals: tuple[Table, ...]
    """Per node, for each option: no choice with it costs less; FORBIDDEN if there is none."""
    exact: bool
    """Whether the totals are reached."""


@dataclass(frozen=True)
class _Factor:
    scope: tuple[int, ...]
    """Nodes: the axes of the table."""
    table: Table
    maker: int | None = None
    """Cluster whose message it is; None for the problem's own tables."""


@dataclass
class _Cluster:
    """A bucket, or a part of one: a node with tables that are minimised together."""

    node: int
    rest: tuple[int, ...]
    factors: tuple[_Factor, ...]
    message: Table = field(default_factory=lambda: np.zeros((), dtype=np.int64))
    """Over `rest`: the least that this cluster and all before it cost."""
    outside: Table = field(default_factory=lambda: np.zeros((), dtype=np.int64))
    """Over `rest`: the least that everything else costs."""


@dataclass(frozen=True)
class _Block:
    """Options of a node that leave the same options of its neighbours open, and the cost of all combinations."""

    options: Indices
    open_: tuple[Indices, ...]
    total: Table


def min_marginals(
    problem: GraphProblem, costs: Sequence[Table] | None = None, table_limit: int = TABLE_LIMIT
) -> MinMarginals:
    """Least totals of all options; `costs` replaces the node costs (prices, exclusions)."""
    tree = _BucketTree(problem, problem.costs if costs is None else costs, table_limit)
    tree.up()
    tree.down()
    return MinMarginals(tuple(tree.totals), tree.exact)


def node_totals(
    problem: GraphProblem, node: int, costs: Sequence[Table] | None = None, table_limit: int = TABLE_LIMIT
) -> tuple[Table, bool]:
    """The totals of one node's options alone, and whether they are exact: one pass that leaves this node to the end."""
    tree = _BucketTree(problem, problem.costs if costs is None else costs, table_limit)
    tree.up(last=node)
    return tree.totals[node], tree.exact


class _BucketTree:
    def __init__(self, problem: GraphProblem, costs: Sequence[Table], table_limit: int) -> None:
        self._sizes = problem.sizes
        self._limit = table_limit
        self._of: list[dict[int, _Factor]] = [{} for _ in self._sizes]
        self._serial = 0
        self._clusters: list[_Cluster] = []
        self._least = 0
        self.exact = True
        self.totals: list[Table] = [np.zeros(n, dtype=np.int64) for n in self._sizes]
        for v, row in enumerate(costs):
            self._add(_Factor((v,), row))
        for pair in problem.pairs:
            self._add(_Factor((pair.a, pair.b), pair.matrix))

    # -- towards the last node eliminated ------------------------------------------------------------
    def up(self, last: int | None = None) -> None:
        """Eliminate all nodes, narrowest first. `last` stays, with its totals."""
        heap = [(self._width(v), v) for v in range(len(self._sizes)) if v != last]
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
                if u != last:
                    heapq.heappush(heap, (self._width(u), u))
        if last is not None:
            left = sum(factor.table for factor in self._of[last].values()) + self._least
            self.totals[last] = np.minimum(np.asarray(left, dtype=np.int64), FORBIDDEN)

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
            cluster = _Cluster(v, rest, tuple(group))
            cluster.message = np.full([self._sizes[u] for u in rest], FORBIDDEN, dtype=np.int64)
            for block in self._blocks(cluster):
                _lower(cluster.message, block.open_, block.total.min(axis=0))
            self._clusters.append(cluster)
            neighbours.update(rest)
            if rest:
                self._add(_Factor(rest, cluster.message, len(self._clusters) - 1))
            else:
                self._least += int(cluster.message)
        return neighbours

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

    # -- and back ------------------------------------------------------------------------------------
    def down(self) -> None:
        """Tell every cluster what all others cost, and add up each node's totals."""
        for cluster in self._clusters:
            cluster.outside = np.full(cluster.message.shape, FORBIDDEN, dtype=np.int64)
        for cluster in reversed(self._clusters):
            if not cluster.rest:
                cluster.outside = np.asarray(self._least - int(cluster.message), dtype=np.int64)
            mine = np.full(self._sizes[cluster.node], FORBIDDEN, dtype=np.int64)
            makers = [factor for factor in cluster.factors if factor.maker is not None]
            for block in self._blocks(cluster):
                total = np.minimum(block.total + cluster.outside[np.ix_(*block.open_)], FORBIDDEN)
                mine[block.options] = total.reshape(len(block.options), -1).min(axis=1)
                for factor in makers:
                    self._hand_down(cluster, factor, block, total)
            for factor in makers:
                assert factor.maker is not None
                child = self._clusters[factor.maker]
                child.outside = np.where(child.outside < FORBIDDEN, child.outside - child.message, FORBIDDEN)
            self.totals[cluster.node] = np.maximum(self.totals[cluster.node], mine)

    def _hand_down(self, cluster: _Cluster, factor: _Factor, block: _Block, total: Table) -> None:
        """Lower the maker's `outside` (its own message still inside) by a block of this cluster's totals."""
        assert factor.maker is not None
        kept = [cluster.node, *cluster.rest]
        others = tuple(axis for axis, u in enumerate(kept) if u not in factor.scope)
        left = [u for u in kept if u in factor.scope]
        least = total.min(axis=others) if others else total
        open_ = dict(zip(kept, (block.options, *block.open_), strict=True))
        order = [left.index(u) for u in factor.scope]
        _lower(self._clusters[factor.maker].outside, tuple(open_[u] for u in factor.scope), least.transpose(order))

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


def _lower(table: Table, open_: tuple[Indices, ...], values: Table) -> None:
    """Entry-wise minimum into the part of a table that the indices pick out."""
    if not open_:
        np.minimum(table, values, out=table)
        return
    at = np.ix_(*open_)
    table[at] = np.minimum(table[at], values)
