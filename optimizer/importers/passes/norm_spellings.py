"""Means, variances and norms in the spellings of exporters are brought into the one that the patterns of norms know.

JAX writes a mean as a sum times 1/N, reduces without keeping the dim and multiplies the rsqrt with the weight first;
Keras adds what the mean comes to after the scale, x * s + (b - mean * s), whose two large terms bf16 does not carry.
"""

from __future__ import annotations

from math import prod

from optimizer.importers.passes.rewriting import (
    close,
    emit,
    fuse,
    is_scalar_op,
    is_static,
    only_use,
    produced_by,
    rewrites_each,
)
from optimizer.ir.graph import Graph, Op
from optimizer.ir.shape_rules import broadcast
from optimizer.ir.vocabulary import opdef

ROUNDED = 1e-6
"""How far 1/N in f32 may be from 1/N."""


@rewrites_each("mean-of-sum", "multiply", "divide")
def mean_of_sum(graph: Graph, root: Op) -> int:
    """sum(x) * (1/N) and sum(x) / N -> mean(x), where N elements are added."""
    if not is_scalar_op(root, "multiply", "divide") or root.attrs.get("activations"):
        return 0
    total = produced_by(graph, root.inputs[0], "sum")
    if total is None or only_use(graph, total.outputs[0]) is None:
        return 0
    if not graph.value(total.inputs[0]).dtype.is_float:
        return 0
    factor = float(root.attrs["scalar"])  # type: ignore[arg-type]
    terms = prod(graph.value(total.inputs[0]).shape) // max(1, prod(graph.value(total.outputs[0]).shape))
    if not close(factor if root.op == "ttnn.divide" else factor and 1 / factor, float(terms), ROUNDED):
        return 0
    fuse(graph, root, root, "mean", total.inputs, total.attrs, [total])
    return 1


@rewrites_each("kept-dims", "reshape")
def kept_dims(graph: Graph, root: Op) -> int:
    """The dims of a sum, mean or extreme that a reshape puts back -> kept."""
    reduced = produced_by(graph, root.inputs[0], "sum", "mean", "max", "min")
    if reduced is None or opdef(reduced.op).attr(reduced, "keepdim") or only_use(graph, root.inputs[0]) is None:
        return 0
    shape = graph.value(reduced.inputs[0]).shape
    dim = opdef(reduced.op).attr(reduced, "dim")
    dims = range(len(shape)) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    gone = {int(d) % len(shape) for d in dims}  # type: ignore[arg-type]
    if graph.value(root.outputs[0]).shape != tuple(1 if i in gone else n for i, n in enumerate(shape)):
        return 0
    fuse(graph, root, root, reduced.op.removeprefix("ttnn."), reduced.inputs, {**reduced.attrs, "keepdim": True},
         [reduced])  # fmt: skip
    return 1


@rewrites_each("variance-above-zero", "maximum", "relu")
def variance_above_zero(graph: Graph, root: Op) -> int:
    """max(mean(v^2), 0) -> mean(v^2), which is none below zero."""
    if root.op == "ttnn.maximum" and not (is_scalar_op(root, "maximum") and float(root.attrs["scalar"]) <= 0):  # type: ignore[arg-type]
        return 0
    mean = produced_by(graph, root.inputs[0], "mean", "sum")
    square = None if mean is None else produced_by(graph, mean.inputs[0], "square")
    if mean is None or square is None or mean.attrs.get("activations") or root.attrs.get("activations"):
        return 0
    fuse(graph, root, root, mean.op.removeprefix("ttnn."), mean.inputs, mean.attrs, [mean])
    return 1


@rewrites_each("weight-last", "multiply")
def weight_last(graph: Graph, root: Op) -> int:
    """v * (rsqrt(s) * weight) -> (v * rsqrt(s)) * weight."""
    if len(root.inputs) != 2:
        return 0
    for v, scale in (root.inputs, root.inputs[::-1]):
        product = produced_by(graph, scale, "multiply")
        if product is None or len(product.inputs) != 2 or product.attrs.get("activations") or v == scale:
            continue
        if only_use(graph, scale) is None:
            continue
        shape = graph.value(v).shape
        for inverse, weight in (product.inputs, product.inputs[::-1]):
            if produced_by(graph, inverse, "rsqrt") is None or not is_static(graph, weight):
                continue
            narrow = graph.value(inverse).shape
            if narrow == shape or broadcast(shape, narrow) != shape:
                continue
            scaled = emit(graph, root, "multiply", [v, inverse], {})
            fuse(graph, root, root, "multiply", [scaled, weight], root.attrs, [product])
            return 1
    return 0


@rewrites_each("shift-first", "add")
def shift_first(graph: Graph, root: Op) -> int:
    """x * s + (b - mean * s) -> (x - mean) * s + b, where the scale s is computed: the difference comes first."""
    if len(root.inputs) != 2:
        return 0
    for scaled, shift in (root.inputs, root.inputs[::-1]):
        product, rest = produced_by(graph, scaled, "multiply"), produced_by(graph, shift, "subtract")
        if product is None or rest is None or not len(product.inputs) == len(rest.inputs) == 2:
            continue
        taken = produced_by(graph, rest.inputs[1], "multiply")
        if taken is None or len(taken.inputs) != 2 or any(op.attrs.get("activations") for op in (product, rest, taken)):
            continue
        for x, scale in (product.inputs, product.inputs[::-1]):
            if scale in taken.inputs and not is_static(graph, scale):
                mean = taken.inputs[1 - taken.inputs.index(scale)]
                centred = emit(graph, root, "subtract", [x, mean], {})
                spread = emit(graph, root, "multiply", [centred, scale], {})
                fuse(graph, root, root, "add", [spread, rest.inputs[0]], root.attrs, [product, rest, taken])
                return 1
    return 0
