"""What lies in a tensor's last tiles beyond its elements is hidden from ops that would take it for elements."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from optimizer.importers.passes.rewriting import Pass, emit, finish
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op
from optimizer.ir.opdef import short_name
from optimizer.ir.padding import exposed
from optimizer.ir.vocabulary import FILL


@partial(Pass, "tile-padding")
def tile_padding(graph: Graph) -> int:
    """`fill_implicit_tile_padding` where an op takes the padding of an operand's tiles for elements.

    Masks of attention over keys that are no whole tiles: their padding mostly holds zeros, and keys that do not exist
    would be attended to. Operands of softmax, and keys, whose padding a division or the like may have made infinite
    (`optimizer.ir.padding`). Block floats are unpacked first: the filling would share exponents with their elements.
    """
    filled: dict[tuple[str, float], str] = {}
    rewrites = 0
    for op in graph.ops():
        for position, value in unfilled(graph, op):
            source = op.inputs[position]
            if (source, value) not in filled:
                filled[source, value] = _filled(graph, op, source, value)
            inputs = (*op.inputs[:position], filled[source, value], *op.inputs[position + 1 :])
            op = replace(_in_bf16(graph, op, position), inputs=inputs)
            graph.replace_op(op)
            rewrites += 1
    return finish(graph, rewrites)


def with_filled_padding(graph: Graph) -> Graph:
    """The graph, or a copy of it where something needs filling."""
    if not any(unfilled(graph, op) for op in graph.ops()):
        return graph
    graph = graph.copy()
    tile_padding.apply(graph)
    return graph


def unfilled(graph: Graph, op: Op) -> list[tuple[int, float]]:
    """(operand, filling) where an op takes padding for elements that nothing has filled."""
    fill = short_name(FILL)
    return [(k, value) for k, value in exposed(graph, op) if graph.produced_by(op.inputs[k], fill) is None]


def _in_bf16(graph: Graph, op: Op, position: int) -> Op:
    """The op with a result in bf16 if it takes its type from a block-float operand that is unpacked.

    Who read the result reads it packed again.
    """
    kind = graph.value(op.inputs[position]).dtype
    if position or not kind.is_block_float:
        return op
    (result,) = op.outputs
    value = graph.value(result)
    wide = graph.add_value(
        replace(value, id=graph.fresh_id(f"{result}_unpacked"), dtype=DType.BF16, stands_for=None)
    ).id
    op = replace(op, outputs=(wide,))
    graph.replace_op(op)
    emit(graph, op, "typecast", [wide], {"dtype": kind.value}, output=result)
    return op


def _filled(graph: Graph, op: Op, value_id: str, filling: float) -> str:
    if graph.value(value_id).dtype.is_block_float:
        value_id = emit(graph, op, "typecast", [value_id], {"dtype": DType.BF16.value})
    return emit(graph, op, "fill_implicit_tile_padding", [value_id], {"value": filling})
