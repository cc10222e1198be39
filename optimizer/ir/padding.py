"""What the tiles of a tensor hold beyond its elements, as far as the graph tells."""

from __future__ import annotations

from optimizer.ir.graph import Graph, Op
from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef

TILE = 32
BLOCK = 16
"""Elements of a row that share an exponent in block floats."""
HIDDEN = -3.3895313892515355e38
"""The lowest number of bf16: finite, so that a row of which every key is hidden gives numbers."""


def exposed(graph: Graph, op: Op) -> tuple[tuple[int, float], ...]:
    """(operand, filling) where this op takes what an operand's last tiles hold beyond its elements for elements.

    Attention adds whole tiles of its mask to the scores, and hides keys that do not exist by adding -inf to theirs, as
    softmax along the last dim does with the padding of its operand: that hides numbers, but neither infinity nor NaN.
    All other ops were seen to look away (ttnn 0.81.1 on Tenstorrent's simulator).
    """
    found = []
    row = opdef(op.op)
    if row.cost_class is CostClass.SDPA:
        if len(op.inputs) > 3 and _is_partial(graph, op.inputs[3], -1):
            found.append((3, HIDDEN))
        if _is_partial(graph, op.inputs[1], -2) and may_be_infinite(graph, op.inputs[1], by_rows=True):
            found.append((1, 0.0))
    if row.cost_class is CostClass.SOFTMAX and _is_partial(graph, op.inputs[0], -1):
        rank = len(graph.value(op.inputs[0]).shape)
        dim = row.attr(op, "dim")
        if isinstance(dim, int) and dim % rank == rank - 1 and may_be_infinite(graph, op.inputs[0]):
            found.append((0, HIDDEN))
    return tuple(found)


def spoils_blocks(graph: Graph, value_id: str) -> bool:
    """Whether block floats of a value may share their exponent with an infinity in its padding."""
    shape = graph.value(value_id).shape
    return bool(shape) and shape[-1] % BLOCK > 0 and may_be_infinite(graph, value_id)


def _is_partial(graph: Graph, value_id: str, dim: int) -> bool:
    shape = graph.value(value_id).shape
    return len(shape) >= -dim and shape[dim] % TILE > 0


def may_be_infinite(graph: Graph, value_id: str, *, by_rows: bool = False) -> bool:
    """Whether an op of which a value is made may give infinity or NaN in the padding, looking back through
    element-wise ops, and with `by_rows` through those that keep rows apart."""

    def made_of(op: Op) -> tuple[str, ...]:
        row = opdef(op.op)
        return op.inputs[:1] if by_rows and row.rows_apart else op.inputs if row.padding_follows else ()

    return any(opdef(op.op).unbounded for op in graph.leading_to([value_id], made_of))
