"""A few orders in which the ops may run: what lives at the same time depends on it, and so what fits L1."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.ir.graph import Graph, Op
from optimizer.layouts.tiling import tensor_bytes
from optimizer.opmodel.pricing import OpPricer
from optimizer.sharding.schedule import depth_first_schedule

Schedule = tuple[str, ...]

WORTHWHILE = 0.95
"""Of the first order's peak: an order that keeps more alive is not worth a search."""


def schedules(pricer: OpPricer) -> tuple[Schedule, ...]:
    """The depth-first order, then those of the file and of least live bytes if clearly less lives at their peak."""
    graph = pricer.graph
    first = depth_first_schedule(graph)
    others = (tuple(op.id for op in graph.run_ops()), least_live_schedule(pricer))
    peak = peak_live_bytes(pricer, first)
    better = [order for order in dict.fromkeys(others) if peak_live_bytes(pricer, order) <= WORTHWHILE * peak]
    return (first, *sorted(better, key=lambda order: peak_live_bytes(pricer, order)))


def value_bytes(pricer: OpPricer) -> dict[str, int]:
    """Total bytes of every value that some op of a run computes."""
    graph = pricer.graph
    computed = (graph.value(v) for op in graph.run_ops() for v in op.outputs)
    return {v.id: tensor_bytes(v.shape, v.dtype, pricer.pages[v.id]) for v in computed}


def peak_live_bytes(pricer: OpPricer, schedule: Schedule) -> int:
    """Most bytes, over the whole chip, of computed values that are alive at once."""
    graph, size = pricer.graph, value_bytes(pricer)
    left = _reads_left(graph, schedule)
    live = peak = 0
    for op_id in schedule:
        op = graph.op(op_id)
        live += sum(size[v] for v in op.outputs)
        peak = max(peak, live)
        live -= sum(size.get(v, 0) for v in _freed(op.inputs, op.outputs, left))
    return peak


def least_live_schedule(pricer: OpPricer) -> Schedule:
    """Backwards from the outputs: before an op come its operands, the one first that needs most room on the way.

    Least live bytes where the graph is a tree (Sethi and Ullman 1970, Liu 1986); elsewhere a good order, no more.
    """
    graph, size = pricer.graph, value_bytes(pricer)
    room = _rooms(pricer, size)
    order: dict[str, None] = {}
    ends = [op.id for op in graph.run_ops() if not any(graph.consumers(v) for v in op.outputs)]
    pending = [(op_id, False) for op_id in reversed(ends)]
    while pending:
        op_id, opened = pending.pop()
        if opened:
            order[op_id] = None
        elif op_id not in order:
            pending.append((op_id, True))
            pending += [(before, False) for before in reversed(_operands_first(graph, graph.op(op_id), size, room))]
    return tuple(order)


def _rooms(pricer: OpPricer, size: dict[str, int]) -> dict[str, int]:
    """Op id -> most bytes alive at once while its result is computed, if nothing it needs is shared."""
    graph, room = pricer.graph, dict[str, int]()
    for op in graph.run_ops():
        held = peak = 0
        for before in _operands_first(graph, op, size, room):
            peak = max(peak, held + room[before])
            held += sum(size[v] for v in graph.op(before).outputs)
        room[op.id] = max(peak, held + sum(size[v] for v in op.outputs))
    return room


def _operands_first(graph: Graph, op: Op, size: dict[str, int], room: dict[str, int]) -> list[str]:
    """Ops that compute the operands, in the order in which they take least room together."""
    producers = (graph.producer(v) for v in op.inputs if v in size)
    found = {p.id: sum(size[v] for v in p.outputs) for p in producers if p is not None}
    return sorted(found, key=lambda op_id: found[op_id] - room[op_id])


def _reads_left(graph: Graph, schedule: Sequence[str]) -> dict[str, int]:
    left: dict[str, int] = {}
    for op_id in schedule:
        for v in set(graph.op(op_id).inputs):
            left[v] = left.get(v, 0) + 1
    return left


def _freed(inputs: Sequence[str], outputs: Sequence[str], left: dict[str, int]) -> list[str]:
    """Values that nobody reads after this op; counts the op's own reads off."""
    freed = [v for v in outputs if v not in left]
    for v in sorted(set(inputs)):
        left[v] -= 1
        if not left[v]:
            freed.append(v)
    return freed
