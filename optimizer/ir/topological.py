"""Orders in which everything comes after what it needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush

from optimizer.errors import GraphError

SHOWN = 6
"""Members of a cycle that a message names."""


def topological_order(needs: Sequence[Collection[int]], name: Callable[[int], str]) -> list[int]:
    """Positions with those they need before them, each as near to its own place as possible.

    `needs[i]` are distinct positions; `name` is how a message calls one. GraphError where some need each other.
    """
    waiting = [len(before) for before in needs]
    after: list[list[int]] = [[] for _ in needs]
    for i, before in enumerate(needs):
        for j in before:
            after[j].append(i)
    ready = [i for i, count in enumerate(waiting) if count == 0]
    heapify(ready)
    order = []
    while ready:
        order.append(i := heappop(ready))
        for j in after[i]:
            waiting[j] -= 1
            if waiting[j] == 0:
                heappush(ready, j)
    if len(order) < len(needs):
        _refuse_cycle(needs, name)
    return order


def _refuse_cycle(needs: Sequence[Collection[int]], name: Callable[[int], str]) -> None:
    try:
        TopologicalSorter(dict(enumerate(needs))).prepare()
    except CycleError as error:
        members = [name(i) for i in error.args[1]]
        first, rest = members[0], len(members) - 1 - SHOWN
        shown = [*members[:SHOWN], f"({rest} more)", first] if rest > 0 else members
        raise GraphError(f"the graph has a cycle: {' -> '.join(shown)}", node=first) from None
