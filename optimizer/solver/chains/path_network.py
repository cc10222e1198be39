"""Live configs per op and PathSets per edge, kept arc consistent.

The PathSet of an edge maps every live producer config to the set of consumer configs it is compatible
with. Eliminating a config removes its paths, which may eliminate configs at the other end,
in both directions, until nothing changes. That fixed point is unique: it is the largest
arc-consistent subset, so the order of updates does not matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from optimizer.solver.chains.bitset import contains
from optimizer.solver.chains.chain_problem import ChainProblem

PathSet = dict[int, int]
"""Producer config -> non-empty set of compatible consumer configs. Replaced on change, never mutated."""

Snapshot = tuple[list[int], list[PathSet | None]]


class PathNetwork:
    """The mutable state of a solve. After a failed update the state is undefined until `restore`."""

    def __init__(self, problem: ChainProblem, masks: Sequence[int]) -> None:
        self._problem = problem
        self.masks: list[int] = list(masks)
        """Per op: configs still alive."""
        self.path_sets: list[PathSet | None] = [None] * len(problem.edges)
        """Per edge; None until `add_paths`."""

    def snapshot(self) -> Snapshot:
        return self.masks.copy(), self.path_sets.copy()

    def restore(self, snapshot: Snapshot) -> None:
        self.masks, self.path_sets = snapshot[0].copy(), snapshot[1].copy()

    def add_paths(self, edge_index: int, rows: Sequence[int]) -> int | None:
        """Attach the PathSet of an edge (one row per producer config) and propagate.

        Returns the index of an edge that has lost all paths, None if every edge keeps one.
        """
        self.path_sets[edge_index] = {config: row for config, row in enumerate(rows) if row}
        return self._propagate(edge_index)

    def count_paths(self) -> int:
        return sum(row.bit_count() for paths in self.path_sets if paths for row in paths.values())

    def _built_edges(self, op: int) -> list[int]:
        edges = (*self._problem.operand_edges[op], *self._problem.user_edges[op])
        return [edge for edge in edges if self.path_sets[edge] is not None]

    def _propagate(self, changed: int) -> int | None:
        queue, queued = deque([changed]), {changed}
        while queue:
            edge_index = queue.popleft()
            queued.remove(edge_index)
            changed_ops = self._update(edge_index)
            if changed_ops is None:
                return edge_index
            for op in changed_ops:
                for neighbour in self._built_edges(op):
                    if neighbour != edge_index and neighbour not in queued:
                        queue.append(neighbour)
                        queued.add(neighbour)
        return None

    def _update(self, edge_index: int) -> list[int] | None:
        """Drop the paths with a dead end; returns the ops whose masks shrank, None if no path is left.

        One pass suffices: afterwards every live producer config has a path to a live consumer config
        and the other way round, so the edge itself need not be queued again.
        """
        edge = self._problem.edges[edge_index]
        paths = self.path_sets[edge_index]
        if paths is None:
            return []
        producers, consumers = self.masks[edge.producer], self.masks[edge.consumer]
        kept: PathSet = {}
        live_producers = live_consumers = 0
        for config, row in paths.items():
            if contains(producers, config) and (live_row := row & consumers):
                kept[config] = live_row
                live_producers |= 1 << config
                live_consumers |= live_row
        if not kept:
            return None
        self.path_sets[edge_index] = kept
        changed = []
        if live_producers != producers:
            self.masks[edge.producer] = live_producers
            changed.append(edge.producer)
        if live_consumers != consumers:
            self.masks[edge.consumer] = live_consumers
            changed.append(edge.consumer)
        return changed
