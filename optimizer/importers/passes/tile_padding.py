"""What lies in a tensor's last tiles beyond its elements is hidden from ops that would take it for elements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from optimizer.importers.passes.rewriting import emit, finish, produced_by
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op
from optimizer.ir.padding import FILL, added_columns

HIDDEN = -3.3895313892515355e38
"""The lowest number of bf16: finite, so that a row of which every key is hidden gives numbers."""


@dataclass(frozen=True)
class TilePadding:
    """`fill_implicit_tile_padding` before attention with a mask of keys that are no whole tiles, and before softmax.

    TTNN adds the mask's tiles to the scores as they are. Without a fill the padding mostly holds zeros, and keys that
    do not exist are attended to. Softmax hides its operand's padding by adding -inf, which infinity and NaN survive:
    it needs a fill where a division or the like made them (`optimizer.ir.padding`). Seen on Tenstorrent's simulator
    with ttnn 0.81.1. Block floats are unpacked first: the filling would share exponents with their own elements.
    """

    name: ClassVar[str] = "tile-padding"

    def apply(self, graph: Graph) -> int:
        filled: dict[str, str] = {}
        rewrites = 0
        for op in graph.ops():
            position = unfilled(graph, op)
            if position is not None:
                value_id = op.inputs[position]
                if value_id not in filled:
                    filled[value_id] = _filled(graph, op, value_id)
                inputs = (*op.inputs[:position], filled[value_id], *op.inputs[position + 1 :])
                graph.replace_op(replace(op, inputs=inputs))
                rewrites += 1
        return finish(graph, rewrites)


def with_filled_padding(graph: Graph) -> Graph:
    """The graph, or a copy of it where something needs filling."""
    if all(unfilled(graph, op) is None for op in graph.ops()):
        return graph
    graph = graph.copy()
    TilePadding().apply(graph)
    return graph


def unfilled(graph: Graph, op: Op) -> int | None:
    """Position of the operand whose padding an op takes for elements and that nothing has filled."""
    position = added_columns(graph, op)
    if position is None or produced_by(graph, op.inputs[position], FILL.removeprefix("ttnn.")) is not None:
        return None
    return position


def _filled(graph: Graph, op: Op, value_id: str) -> str:
    if graph.value(value_id).dtype.is_block_float:
        value_id = emit(graph, op, "typecast", [value_id], {"dtype": DType.BF16.value})
    return emit(graph, op, "fill_implicit_tile_padding", [value_id], {"value": HIDDEN})
