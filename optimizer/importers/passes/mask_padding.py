"""The columns that a mask's last tiles have beyond its keys hide what lies there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from optimizer.importers.passes.rewriting import emit, finish, produced_by
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op
from optimizer.layouts.tiling import TILE

HIDDEN = -3.3895313892515355e38
"""The lowest number of bf16: finite, so that a row of which every key is hidden gives numbers."""
ATTENTION = ("ttnn.scaled_dot_product_attention", "ttnn.scaled_dot_product_attention_decode")


@dataclass(frozen=True)
class MaskPadding:
    """Before attention with a mask of keys that are no whole tiles: `fill_implicit_tile_padding` of the mask.

    TTNN adds the mask's tiles to the scores as they are. Without a fill the padding mostly holds zeros, and keys that
    do not exist are attended to (ttnn 0.81.1 on Tenstorrent's simulator; without a mask TTNN hides them itself). Block
    floats are unpacked first: the filling would share exponents with the mask's own elements.
    """

    name: ClassVar[str] = "mask-padding"

    def apply(self, graph: Graph) -> int:
        filled: dict[str, str] = {}
        rewrites = 0
        for op in graph.ops():
            if needs_filling(graph, op):
                mask = op.inputs[3]
                if mask not in filled:
                    filled[mask] = _filled(graph, op, mask)
                graph.replace_op(replace(op, inputs=(*op.inputs[:3], filled[mask])))
                rewrites += 1
        return finish(graph, rewrites)


def with_filled_masks(graph: Graph) -> Graph:
    """The graph, or a copy of it where masks need filling."""
    if not any(needs_filling(graph, op) for op in graph.ops()):
        return graph
    graph = graph.copy()
    MaskPadding().apply(graph)
    return graph


def needs_filling(graph: Graph, op: Op) -> bool:
    """Whether an op is attention whose mask has columns beyond its keys that nothing has filled."""
    if op.op not in ATTENTION or len(op.inputs) < 4:
        return False
    mask = op.inputs[3]
    columns = graph.value(mask).shape[-1:]
    return columns != () and columns[0] % TILE > 0 and produced_by(graph, mask, "fill_implicit_tile_padding") is None


def _filled(graph: Graph, op: Op, mask: str) -> str:
    if graph.value(mask).dtype.is_block_float:
        mask = emit(graph, op, "typecast", [mask], {"dtype": DType.BF16.value})
    return emit(graph, op, "fill_implicit_tile_padding", [mask], {"value": HIDDEN})
