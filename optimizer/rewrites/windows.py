"""A part of a graph with what is next to it, as a graph of its own."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import replace

from optimizer.ir.graph import Graph, Op, Value, ValueKind
from optimizer.ir.vocabulary import opdef


def window(graph: Graph, part: Collection[str]) -> Graph:
    """The ops of a part and those that read or feed them; what these read is given, what others read is returned.

    Weights are given in the form that the window's ops read.
    """
    inside = {op.id: op for op in graph.run_ops() if op.id in part}
    for op in list(inside.values()):
        near = (*(graph.producer(v) for v in op.inputs), *(other for v in op.outputs for other in graph.consumers(v)))
        inside.update({other.id: other for other in near if other is not None and _is_priced(graph, other)})
    ops = [op for op in graph.ops() if op.id in inside]
    made = {v for op in ops for v in op.outputs}
    found = Graph("window")
    for op in ops:
        for v in (*op.inputs, *op.outputs):
            if v not in found.values:
                found.add_value(graph.value(v) if v in made else _given(graph, v))
                if found.value(v).kind is ValueKind.INPUT:
                    found.inputs.append(v)
        found.add_op(op)
    found.outputs = [v for v in sorted(made, key=list(found.values).index) if _is_wanted(graph, v, inside)]
    return found


def _is_priced(graph: Graph, op: Op) -> bool:
    return not graph.is_const_eval(op) and not opdef(op.op).opaque


def _given(graph: Graph, value_id: str) -> Value:
    value = graph.value(value_id)
    if value.kind in (ValueKind.INPUT, ValueKind.CONSTANT):
        return value
    kind = ValueKind.PARAMETER if graph.is_static(value_id) else ValueKind.INPUT
    return replace(value, kind=kind, data=None)


def _is_wanted(graph: Graph, value_id: str, inside: Collection[str]) -> bool:
    readers = graph.consumers(value_id)
    return graph.is_output(value_id) or not readers or any(op.id not in inside for op in readers)


def signature(graph: Graph) -> Hashable:
    """The same for graphs that differ in names alone."""
    number = {v: n for n, v in enumerate(graph.values)}
    values = tuple((v.shape, v.dtype, v.kind, v.data) for v in graph.values.values())
    ops = tuple((op.op, op.attrs_key, tuple(map(number.get, (*op.inputs, *op.outputs)))) for op in graph.ops())
    return values, ops, tuple(number[v] for v in graph.outputs)
