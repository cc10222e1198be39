"""Tables of costs over a few nodes, and the operations that elimination is made of.

A table has one axis per node. Joining adds tables over the union of their nodes; minimising takes one node out. A node
with hundreds of options often has few distinct rows in each of its tables (an op can run in many ways, but produces
few layouts and reads few): `least_by_classes` works on those classes instead of on all options.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimizer.solver.graphs.graph_problem import FORBIDDEN
from optimizer.solver.graphs.usages import Table


@dataclass(frozen=True, slots=True)
class Factor:
    """A table and the nodes of its axes, in any order."""

    scope: tuple[int, ...]
    table: Table
    key: int
    """Equal for equal tables (`EliminationMemo`)."""


def joint(factors: Sequence[Factor], order: Sequence[int], sizes: Sequence[int]) -> Table:
    """Sum of tables over the nodes `order`, which has `sizes` options; at most FORBIDDEN each."""
    place = {u: n for n, u in enumerate(order)}
    total = np.zeros(tuple(sizes), dtype=np.int64)
    for factor in factors:
        axes = sorted(range(len(factor.scope)), key=lambda n: place[factor.scope[n]])
        shape = [1] * len(sizes)
        for u in factor.scope:
            shape[place[u]] = sizes[place[u]]
        total += factor.table.transpose(axes).reshape(shape)
    return np.minimum(total, FORBIDDEN, out=total)


def matched(tables: Sequence[Table]) -> list[Table]:
    """Tables with a common first axis, changed so that their minima over the others agree; their sum stays the same.

    Without this, each of several groups of one node's tables would choose an option of its own, and their minima would
    bound the whole from far below (moment matching: Ihler, Flerova, Dechter, Otten, "Join-graph based cost-shifting
    schemes", 2012). Options that one group forbids are forbidden in all.
    """
    least = [table.reshape(len(table), -1).min(axis=1) for table in tables]
    dead = np.logical_or.reduce([row >= FORBIDDEN for row in least])
    total = np.where(dead, 0, np.sum(least, axis=0))
    share, rest = np.divmod(total, len(tables))
    result = []
    for n, (table, row) in enumerate(zip(tables, least, strict=True)):
        change = np.where(dead, FORBIDDEN, share + (rest if n == 0 else 0) - row)
        moved = table + change.reshape((-1, *(1,) * (table.ndim - 1)))
        result.append(np.where(table >= FORBIDDEN, FORBIDDEN, np.minimum(moved, FORBIDDEN)))
    return result


def lifted(table: Table) -> tuple[Table, int]:
    """The table less its least entry, and that entry."""
    least = int(table.min())
    if least == 0 or least >= FORBIDDEN:
        return table, 0
    return np.where(table >= FORBIDDEN, FORBIDDEN, table - least), least


@dataclass(frozen=True, slots=True)
class ClassedTable:
    """A table of one node's options and one neighbour's, equal rows kept once."""

    rows: Table
    """Shape (classes, options of the neighbour)."""
    class_of: Table
    """Per option of the node, its row."""


def classed(table: Table) -> ClassedTable:
    """Equal rows of a table of two axes found, in order of first occurrence."""
    known: dict[bytes, int] = {}
    class_of = np.asarray([known.setdefault(row.tobytes(), len(known)) for row in table], dtype=np.int64)
    first = np.unique(class_of, return_index=True)[1]
    return ClassedTable(np.ascontiguousarray(table[first]), class_of)


def classes_work(tables: Sequence[ClassedTable]) -> int:
    """Entries that `least_by_classes` builds."""
    groups = np.unique(_tuples(tables), axis=0)
    work, wide = len(groups), 1
    for n in _order(tables):
        wide *= tables[n].rows.shape[1]
        work += len(groups) * wide
        groups = np.unique(_merged(groups, n), axis=0)
    return work


def least_by_classes(own: Table, tables: Sequence[ClassedTable]) -> Table:
    """Least over a node's options of its own costs plus one row of each table: one axis per table, in their order.

    Neighbour after neighbour is added, and options that differ in no later table are merged as soon as they are.
    """
    groups, index = np.unique(_tuples(tables), axis=0, return_inverse=True)
    least = np.full(len(groups), FORBIDDEN, dtype=np.int64)
    np.minimum.at(least, index.reshape(-1), own)
    order = _order(tables)
    for n in order:
        rows = tables[n].rows[groups[:, n]]
        wide = least[..., None] + rows.reshape((len(groups), *(1,) * (least.ndim - 1), rows.shape[1]))
        groups, index = np.unique(_merged(groups, n), axis=0, return_inverse=True)
        index = index.reshape(-1)
        by_group = np.argsort(index, kind="stable")
        starts = np.searchsorted(index[by_group], np.arange(len(groups)))
        least = np.minimum(np.minimum.reduceat(wide[by_group], starts, axis=0), FORBIDDEN)
    return np.ascontiguousarray(least[0].transpose(np.argsort(order)))


def _tuples(tables: Sequence[ClassedTable]) -> Table:
    """Per option, its class in every table."""
    return np.stack([table.class_of for table in tables], axis=1)


def _merged(groups: Table, n: int) -> Table:
    """The tuples without their part `n`: what is the same then is one group."""
    kept = groups.copy()
    kept[:, n] = 0
    return kept


def _order(tables: Sequence[ClassedTable]) -> list[int]:
    """Tables in which most options differ come first: they are merged while little is wide."""
    return sorted(range(len(tables)), key=lambda n: (-len(tables[n].rows), n))
