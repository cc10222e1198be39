"""Factors before and after products with weights, multiplied into the weights once."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from optimizer.importers.passes.rewriting import (
    by_weights,
    drop_dead,
    emit,
    fuse,
    is_scalar_op,
    is_static,
    only_use,
    origins,
    produced_by,
    reshape,
    rewrites_each,
)
from optimizer.ir.graph import Graph, Op

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
        product = produced_by(graph, x, "matmul", "linear")
        if product is None or only_use(graph, x) is None or not by_weights(graph, product):
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
    product = only_use(graph, scale.outputs[0])
    if product is None or product.op not in _PRODUCTS or not by_weights(graph, product):
        return 0
    if product.inputs[0] != scale.outputs[0] or product.attrs.get("transpose_a"):
        return 0
    for x in scale.inputs:
        if is_static(graph, x) or not _scales_columns(graph, scale, x):
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
    other = graph.value(scale.inputs[1 - scale.inputs.index(x)])
    per_column = other.shape[-1:] == shape[-1:] and prod(other.shape) == shape[-1]
    return is_static(graph, other.id) and per_column


def _times(graph: Graph, scale: Op, weight: str, x: str, form: tuple[int, ...]) -> str:
    """Weights times the factor; factors of columns in the given form (-1: their number)."""
    if is_scalar_op(scale, "multiply"):
        return emit(graph, scale, "multiply", [weight], {"scalar": scale.attrs["scalar"]})
    factor = scale.inputs[1 - scale.inputs.index(x)]
    count = prod(graph.value(factor).shape)
    row = reshape(graph, scale, factor, tuple(count if size == -1 else size for size in form))
    return emit(graph, scale, "multiply", [weight, row], {})
