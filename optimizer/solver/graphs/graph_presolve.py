"""Smaller graph problems with the same optimum, and the way back.

Rounds of, until nothing changes:

- options that a neighbour forbids entirely, or that do not fit even among the least of all others, go;
- dominated options go (`optimizer.solver.graphs.dominance`);
- a node with one option, or whose option follows from a neighbour's, is merged into its neighbours;
- a node that takes no memory and has at most two neighbours becomes a table between them (exact elimination);
- what a pair costs at least in a row or column is charged to the node.

Values keep their meaning: the cost of a choice of the smaller problem plus `offset` is that of the restored choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimizer.solver.graphs.capacity import NodeUse, capacity_of, joined, reduced
from optimizer.solver.graphs.dominance import survivors
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, PairCost
from optimizer.solver.graphs.usages import Table, Usage

ROUNDS = 6
FOLD_WORK = 4_000_000
"""Cells looked at to take out one node."""
TABLE_CELLS = 4_000
"""A table that replaces a node may be this large, or as large as the tables it replaces."""


@dataclass(frozen=True)
class _Removed:
    """A node whose option follows from those of some others. Options are numbered as in the larger problem."""

    node: int
    neighbours: tuple[int, ...]
    axes: tuple[Table, ...]
    """Per neighbour its options, ascending: what the table's axes stand for."""
    option: Table


@dataclass(frozen=True)
class Presolved:
    """The smaller problem. `feasible` False: the larger one has no choice that fits (`problem` is then empty)."""

    problem: GraphProblem
    offset: int
    feasible: bool
    steps: tuple[int, ...]
    """The larger problem's time step of each of the smaller one's."""
    _nodes: tuple[int, ...]
    """The nodes that are left, as numbered in the larger problem."""
    _options: tuple[Table, ...]
    """Their options, as numbered in the larger problem."""
    _removed: tuple[_Removed, ...]

    def restore(self, chosen: Sequence[int]) -> tuple[int, ...]:
        """The choice of the larger problem that a choice of the smaller one stands for."""
        found = {v: int(row[i]) for v, row, i in zip(self._nodes, self._options, chosen, strict=True)}
        for step in reversed(self._removed):
            at = (np.searchsorted(axis, found[u]) for u, axis in zip(step.neighbours, step.axes, strict=True))
            found[step.node] = int(step.option[tuple(map(int, at))])
        return tuple(found[v] for v in range(len(found)))


def presolve(problem: GraphProblem, upper_bound: int = FORBIDDEN) -> Presolved:
    """The problem without what cannot be in a choice of value below `upper_bound`, or need not be."""
    return _Presolve(problem, upper_bound).run()


def untouched(problem: GraphProblem) -> Presolved:
    """The problem itself in the place of a smaller one."""
    options = tuple(np.arange(size) for size in problem.sizes)
    steps = tuple(range(len(problem.capacity)))
    return Presolved(problem, 0, True, steps, tuple(range(len(options))), options, ())


class _Presolve:
    def __init__(self, problem: GraphProblem, upper_bound: int) -> None:
        self._upper = min(upper_bound, FORBIDDEN)
        self._costs: list[Table] = [np.where(row >= self._upper, FORBIDDEN, row) for row in problem.costs]
        self._capacity = capacity_of(problem)
        self._options: list[Table] = [np.arange(len(row)) for row in problem.costs]
        """Per node, what its present options are called in the problem."""
        self._pairs: list[dict[int, Table]] = [{} for _ in problem.costs]
        """Per node, its table with each neighbour: rows are the node's options. Both sides hold the same table."""
        self._left = set(range(len(problem.costs)))
        self._removed: list[_Removed] = []
        self._touched: set[int] = set()
        self._offset = 0
        for pair in problem.pairs:
            self._add_pair(pair.a, pair.b, np.where(pair.matrix >= self._upper, FORBIDDEN, pair.matrix))

    def run(self) -> Presolved:
        feasible, dirty = True, set(self._left)
        for _ in range(ROUNDS):
            self._touched = set()
            feasible = self._consistent() and self._tighten() and self._consistent()
            if not feasible:
                break
            for v in sorted(dirty & self._left):
                self._drop_dominated(v)
            self._reduce_capacity()
            for v in sorted(self._left):
                if v in self._left:
                    self._remove(v)
            dirty = {u for v in self._touched & self._left for u in (v, *self._pairs[v])}
            if not dirty:
                break
        self._reduce_capacity()
        return self._result(feasible and not (self._capacity.limits < 0).any())

    # -- tables ----------------------------------------------------------------------------------------------
    def _add_pair(self, a: int, b: int, matrix: Table) -> None:
        """Add costs between two nodes, rows for `a`."""
        if b in self._pairs[a]:
            matrix = np.minimum(self._pairs[a][b] + matrix, FORBIDDEN)
        self._set_pair(a, b, matrix)

    def _set_pair(self, a: int, b: int, matrix: Table) -> None:
        self._pairs[a][b] = matrix
        self._pairs[b][a] = matrix.T

    def _drop_pair(self, a: int, b: int) -> None:
        del self._pairs[a][b], self._pairs[b][a]

    def _charge(self, v: int, amount: Table) -> None:
        self._costs[v] = np.minimum(self._costs[v] + amount, FORBIDDEN)

    def _keep(self, v: int, left: Table) -> None:
        """Keep only some of a node's options."""
        self._touched.add(v)
        self._costs[v], self._options[v] = self._costs[v][left], self._options[v][left]
        for u, matrix in self._pairs[v].items():
            self._set_pair(v, u, matrix[left])
        if v in self._capacity.nodes:
            use = self._capacity.nodes[v]
            self._capacity.nodes[v] = NodeUse(use.starts, use.ends, use.extra[left])

    # -- options that go -------------------------------------------------------------------------------------
    def _consistent(self) -> bool:
        """Options with an allowed partner in every neighbour, to a fixed point; False if a node has none."""
        waiting = sorted(self._left, reverse=True)
        inside = set(waiting)
        while waiting:
            v = waiting.pop()
            inside.discard(v)
            allowed = self._costs[v] < FORBIDDEN
            for matrix in self._pairs[v].values():
                allowed &= (matrix < FORBIDDEN).any(axis=1)
            if allowed.all():
                continue
            if not allowed.any():
                return False
            self._keep(v, np.flatnonzero(allowed))
            for u in self._pairs[v]:
                if u not in inside:
                    inside.add(u)
                    waiting.append(u)
        return True

    def _tighten(self) -> bool:
        """Charge what is paid anyway, and drop what is then too dear or too large; False if nothing is left."""
        for v in sorted(self._left):
            for u, matrix in list(self._pairs[v].items()):
                if u > v:
                    self._charge_least(v, u, matrix)
        for v in self._left:
            least = int(self._costs[v].min())
            self._offset += least
            self._costs[v] = np.where(self._costs[v] >= FORBIDDEN, FORBIDDEN, self._costs[v] - least)
        if self._offset >= self._upper:
            return False
        self._reduce_capacity()
        if (self._capacity.limits < 0).any():
            return False
        for v in sorted(self._left):
            kept = self._costs[v] < self._upper - self._offset
            if v in self._capacity.nodes:
                use, limits = self._capacity.nodes[v], self._capacity.limits
                room = [limits[start:end].min() for start, end in zip(use.starts, use.ends, strict=True)]
                kept &= (use.extra <= np.asarray(room)).all(axis=1)
            if not kept.any():
                return False
            if not kept.all():
                self._keep(v, np.flatnonzero(kept))
        return True

    def _charge_least(self, a: int, b: int, matrix: Table) -> None:
        if not matrix.any():
            self._drop_pair(a, b)
            return
        for axis, v in ((1, a), (0, b)):
            least = matrix.min(axis=axis)
            if least.any():
                self._charge(v, least)
                matrix = np.where(matrix >= FORBIDDEN, FORBIDDEN, matrix - np.expand_dims(least, axis))
        self._set_pair(a, b, matrix)

    def _reduce_capacity(self) -> None:
        self._capacity = reduced(self._capacity, {v: self._costs[v] < FORBIDDEN for v in self._capacity.nodes})

    def _drop_dominated(self, v: int) -> None:
        use = self._capacity.nodes.get(v)
        extra = np.zeros((len(self._costs[v]), 0), dtype=np.int64) if use is None else use.extra
        left = survivors(self._costs[v], list(self._pairs[v].values()), extra)
        if len(left) < len(self._costs[v]):
            self._keep(v, left)

    # -- nodes that go ---------------------------------------------------------------------------------------
    def _remove(self, v: int) -> None:
        """Merge a node into its neighbours if that makes nothing larger."""
        if v not in self._capacity.nodes and (len(self._pairs[v]) <= 2 or len(self._costs[v]) == 1):
            self._fold(v)
            return
        for u in self._pairs[v]:
            allowed = self._pairs[v][u] < FORBIDDEN
            if (allowed.sum(axis=0) == 1).all() and self._merge_size(v, u):
                # Where each follows from the other, the one with fewer pairs goes: hubs are not carried around.
                fewer = len(self._pairs[u]) < len(self._pairs[v])
                if fewer and (allowed.sum(axis=1) == 1).all() and self._merge_size(u, v):
                    self._follow(u, v, allowed.argmax(axis=1))
                else:
                    self._follow(v, u, allowed.argmax(axis=0))
                return

    def _merge_size(self, v: int, u: int) -> bool:
        """Whether the tables of `u` stay small if it takes over those of `v`."""
        others = [len(self._costs[w]) for w in self._pairs[v] if w != u]
        before, after = len(self._costs[v]) * sum(others), len(self._costs[u]) * sum(others)
        return after <= max(before, TABLE_CELLS)

    def _fold(self, v: int) -> None:
        """Replace a node that takes no memory by the least that it costs, given its neighbours' options."""
        around = tuple(sorted(self._pairs[v]))
        count, costs = len(self._costs[v]), self._costs[v]
        tables = [self._pairs[v][u] for u in around]
        if count == 1:
            for u, table in zip(around, tables, strict=True):
                self._charge(u, table[0])
            self._offset += int(costs[0])
            self._forget(v, (), costs)
            return
        sizes = [table.shape[1] for table in tables]
        if len(around) == 2:
            cells = sizes[0] * sizes[1]
            if cells > max(TABLE_CELLS, count * sum(sizes)) or cells * count > FOLD_WORK:
                return
            joint = costs[:, None, None] + tables[0][:, :, None] + tables[1][:, None, :]
        else:
            joint = costs[:, None] + tables[0] if around else costs
        self._forget(v, around, joint)
        least = np.minimum(joint.min(axis=0), FORBIDDEN)
        if len(around) == 2:
            self._add_pair(around[0], around[1], least)
        elif around:
            self._charge(around[0], least)
        else:
            self._offset += int(least)

    def _forget(self, v: int, around: tuple[int, ...], joint: Table) -> None:
        """Take a node out; `joint` holds the cost of its options (first axis) for its neighbours' options."""
        axes = tuple(self._options[u] for u in around)
        self._removed.append(_Removed(v, around, axes, self._options[v][joint.argmin(axis=0)]))
        self._touched.update(self._pairs[v])
        for u in list(self._pairs[v]):
            self._drop_pair(v, u)
        self._left.discard(v)

    def _follow(self, v: int, u: int, option: Table) -> None:
        """Take out a node whose option is `option[option of u]`, and give `u` its costs and memory."""
        self._charge(u, self._costs[v][option] + self._pairs[v][u][option, np.arange(len(option))])
        for w, matrix in list(self._pairs[v].items()):
            if w != u:
                self._add_pair(u, w, matrix[option])
        if v in self._capacity.nodes:
            use = self._capacity.nodes.pop(v)
            mine = NodeUse(use.starts, use.ends, use.extra[option])
            held = self._capacity.nodes.get(u)
            self._capacity.nodes[u] = mine if held is None else joined(mine, held)
        self._removed.append(_Removed(v, (u,), (self._options[u],), self._options[v][option]))
        self._touched.update((u, *self._pairs[v]))
        for w in list(self._pairs[v]):
            self._drop_pair(v, w)
        self._left.discard(v)

    def _result(self, feasible: bool) -> Presolved:
        if not feasible:
            return Presolved(GraphProblem((), ()), 0, False, (), (), (), ())
        nodes = tuple(sorted(self._left))
        number = {v: i for i, v in enumerate(nodes)}
        pairs = [PairCost(number[v], number[u], m) for v in nodes for u, m in self._pairs[v].items() if u > v]
        usages = tuple(self._usages(v) for v in nodes)
        problem = GraphProblem(
            tuple(self._costs[v] for v in nodes), tuple(pairs), usages, tuple(map(int, self._capacity.limits))
        )
        options = tuple(self._options[v] for v in nodes)
        return Presolved(problem, self._offset, True, self._capacity.steps, nodes, options, tuple(self._removed))

    def _usages(self, v: int) -> tuple[tuple[Usage, ...], ...]:
        use = self._capacity.nodes.get(v)
        if use is None:
            return ((),) * len(self._costs[v])
        spans = list(zip(use.starts.tolist(), use.ends.tolist(), strict=True))
        return tuple(
            tuple(Usage(start, end - 1, size) for (start, end), size in zip(spans, row, strict=True) if size)
            for row in use.extra.tolist()
        )
