"""What the tiles of a tensor hold beyond its elements, as far as the graph tells."""

from __future__ import annotations

from optimizer.ir.graph import Graph, Op
from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef

TILE = 32
ATTENTION = ("ttnn.scaled_dot_product_attention", "ttnn.scaled_dot_product_attention_decode")
FILL = "ttnn.fill_implicit_tile_padding"
_UNBOUNDED = frozenset(
    f"ttnn.{name}"
    for name in ("divide", "reciprocal", "rdiv", "rsqrt", "sqrt", "log", "log2", "log10", "log1p", "exp", "exp2",
    "expm1", "pow", "pow_scalar", "tan", "sinh", "cosh", "asin", "acos", "acosh", "atanh", "erfinv", "fmod",
    "remainder", "addcdiv", "atan2")
)  # fmt: skip
"""Ops that may give infinity or NaN of the numbers that padding holds."""
_HANDED_ON = frozenset(f"ttnn.{name}" for name in ("reshape", "to_memory_config", "identity", "typecast", "where"))
"""Ops besides the element-wise ones whose result has its operand's padding."""


def added_columns(graph: Graph, op: Op) -> int | None:
    """Position of the operand whose padding in the last dim this op takes for elements (ttnn 0.81.1); None if none.

    Attention adds whole tiles of its mask to the scores. Softmax along the last dim adds -inf to the padding of its
    operand, which hides numbers, but neither infinity nor NaN.
    """
    if op.op in ATTENTION and len(op.inputs) > 3 and _is_partial(graph, op.inputs[3]):
        return 3
    if op.op == "ttnn.softmax" and _is_partial(graph, op.inputs[0]) and may_be_infinite(graph, op.inputs[0]):
        rank = len(graph.value(op.inputs[0]).shape)
        dim = opdef(op.op).attr(op, "dim")
        return 0 if isinstance(dim, int) and dim % rank == rank - 1 else None
    return None


def _is_partial(graph: Graph, value_id: str) -> bool:
    columns = graph.value(value_id).shape[-1:]
    return columns != () and columns[0] % TILE > 0


def may_be_infinite(graph: Graph, value_id: str) -> bool:
    """Whether element-wise ops made this value of which one may give infinity or NaN in the padding."""
    seen, stack = {value_id}, [value_id]
    while stack:
        op = graph.producer(stack.pop())
        if op is None or (opdef(op.op).cost_class is not CostClass.ELTWISE and op.op not in _HANDED_ON):
            continue
        if op.op in _UNBOUNDED:
            return True
        stack += [v for v in op.inputs if v not in seen]
        seen.update(op.inputs)
    return False
