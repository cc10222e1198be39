"""The depth-first schedule: every op follows its producer as closely as the data flow allows.

Rule (tt-mlir `DFShardingPolicy` scheduler): the next op is the last schedulable reader of the op just
scheduled, so that a chain is followed to its end; when there is none, the first schedulable op in graph
order.
"""

from __future__ import annotations

import heapq

from optimizer.ir.graph import Graph, Op


def depth_first_schedule(graph: Graph) -> tuple[str, ...]:
    """Ids of the ops that run on every run, in depth-first order. Deterministic; O((ops + uses) log ops)."""
    ops = graph.run_ops()
    position = {op.id: i for i, op in enumerate(ops)}
    waiting = [len(_run_producers(graph, op, position)) for op in ops]
    ready = [i for i, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    scheduled = [False] * len(ops)
    order: list[str] = []
    follow: int | None = None
    while len(order) < len(ops):
        if follow is None:
            follow = heapq.heappop(ready)
            while scheduled[follow]:
                follow = heapq.heappop(ready)
        op, follow = ops[follow], None
        scheduled[position[op.id]] = True
        order.append(op.id)
        for reader in sorted({position[r.id] for v in op.outputs for r in graph.consumers(v) if r.id in position}):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, reader)
                follow = reader
    return tuple(order)


def _run_producers(graph: Graph, op: Op, position: dict[str, int]) -> set[str]:
    producers = (graph.producer(v) for v in op.inputs)
    return {p.id for p in producers if p is not None and p.id in position}
