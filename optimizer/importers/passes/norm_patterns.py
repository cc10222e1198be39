"""Norms: those that exporters spell out are found, group norms that TTNN does not take are spelled out.

Before, means, variances and norms are brought into the one spelling that the patterns know. JAX writes a mean as a sum
times 1/N, reduces without keeping the dim and multiplies the rsqrt with the weight first; Keras adds what the mean
comes to after the scale, x * s + (b - mean * s), whose two large terms bf16 does not carry. Variances that exporters
write as the difference of two means are computed from centred values instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from optimizer.importers.passes.rewriting import (
    close,
    drop_dead,
    emit,
    fuse,
    is_scalar_op,
    other_operand,
    reduced_dims,
    reshape,
    rewrites_each,
)
from optimizer.ir.graph import Graph, Op, ValueKind
from optimizer.ir.shape_rules import broadcast
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.tiling import TILE


@rewrites_each("centred-variance", "subtract")
def centred_variance(graph: Graph, root: Op) -> int:
    """mean(x^2) - mean(x)^2 -> mean((x - mean(x))^2): the same number, of which bf16 keeps what the difference loses.

    Runs where arithmetic is in one spelling (x*x is a square), before the patterns of norms, which then find it.
    """
    if len(root.inputs) != 2 or root.attrs.get("activations"):
        return 0
    squares, squared_mean = graph.produced_by(root.inputs[0], "mean"), graph.produced_by(root.inputs[1], "square")
    square = None if squares is None else graph.produced_by(squares.inputs[0], "square")
    mean = None if squared_mean is None else graph.produced_by(squared_mean.inputs[0], "mean")
    if squares is None or squared_mean is None or square is None or mean is None:
        return 0
    x = square.inputs[0]
    dims = reduced_dims(graph, mean)
    keep = bool(opdef(squares.op).attr(squares, "keepdim"))
    if mean.inputs[0] != x or dims != reduced_dims(graph, squares):
        return 0
    if bool(opdef(mean.op).attr(mean, "keepdim")) is not keep:
        return 0
    kept = mean.outputs[0] if keep else emit(graph, root, "mean", [x], {"dim": dims, "keepdim": True})
    spread = emit(graph, root, "square", [_centred(graph, root, x, kept)], {})
    absorbed = [squares, square, squared_mean, mean]
    fuse(graph, root, root, "mean", [spread], {"dim": dims, "keepdim": keep}, absorbed)
    return 1


def _centred(graph: Graph, like: Op, x: str, mean: str) -> str:
    """x - mean, of the graph's own op for it where there is one."""
    for op in graph.consumers(x):
        if op.op == "ttnn.subtract" and op.inputs == (x, mean) and not op.attrs.get("activations"):
            return op.outputs[0]
    return emit(graph, like, "subtract", [x, mean], {})


def _mean_of_last(graph: Graph, value_id: str) -> Op | None:
    """The producer of a value, if it is a mean over the last dim that keeps it."""
    op = graph.produced_by(value_id, "mean")
    if op is None or not op.attrs.get("keepdim", True):
        return None
    return op if reduced_dims(graph, op) == (len(graph.value(op.inputs[0]).shape) - 1,) else None


def _row(graph: Graph, op: Op, x: str) -> str | None:
    """The other operand of a binary op, if it is static and varies along the last dim only."""
    if len(op.inputs) != 2 or op.inputs[0] == op.inputs[1] or x not in op.inputs:
        return None
    other = other_operand(op, x)
    shape = graph.value(other).shape
    width = graph.value(x).shape[-1]
    return other if graph.is_static(other) and shape[-1] == width == prod(shape) else None


def channel_operand(graph: Graph, op: Op, x: str) -> str | None:
    """The other operand of a binary op on [N, C, ...], if it is static with one element per channel."""
    if len(op.inputs) != 2 or op.inputs[0] == op.inputs[1] or x not in op.inputs or op.attrs.get("activations"):
        return None
    other = other_operand(op, x)
    shape, full = graph.value(other).shape, graph.value(x).shape
    if not graph.is_static(other) or len(full) < 3 or len(shape) > len(full):
        return None
    padded = (*(1,) * (len(full) - len(shape)), *shape)
    return other if padded[1] == full[1] == prod(padded) else None


def _with_scales(
    graph: Graph, root: Op, names: tuple[str, ...], operand: Callable[[Graph, Op, str], str | None] = _row
) -> tuple[Op, list[str], list[Op]]:
    """Follow `root` through a multiplication and, for two names, an addition of rows (or another `operand`).

    Returns the last op, the rows, and the ops between.
    """
    rows: list[str] = []
    between: list[Op] = []
    for name in names:
        following = graph.only_use(root.outputs[0])
        if following is None or following.op != f"ttnn.{name}" or following.attrs.get("activations"):
            break
        row = operand(graph, following, root.outputs[0])
        if row is None:
            break
        rows.append(row)
        between.append(root)
        root = following
    return root, rows, between


@dataclass(frozen=True)
class _Normalised:
    """y * rsqrt(mean(v^2) + eps), where the ops between are these."""

    epsilon: float
    v: str
    scaled: Op
    between: tuple[Op, ...]


def _normalised(graph: Graph, root: Op) -> _Normalised | None:
    shifted = graph.produced_by(root.inputs[0], "add")
    if shifted is None or not is_scalar_op(shifted, "add"):
        return None
    mean = _mean_of_last(graph, shifted.inputs[0])
    square = graph.produced_by(mean.inputs[0], "square") if mean is not None else None
    scaled = graph.only_use(root.outputs[0])
    if mean is None or square is None or scaled is None or scaled.op != "ttnn.multiply":
        return None
    epsilon = float(shifted.attrs["scalar"])  # type: ignore[arg-type]
    return _Normalised(epsilon, square.inputs[0], scaled, (square, mean, shifted, root))


@rewrites_each("layer-norm", "rsqrt")
def layer_norm(graph: Graph, root: Op) -> int:
    """(x - mean)*rsqrt(mean((x - mean)^2) + eps)*weight + bias -> layer_norm."""
    found = _normalised(graph, root)
    centre = graph.produced_by(found.v, "subtract") if found is not None else None
    if found is None or centre is None or len(centre.inputs) != 2 or found.v not in found.scaled.inputs:
        return 0
    mean = _mean_of_last(graph, centre.inputs[1])
    if mean is None or mean.inputs[0] != centre.inputs[0]:
        return 0
    last, rows, between = _with_scales(graph, found.scaled, ("multiply", "add"))
    absorbed = [mean, centre, *found.between, *between]
    fuse(graph, last, last, "layer_norm", [centre.inputs[0], *rows], {"epsilon": found.epsilon}, absorbed)
    return 1


@rewrites_each("rms-norm", "rsqrt")
def rms_norm(graph: Graph, root: Op) -> int:
    """x*rsqrt(mean(x^2) + eps)*weight -> rms_norm."""
    found = _normalised(graph, root)
    if found is None or len(found.scaled.inputs) != 2 or found.v not in found.scaled.inputs:
        return 0
    last, rows, between = _with_scales(graph, found.scaled, ("multiply",))
    absorbed = [*found.between, *between]
    fuse(graph, last, last, "rms_norm", [found.v, *rows], {"epsilon": found.epsilon}, absorbed)
    return 1


@rewrites_each("group-norm", "nchw.group_norm")
def group_norm(graph: Graph, norm: Op) -> int:
    """Reshape to groups, instance norm, reshape back, scale, shift -> `nchw.group_norm`."""
    grouped = graph.produced_by(norm.inputs[0], "reshape")
    back = graph.only_use(norm.outputs[0])
    if grouped is None or back is None or back.op != "ttnn.reshape":
        return 0
    x = grouped.inputs[0]
    shape = graph.value(x).shape
    groups = graph.value(norm.inputs[0]).shape[1]
    fits = len(shape) >= 3 and graph.value(back.outputs[0]).shape == shape and shape[1] % groups == 0
    if not fits or norm.attrs["num_groups"] != groups or graph.value(norm.inputs[0]).shape[0] != shape[0]:
        return 0
    if not (_is_filled(graph, norm.inputs[1], 1.0) and _is_filled(graph, norm.inputs[2], 0.0)):
        return 0
    last, channels, between = _with_scales(graph, back, ("multiply", "add"), channel_operand)
    scaling = zip((*between[1:], last), channels, strict=False)  # nothing to scale: one op, no channels
    scales = [emit(graph, op, "reshape", [channel], {"shape": (shape[1],)}) for op, channel in scaling]
    attrs = {"num_groups": groups, "epsilon": norm.attr("epsilon")}
    fuse(graph, last, last, "nchw.group_norm", [x, *scales], attrs, [grouped, norm, *between])
    return 1


@rewrites_each("scale-into-norm", "layer_norm", "nchw.group_norm")
def scale_into_norm(graph: Graph, norm: Op) -> int:
    """A norm with weights, scaled or shifted by others -> one norm: (n*w + b)*s + t = n*(w*s) + (b*s + t)."""
    of = channel_operand if norm.op == "nchw.group_norm" else _row
    last, found, between = _with_scales(graph, norm, ("multiply", "add"), of)
    if len(norm.inputs) != 3 or len(found) != 2:
        return 0
    scale, shift = (reshape(graph, last, v, graph.value(norm.inputs[1]).shape) for v in found)
    weight = emit(graph, last, "multiply", [norm.inputs[1], scale], {})
    bias = emit(graph, last, "add", [emit(graph, last, "multiply", [norm.inputs[2], scale], {}), shift], {})
    fuse(graph, last, last, norm.op, [norm.inputs[0], weight, bias], norm.attrs, between)
    return 1


def _is_filled(graph: Graph, value_id: str, number: float) -> bool:
    value = graph.value(value_id)
    return value.kind is ValueKind.CONSTANT and value.data is not None and all(v == number for v in value.data)


@rewrites_each("spell-out-group-norm", "nchw.group_norm")
def spell_out_group_norm(graph: Graph, norm: Op) -> int:
    """A norm over channels that are no whole tiles: TTNN's group_norm refuses them, its layer_norm does not.

    Each group becomes a row: [N, G, C/G * spatial]; scale and shift follow per channel.
    """
    x = norm.inputs[0]
    shape = graph.value(x).shape
    if shape[1] % TILE == 0:
        return 0
    groups = int(norm.attr("num_groups"))
    rows = reshape(graph, norm, x, (shape[0], groups, prod(shape[1:]) // groups))
    result = emit(graph, norm, "layer_norm", [rows], {"epsilon": norm.attr("epsilon")})
    result = reshape(graph, norm, result, shape)
    for name, scale in zip(("multiply", "add"), norm.inputs[1:], strict=False):
        if _is_filled(graph, scale, 1.0 if name == "multiply" else 0.0):
            continue
        channels = reshape(graph, norm, scale, (1, shape[1], *(1,) * (len(shape) - 2)))
        result = emit(graph, norm, name, [result, channels], {})
    graph.replace_uses(norm.outputs[0], result)
    drop_dead(graph, [norm.id])
    return 1


ROUNDED = 1e-6
"""How far 1/N in f32 may be from 1/N."""


@rewrites_each("mean-of-sum", "multiply", "divide")
def mean_of_sum(graph: Graph, root: Op) -> int:
    """sum(x) * (1/N) and sum(x) / N -> mean(x), where N elements are added."""
    if not is_scalar_op(root, "multiply", "divide") or root.attrs.get("activations"):
        return 0
    total = graph.produced_by(root.inputs[0], "sum")
    if total is None or graph.only_use(total.outputs[0]) is None:
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
    reduced = graph.produced_by(root.inputs[0], "sum", "mean", "max", "min")
    if reduced is None or opdef(reduced.op).attr(reduced, "keepdim") or graph.only_use(root.inputs[0]) is None:
        return 0
    shape = graph.value(reduced.inputs[0]).shape
    gone = reduced_dims(graph, reduced)
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
    mean = graph.produced_by(root.inputs[0], "mean", "sum")
    square = None if mean is None else graph.produced_by(mean.inputs[0], "square")
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
        product = graph.produced_by(scale, "multiply")
        if product is None or len(product.inputs) != 2 or product.attrs.get("activations") or v == scale:
            continue
        if graph.only_use(scale) is None:
            continue
        shape = graph.value(v).shape
        for inverse, weight in (product.inputs, product.inputs[::-1]):
            if graph.produced_by(inverse, "rsqrt") is None or not graph.is_static(weight):
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
        product, rest = graph.produced_by(scaled, "multiply"), graph.produced_by(shift, "subtract")
        if product is None or rest is None or not len(product.inputs) == len(rest.inputs) == 2:
            continue
        taken = graph.produced_by(rest.inputs[1], "multiply")
        if taken is None or len(taken.inputs) != 2 or any(op.attrs.get("activations") for op in (product, rest, taken)):
            continue
        for x, scale in (product.inputs, product.inputs[::-1]):
            if scale in taken.inputs and not graph.is_static(scale):
                mean = other_operand(taken, scale)
                centred = emit(graph, root, "subtract", [x, mean], {})
                spread = emit(graph, root, "multiply", [centred, scale], {})
                fuse(graph, root, root, "add", [spread, rest.inputs[0]], root.attrs, [product, rest, taken])
                return 1
    return 0
