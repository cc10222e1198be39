"""Which tensors of the model the values of a finished import equal.

A value that the lowering names after a tensor stands for it (`Value.stands_for`) and keeps that through the passes; a
pass that makes a value something else says so (`passes.rewriting.computes_otherwise`). What a pass adds stands for
nothing, but for channels-last twins. Here follow the values around those that do: permutes and reshapes move elements
and change none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optimizer.ir.graph import ForeignTensor, Graph, Op, Value


def name_outputs(graph: Graph, names: Sequence[str]) -> None:
    """What the graph returns stands for the model's outputs, in its shape."""
    for value_id, name in zip(graph.outputs, names, strict=True):
        value = graph.value(value_id)
        if value.id == name or value.stands_for is None:
            graph.set_value(replace(value, stands_for=ForeignTensor.whole(name, value.shape)))


def follow_movement(graph: Graph) -> None:
    """Give every value that is only moved elements of one that stands for a tensor, or is moved into one, its own."""
    ops = list(graph.ops())
    for op in reversed(ops):
        _follow(graph, op, backwards=True)
    for op in ops:
        _follow(graph, op, backwards=False)


def _follow(graph: Graph, op: Op, backwards: bool) -> None:
    if op.op not in ("ttnn.reshape", "ttnn.permute", "ttnn.identity"):
        return
    source, result = graph.value(op.inputs[0]), graph.value(op.outputs[0])
    known, other = (result, source) if backwards else (source, result)
    if known.stands_for is not None and other.stands_for is None:
        graph.set_value(replace(other, stands_for=_moved(op, known, backwards)))


def _moved(op: Op, known: Value, backwards: bool) -> ForeignTensor | None:
    """The tensor of a value on the other side of a movement."""
    held = known.stands_for
    if held is None or op.op != "ttnn.permute":
        return held
    dims = tuple(int(d) % len(known.shape) for d in op.attr("dims"))
    order = tuple(dims.index(d) for d in range(len(dims))) if backwards else dims
    return held.permuted(known.shape, order)
