"""MatMul + Add -> linear, and activations fused into the op that computes their operand.

Factors before and after products with weights are multiplied into the weights once.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from optimizer.importers.passes.rewriting import (
    by_weights,
    drop_dead,
    emit,
    fuse,
    is_scalar_op,
    origins,
    other_operand,
    reshape,
    rewrites_each,
)
from optimizer.ir.activations import FUSED_ACTIVATIONS
from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import opdef


@rewrites_each("linear-rank", "matmul", "linear")
def linear_rank(graph: Graph, op: Op) -> int:
    """A matmul by a weight matrix on rows that were flattened for it (Gemm) works on the unflattened ones."""
    flat = graph.produced_by(op.inputs[0], "reshape")
    after = graph.only_use(op.outputs[0])
    if flat is None or after is None or after.op != "ttnn.reshape" or op.attrs.get("transpose_a"):
        return 0
    if len(graph.value(op.inputs[0]).shape) != 2:
        return 0
    rows = graph.value(flat.inputs[0]).shape
    static = all(graph.is_static(v) for v in op.inputs[1:])
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
    following = graph.only_use(op.outputs[0])
    weight = graph.value(op.inputs[1])
    if following is None or following.op != "ttnn.add" or len(following.inputs) != 2 or op.attrs.get("activation"):
        return 0
    if len(weight.shape) != 2 or not graph.is_static(weight.id):
        return 0
    bias = other_operand(following, op.outputs[0])
    shape, full = graph.value(bias).shape, graph.value(op.outputs[0]).shape
    if not graph.is_static(bias) or prod(shape) != full[-1] or shape[-1] != full[-1] or len(shape) > len(full):
        return 0
    fuse(graph, following, op, "linear", [*op.inputs, bias], op.attrs, [])
    return 1


@rewrites_each("fused-activation", *FUSED_ACTIVATIONS)
def fuse_activation(graph: Graph, op: Op) -> int:
    """conv, matmul, linear or binary op followed by an activation that only it feeds."""
    x = op.inputs[0]
    source = graph.producer(x)
    if source is None or graph.only_use(x) is None:
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


_PRODUCTS = ("ttnn.matmul", "ttnn.linear")


@rewrites_each("scale-into-weights", "multiply")
def scale_into_weights(graph: Graph, op: Op) -> int:
    """A number, or one for each column, times the rows before or after a matmul or linear -> other weights.

    After it, columns of the weights and the bias are scaled; before it, rows of the weights.
    """
    return 0 if op.attrs.get("activations") else _after(graph, op) or _before(graph, op)


def _after(graph: Graph, scale: Op) -> int:
    """product -> scale."""
    for x in scale.inputs:
        product = graph.produced_by(x, "matmul", "linear")
        if product is None or graph.only_use(x) is None or not by_weights(graph, product):
            continue
        if product.attrs.get("activation") or not _scales_columns(graph, scale, x):
            continue
        columns = (1, -1) if not product.attrs.get("transpose_b") else (-1, 1)
        weights = [_times(graph, scale, product.inputs[1], x, columns)]
        weights += [_times(graph, scale, v, x, graph.value(v).shape) for v in product.inputs[2:]]
        name = product.op.removeprefix("ttnn.")
        fuse(graph, scale, product, name, [product.inputs[0], *weights], product.attrs, [])
        return 1
    return 0


def _before(graph: Graph, scale: Op) -> int:
    """scale -> product."""
    product = graph.only_use(scale.outputs[0])
    if product is None or product.op not in _PRODUCTS or not by_weights(graph, product):
        return 0
    if product.inputs[0] != scale.outputs[0] or product.attrs.get("transpose_a"):
        return 0
    for x in scale.inputs:
        if graph.is_static(x) or not _scales_columns(graph, scale, x):
            continue
        rows = (-1, 1) if not product.attrs.get("transpose_b") else (1, -1)
        weight = _times(graph, scale, product.inputs[1], x, rows)
        inputs = (x, weight, *product.inputs[2:])
        graph.replace_op(replace(product, inputs=inputs, origin=origins([scale, product])))
        drop_dead(graph, [scale.id])
        return 1
    return 0


def _scales_columns(graph: Graph, scale: Op, x: str) -> bool:
    """Whether a multiplication is of `x` by a number, or by weights: one per column."""
    if is_scalar_op(scale, "multiply"):
        return graph.value(x).dtype.is_float
    shape = graph.value(x).shape
    if len(scale.inputs) != 2 or graph.value(scale.outputs[0]).shape != shape:
        return False
    other = graph.value(other_operand(scale, x))
    per_column = other.shape[-1:] == shape[-1:] and prod(other.shape) == shape[-1]
    return graph.is_static(other.id) and per_column


def _times(graph: Graph, scale: Op, weight: str, x: str, form: tuple[int, ...]) -> str:
    """Weights times the factor; factors of columns in the given form (-1: their number)."""
    if is_scalar_op(scale, "multiply"):
        return emit(graph, scale, "multiply", [weight], {"scalar": scale.attrs["scalar"]})
    factor = other_operand(scale, x)
    count = prod(graph.value(factor).shape)
    row = reshape(graph, scale, factor, tuple(count if size == -1 else size for size in form))
    return emit(graph, scale, "multiply", [weight, row], {})
