"""Index tensors that arrive from the caller are u32 from the start."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from optimizer.importers.passes.rewriting import Pass, drop_dead, finish
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op

_MOVES = ("ttnn.reshape", "ttnn.permute", "ttnn.slice", "ttnn.split", "ttnn.repeat")


@partial(Pass, "index-types")
def index_types(graph: Graph) -> int:
    """An i32 input that is only moved about and then cast to u32 becomes a u32 input."""
    given = [v for v in graph.inputs if graph.value(v).dtype is DType.I32]
    return finish(graph, sum(_visit(graph, v) for v in given))


def _visit(graph: Graph, start: str) -> int:
    moved: list[str] = []
    casts: list[Op] = []
    stack = [start]
    while stack:
        value_id = stack.pop()
        moved.append(value_id)
        if graph.is_output(value_id):
            return 0
        for op in graph.consumers(value_id):
            if op.op == "ttnn.typecast" and op.attr("dtype") == DType.U32.value:
                casts.append(op)
            elif op.op in _MOVES:
                stack.extend(v for v in op.outputs if v not in moved)
            else:
                return 0
    if not casts:
        return 0
    for value_id in moved:
        graph.set_value(replace(graph.value(value_id), dtype=DType.U32))
    for cast in casts:
        graph.replace_uses(cast.outputs[0], cast.inputs[0])
        drop_dead(graph, [cast.id])
    return len(casts)
