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


@dataclass(frozen=True, slots=True)
class Merge:
    """One table added to what was found so far, and the groups of options that then differ in no later table."""

    table: int
    """Its place among the tables."""
    rows: Table
    """Per group of before, the row of the table that it takes."""
    by_group: Table
    """The groups of before in the order of those after."""
    starts: Table
    """Where in that order each group after begins."""


@dataclass(frozen=True, slots=True)
class ClassMerges:
    """How `least_by_classes` goes through tables: it depends on their classes alone, not on what the rows hold."""

    group_of: Table
    """Per option of the node, its group: options equal in all tables."""
    groups: int
    merges: tuple[Merge, ...]

    def work(self, tables: Sequence[ClassedTable]) -> int:
        """Entries that are built."""
        work, wide = self.groups, 1
        for merge in self.merges:
            wide *= tables[merge.table].rows.shape[1]
            work += len(merge.rows) * wide
        return work


def classed(table: Table) -> ClassedTable:
    """Equal rows of a table of two axes found, in order of first occurrence."""
    known: dict[bytes, int] = {}
    numbers = [known.setdefault(row.tobytes(), len(known)) for row in np.ascontiguousarray(table)]
    class_of = np.asarray(numbers, dtype=np.int64)
    first = np.unique(class_of, return_index=True)[1]
    return ClassedTable(np.ascontiguousarray(table[first]), class_of)


def class_merges(classes: Sequence[Table]) -> ClassMerges:
    """Per table, the class of every option of the node. Tables in which most options differ come first: they are merged
    while little is wide."""
    counts = [int(class_of.max()) + 1 for class_of in classes]
    order = sorted(range(len(classes)), key=lambda n: (-counts[n], n))
    members, group_of = _distinct([classes[n] for n in order])
    columns = [classes[n][members] for n in order]
    merges = []
    for place, n in enumerate(order):
        kept, index = _distinct(columns[place + 1 :]) if place + 1 < len(order) else _one(len(columns[place]))
        by_group = np.argsort(index, kind="stable")
        starts = np.searchsorted(index[by_group], np.arange(len(kept)))
        merges.append(Merge(n, columns[place], by_group, starts))
        columns = [column[kept] for column in columns]
    return ClassMerges(group_of, len(members), tuple(merges))


def least_by_classes(own: Table, tables: Sequence[ClassedTable], merges: ClassMerges) -> Table:
    """Least over a node's options of its own costs plus one row of each table: one axis per table, in their order."""
    least = np.full(merges.groups, FORBIDDEN, dtype=np.int64)
    np.minimum.at(least, merges.group_of, own)
    for merge in merges.merges:
        rows = tables[merge.table].rows[merge.rows]
        wide = least[..., None] + rows.reshape((len(rows), *(1,) * (least.ndim - 1), rows.shape[1]))
        least = np.minimum(np.minimum.reduceat(wide[merge.by_group], merge.starts, axis=0), FORBIDDEN)
    return np.ascontiguousarray(least[0].transpose(np.argsort([merge.table for merge in merges.merges])))


def _distinct(columns: Sequence[Table]) -> tuple[Table, Table]:
    """One place of every distinct tuple across the columns, and the number of each place's tuple among those."""
    code, first = columns[0], np.zeros(0, dtype=np.int64)
    for column in (*columns[1:], None):
        _, first, code = np.unique(code, return_index=True, return_inverse=True)
        if column is not None:
            code = code * (int(column.max()) + 1) + column
    return first, code


def _one(places: int) -> tuple[Table, Table]:
    """All places are the same."""
    return np.zeros(1, dtype=np.int64), np.zeros(places, dtype=np.int64)
