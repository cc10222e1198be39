"""Remembers what eliminating a node gave, by the content of its tables and how they hang together.

The layers of a network repeat, and so do their tables. Eliminating a node whose tables have been seen before in the
same arrangement gives the same tables again, whichever nodes they are of: it is looked up. Whole repeated segments
are then solved once (min-plus over their cut points), in any order of elimination, and across solves whose costs
differ in few places.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from optimizer.solver.graphs.cost_tables import ClassedTable, ClassMerges, class_merges, classed
from optimizer.solver.graphs.usages import Table

DEFAULT_LIMIT_BYTES = 1 << 29
"""Bytes of tables that are kept for later; more are made, but forgotten."""
LARGE_BYTES = 1 << 20
"""Tables from this size on are not hashed."""


@dataclass(frozen=True, slots=True)
class Part:
    """One of the tables that replace those of an eliminated node."""

    scope: tuple[int, ...]
    """Axes, as positions among the node and its neighbours in ascending order."""
    table: Table
    key: int


@dataclass(frozen=True, slots=True)
class Replacement:
    """What became of an eliminated node's tables."""

    parts: tuple[Part, ...]
    constant: int
    """What every choice costs at least, taken off the tables."""
    picks: dict[tuple[int, ...], int] = field(default_factory=dict, compare=False)
    """Options of the neighbours, in ascending order of these -> the node's best option; filled in as asked for."""


@dataclass(frozen=True, slots=True)
class NodeStep:
    """One node's elimination, as far as it does not depend on what the tables contain."""

    node: int
    order: tuple[int, ...]
    """The node and its neighbours, ascending."""
    taken: tuple[int, ...]
    """Its tables, numbered as they come: those of the problem (nodes, then pairs), then results."""
    scopes: tuple[tuple[int, ...], ...]
    """Their axes, as positions in `order`."""
    shape: int
    """Equal for equal `scopes`, position of the node and limit."""
    given: tuple[tuple[int, ...], ...]
    """Axes of the tables that replace them."""


Elimination = tuple[NodeStep, ...]


class EliminationMemo:
    """Kept by a caller over several solves; anything may be looked up, nothing depends on what is found."""

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.hits = 0
        self.misses = 0
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._held: dict[int, tuple[Table, int]] = {}
        """Tables of problems by object: those are shared and do not change."""
        self._keys: dict[Hashable, int] = {}
        self._outcomes: dict[Hashable, Replacement] = {}
        self._recent: dict[Hashable, Replacement] = {}
        self._classed: dict[tuple[int, bool], tuple[ClassedTable, int]] = {}
        self._classes: dict[bytes, int] = {}
        self._merges: dict[tuple[int, ...], ClassMerges] = {}
        self._shapes: dict[Hashable, int] = {}
        self._plans: dict[tuple[int, int], tuple[object, Elimination]] = {}

    def begin(self) -> None:
        """A new solve: what the last one did not ask for is forgotten."""
        self._outcomes, self._recent = self._recent, {}
        self._bytes = 0

    def key_of(self, table: Table) -> int:
        """Equal for tables of equal shape and content."""
        content = (table.shape, blake2b(np.ascontiguousarray(table), digest_size=16).digest())
        return self._keys.setdefault(content, len(self._keys))

    def key_of_shared(self, table: Table) -> int:
        """`key_of` for a table that lives as long as the memo: it is looked at once."""
        held = self._held.get(id(table))
        if held is None:
            held = self._held[id(table)] = (table, self.key_of(table))
        return held[1]

    def find(self, signature: Hashable) -> Replacement | None:
        """The outcome of an arrangement of tables seen before."""
        found = self._recent.get(signature)
        if found is None:
            found = self._outcomes.get(signature)
            if found is not None:
                self._keep(signature, found)
        self.hits += found is not None
        self.misses += found is None
        return found

    def shape_of(self, shape: Hashable) -> int:
        """A number for an arrangement of tables."""
        return self._shapes.setdefault(shape, len(self._shapes))

    def plan_of(self, pairs: object, limit: int) -> Elimination | None:
        """The steps that the last solve with these pairs of nodes took."""
        held = self._plans.get((id(pairs), limit))
        return None if held is None else held[1]

    def keep_plan(self, pairs: object, limit: int, plan: Elimination) -> None:
        self._plans[id(pairs), limit] = pairs, plan

    def put(self, signature: Hashable, outcome: Replacement) -> None:
        self._keep(signature, outcome)

    def key_of_result(self, table: Table, signature: Hashable, part: int) -> int:
        """The key of a table by its content, or, if it is large, by how it was made.

        By content a sweep along equal layers comes to a fixed point: what is behind it no longer matters.
        """
        if table.nbytes <= LARGE_BYTES:
            return self.key_of(table)
        return self._keys.setdefault((signature, part), len(self._keys))

    def classed(self, tables: Sequence[tuple[Table, int, bool]]) -> tuple[list[ClassedTable], ClassMerges]:
        """Distinct rows of tables of two axes, and how these are gone through. Per table its key, and whether its node
        is the first axis."""
        found = [self._classed_table(*table) for table in tables]
        classes = tuple([number for _, number in found])
        if classes not in self._merges:
            self._merges[classes] = class_merges([table.class_of for table, _ in found])
        return [table for table, _ in found], self._merges[classes]

    def _classed_table(self, table: Table, key: int, first: bool) -> tuple[ClassedTable, int]:
        """The table with a number that is equal for equal classes."""
        if (key, first) not in self._classed:
            found = classed(table if first else table.T)
            number = self._classes.setdefault(found.class_of.tobytes(), len(self._classes))
            self._classed[key, first] = found, number
        return self._classed[key, first]

    def _keep(self, signature: Hashable, outcome: Replacement) -> None:
        size = sum(part.table.nbytes for part in outcome.parts)
        if self._bytes + size <= self._limit_bytes:
            self._bytes += size
            self._recent[signature] = outcome
