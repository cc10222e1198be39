"""Block-float weights: which weights may have them, and where their type is stated.

bfp8_b and bfp4_b exist in tiles only, and only the second operand of a matmul or linear and the weights of a
conv gain from them. A conv's weights come from the host row by row, so they keep a plain type there and the
conv's config names the type they are prepared into. All other weights (embedding tables, scales, biases) keep
the type of the activations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op, Value, ValueKind
from optimizer.ir.opdef import ON_HOST, RESULT_DTYPE, CostClass, Page
from optimizer.ir.vocabulary import CAST, opdef


def apply_block_weights(graph: Graph, block: DType | None) -> Mapping[str, str]:
    """Edit the graph in place: matmul weights become `block` (None: as they are), conv weights get a plain type.

    Returns conv op id -> element type that its weights are prepared into.
    """
    casts: dict[str, str] = {}
    prepared: dict[str, str] = {}
    for op in graph.run_ops():
        row = opdef(op.op)
        if row.operand_page(1) is Page.HOST and len(op.inputs) > 1:
            prepared[op.id] = _conv_weights(graph, op, block)
        elif block is not None and row.cost_class is CostClass.MATMUL:
            _matmul_weights(graph, op, block, casts)
    graph.sort()
    return prepared


def _conv_weights(graph: Graph, op: Op, block: DType | None) -> str:
    """Retype the host operands of a conv; the type that its config is to name."""
    weight = graph.value(op.inputs[1])
    wanted = weight.dtype if block is None or not weight.dtype.is_float else block
    for v in op.inputs[1:]:
        value = graph.value(v)
        if value.dtype.is_block_float:
            graph.set_value(replace(value, dtype=DType.BF16))
    return wanted.value


def _matmul_weights(graph: Graph, op: Op, block: DType, casts: dict[str, str]) -> None:
    """Give the weight matrix of a matmul the block type, by a cast of its own where others read it too."""
    weight = graph.value(op.inputs[1])
    if weight.kind is not ValueKind.PARAMETER or not weight.dtype.is_float or weight.dtype.is_block_float:
        return
    if graph.producer(weight.id) is None and _only_a_weight(graph, weight):
        graph.set_value(replace(weight, dtype=block))
        return
    if weight.id not in casts:
        cast = graph.add_value(replace(weight, id=graph.fresh_id(f"{weight.id}_{block.value}"), dtype=block, data=None))
        op_id = graph.fresh_id(f"{cast.id}_typecast")
        attrs = {RESULT_DTYPE: block.value, ON_HOST: True}
        graph.add_op(Op(op_id, CAST, (weight.id,), (cast.id,), attrs, op_id, op.origin), at=op.id)
        casts[weight.id] = cast.id
    inputs = (op.inputs[0], casts[weight.id], *op.inputs[2:])
    graph.replace_op(replace(op, inputs=inputs))


def _only_a_weight(graph: Graph, weight: Value) -> bool:
    """Whether every reader is a matmul that takes the value as its second operand."""
    readers = graph.consumers(weight.id)
    return all(opdef(op.op).cost_class is CostClass.MATMUL and op.inputs.index(weight.id) == 1 for op in readers)
