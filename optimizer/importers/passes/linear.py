"""MatMul + Add -> linear, and activations fused into the op that computes their operand."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from optimizer.importers.passes.rewriting import drop_dead, emit, fuse, is_static, only_use, produced_by, rewrites_each
from optimizer.ir.activations import FUSED_ACTIVATIONS
from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import opdef


@rewrites_each("linear-rank", "matmul", "linear")
def linear_rank(graph: Graph, op: Op) -> int:
    """A matmul by a weight matrix on rows that were flattened for it (Gemm) works on the unflattened ones."""
    flat = produced_by(graph, op.inputs[0], "reshape")
    after = only_use(graph, op.outputs[0])
    if flat is None or after is None or after.op != "ttnn.reshape" or op.attrs.get("transpose_a"):
        return 0
    if len(graph.value(op.inputs[0]).shape) != 2:
        return 0
    rows = graph.value(flat.inputs[0]).shape
    static = all(is_static(graph, v) for v in op.inputs[1:])
    if rows[-1] != graph.value(op.inputs[0]).shape[-1] or not 3 <= len(rows) <= 4 or not static:
        return 0
    wide = emit(graph, op, op.op.removeprefix("ttnn."), [flat.inputs[0], *op.inputs[1:]], op.attrs)
    new = graph.producer(wide)
    assert new is not None
    shape = graph.value(op.outputs[0]).shape
    graph.remove_op(new.id)
    graph.remove_op(op.id)
    graph.add_op(replace(new, id=op.id, name=op.name), at=op.id)
    emit(graph, op, "reshape", [wide], {"shape": shape}, output=op.outputs[0])
    drop_dead(graph, [flat.id])
    return 1


@rewrites_each("linear", "matmul", "linear")
def linear(graph: Graph, op: Op) -> int:
    """matmul by a weight matrix, plus a row of biases -> linear."""
    if len(op.inputs) != 2:
        return 0
    following = only_use(graph, op.outputs[0])
    weight = graph.value(op.inputs[1])
    if following is None or following.op != "ttnn.add" or len(following.inputs) != 2 or op.attrs.get("activation"):
        return 0
    if len(weight.shape) != 2 or not is_static(graph, weight.id):
        return 0
    bias = following.inputs[1 - following.inputs.index(op.outputs[0])]
    shape, full = graph.value(bias).shape, graph.value(op.outputs[0]).shape
    if not is_static(graph, bias) or prod(shape) != full[-1] or shape[-1] != full[-1] or len(shape) > len(full):
        return 0
    fuse(graph, following, op, "linear", [*op.inputs, bias], op.attrs, [])
    return 1


@rewrites_each("fused-activation", *FUSED_ACTIVATIONS)
def fuse_activation(graph: Graph, op: Op) -> int:
    """conv, matmul, linear or binary op followed by an activation that only it feeds."""
    x = op.inputs[0]
    source = graph.producer(x)
    if source is None or only_use(graph, x) is None:
        return 0
    row = opdef(source.op)
    activation = op.op.removeprefix("ttnn.")
    if activation not in row.activations:
        return 0
    if "activation" in row.attrs and not source.attrs.get("activation"):
        attrs = {**source.attrs, "activation": activation}
    elif "activations" in row.attrs and not source.attrs.get("activations"):
        attrs = {**source.attrs, "activations": (activation,)}
    else:
        return 0
    fuse(graph, op, source, source.op.removeprefix("ttnn."), source.inputs, attrs, [])
    return 1
