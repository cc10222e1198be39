"""Which element-wise ops run on rows instead of tiles (option `row_major_enabled`): those that make the graph faster.

Ops that can run so and share values are one region, which changes its pages as a whole: each change inside it would be
a conversion. Regions that are alike are decided together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from optimizer.ir.graph import Graph, Op
from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef

Time = Callable[[frozenset[str]], int | None]
"""Nanoseconds of the graph with these ops on rows and everything in DRAM; None if some op does not run then."""


def faster_on_rows(graph: Graph, fixed: frozenset[str], can_run: Callable[[Op], bool], time_ns: Time) -> frozenset[str]:
    """`fixed` and the element-wise ops whose regions make the graph faster on rows, each beside those before it."""
    free = {op.id for op in graph.run_ops() if opdef(op.op).cost_class is CostClass.ELTWISE and op.id not in fixed}
    alike: dict[Hashable, set[str]] = {}
    for region in _regions(graph, [op for op in graph.run_ops() if op.id in free and op.inputs and can_run(op)]):
        alike.setdefault(tuple(_content(graph, op) for op in region), set()).update(op.id for op in region)
    chosen, least = fixed, time_ns(fixed)
    for regions in alike.values():
        time = time_ns(chosen | regions)
        if time is not None and (least is None or time < least):
            chosen, least = chosen | regions, time
    return chosen


def _regions(graph: Graph, ops: Iterable[Op]) -> list[list[Op]]:
    """Ops that share values, directly or through each other, in the graph's order."""
    import networkx as nx  # takes longer to load than most graphs take here

    touching = nx.Graph()
    for op in ops:
        touching.add_node(op.id)
        touching.add_edges_from((op.id, ("value", v)) for v in (*op.inputs, *op.outputs))
    region_of = {n: number for number, found in enumerate(nx.connected_components(touching)) for n in found}
    regions: dict[int, list[Op]] = {}
    for op in graph.ops():
        if op.id in region_of:
            regions.setdefault(region_of[op.id], []).append(op)
    return list(regions.values())


def _content(graph: Graph, op: Op) -> Hashable:
    """What the times of an op depend on, names left out."""
    return (op.op, op.attrs_key, tuple((graph.value(v).shape, graph.value(v).dtype) for v in op.inputs))
