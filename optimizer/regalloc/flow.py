"""Control flow on plain integers: reverse postorder, dominators, natural loops, dataflow on bit sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from optimizer.process.work_limit import spend

_NODES_PER_STEP, _MEMBERS_PER_STEP = 8, 4
_BITS_PER_NODE = 4096
"""Of a bit set, beyond which it takes longer than the node itself."""


@dataclass(frozen=True)
class FlowGraph:
    """Nodes 0..n-1; node 0 is the entry."""

    successors: tuple[tuple[int, ...], ...]
    predecessors: tuple[tuple[int, ...], ...] = field(init=False)
    order: tuple[int, ...] = field(init=False)
    """Reachable nodes in reverse postorder: dominators come before what they dominate."""
    dominator: tuple[int | None, ...] = field(init=False)
    """Immediate dominators; None for the entry and for what cannot be reached."""

    def __post_init__(self) -> None:
        before: list[list[int]] = [[] for _ in self.successors]
        for node, after in enumerate(self.successors):
            for successor in after:
                before[successor].append(node)
        object.__setattr__(self, "predecessors", tuple(map(tuple, before)))
        object.__setattr__(self, "order", _reverse_postorder(self.successors))
        object.__setattr__(self, "dominator", self._dominators())

    @cached_property
    def reachable(self) -> frozenset[int]:
        return frozenset(self.order)

    def dominates(self, a: int, b: int) -> bool:
        """Whether every way from the entry to `b` passes `a`; `b` must be reachable."""
        return self._spans[a][0] <= self._spans[b][0] < self._spans[a][1]

    @cached_property
    def _spans(self) -> tuple[tuple[int, int], ...]:
        """Number of each node in a walk of the tree of dominators, and the number behind all that it dominates."""
        dominated: list[list[int]] = [[] for _ in self.successors]
        for node in self.order:
            if (above := self.dominator[node]) is not None:
                dominated[above].append(node)
        size = [1] * len(self.successors)
        for node in reversed(self.order):
            if (above := self.dominator[node]) is not None:
                size[above] += size[node]
        spans = [(-1, -1)] * len(self.successors)
        pending = [(self.order[0], 0)] if self.order else []
        while pending:
            node, first = pending.pop()
            spans[node] = first, first + size[node]
            first += 1
            for below in dominated[node]:
                pending.append((below, first))
                first += size[below]
        return tuple(spans)

    def back_edges(self) -> tuple[tuple[int, int], ...]:
        """(latch, header) where the header dominates the latch."""
        return tuple((node, s) for node in self.order for s in self.successors[node] if self.dominates(s, node))

    def loops(self) -> dict[int, frozenset[int]]:
        """Header -> nodes of its natural loop; loops with the same header are one."""
        found: dict[int, set[int]] = {}
        for latch, header in self.back_edges():
            body = found.setdefault(header, {header})
            pending = [latch]
            before = len(body)
            while pending:
                node = pending.pop()
                if node not in body:
                    body.add(node)
                    pending += [p for p in self.predecessors[node] if p in self.reachable]
            spend((len(body) - before) // _MEMBERS_PER_STEP)
        return {header: frozenset(body) for header, body in found.items()}

    def _dominators(self) -> tuple[int | None, ...]:
        """Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", 2001."""
        place = {node: n for n, node in enumerate(self.order)}
        found: list[int | None] = [None] * len(self.successors)
        if not self.order:
            return tuple(found)
        entry = self.order[0]
        found[entry] = entry

        def meet(a: int, b: int) -> int:
            steps = 0
            while a != b:
                steps += 1
                if place[a] > place[b]:
                    a = _known(found[a])
                else:
                    b = _known(found[b])
            spend(steps // _NODES_PER_STEP)
            return a

        changed = True
        while changed:
            changed = False
            spend(len(self.order) // _NODES_PER_STEP)
            for node in self.order[1:]:
                done = [p for p in self.predecessors[node] if found[p] is not None]
                best = done[0]
                for p in done[1:]:
                    best = meet(best, p)
                if found[node] != best:
                    found[node], changed = best, True
        found[entry] = None
        return tuple(found)


def backward_dataflow(graph: FlowGraph, use: Sequence[int], kill: Sequence[int]) -> tuple[list[int], list[int]]:
    """Bit sets (live in, live out) per node: in = use | (out & ~kill), out = union of the successors' in."""
    live_in, live_out = [0] * len(use), [0] * len(use)
    width = max(map(int.bit_length, (*use, *kill)), default=0)
    order = [*(n for n in range(len(use)) if n not in graph.reachable), *graph.order]
    changed = True
    while changed:
        changed = False
        spend(len(order) * (1 + width // _BITS_PER_NODE) // _NODES_PER_STEP)
        for node in reversed(order):
            out = 0
            for successor in graph.successors[node]:
                out |= live_in[successor]
            live_out[node] = out
            new = use[node] | (out & ~kill[node])
            if new != live_in[node]:
                live_in[node], changed = new, True
    return live_in, live_out


def defined_on_every_way(graph: FlowGraph, made: Sequence[int]) -> list[int]:
    """Bit sets per node: what every way from the entry to its top has made before. All bits where nothing leads."""
    everything = 0
    for bits in made:
        everything |= bits
    ready = [everything] * len(made)
    changed = True
    while changed:
        changed = False
        spend(len(graph.order) * (1 + everything.bit_length() // _BITS_PER_NODE) // _NODES_PER_STEP)
        for node in graph.order:
            new = 0 if node == 0 else everything
            for p in graph.predecessors[node]:
                if p in graph.reachable:
                    new &= ready[p] | made[p]
            if new != ready[node]:
                ready[node], changed = new, True
    return ready


def _known(node: int | None) -> int:
    assert node is not None
    return node


def _reverse_postorder(successors: Sequence[Sequence[int]]) -> tuple[int, ...]:
    if not successors:
        return ()
    finished: list[int] = []
    seen = {0}
    stack = [(0, iter(sorted(successors[0], reverse=True)))]
    while stack:
        node, pending = stack[-1]
        for successor in pending:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(sorted(successors[successor], reverse=True))))
                break
        else:
            finished.append(node)
            stack.pop()
    return tuple(reversed(finished))
