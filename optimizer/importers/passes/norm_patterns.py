"""Norms: those that exporters spell out are found, group norms that TTNN does not take are spelled out.

Variances that exporters write as the difference of two means are computed from centred values instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from optimizer.importers.passes.rewriting import (
    drop_dead,
    emit,
    fuse,
    is_scalar_op,
    is_static,
    only_use,
    produced_by,
    reshape,
    rewrites_each,
)
from optimizer.ir.graph import Attr, Graph, Op, ValueKind
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.tiling import TILE


@rewrites_each("centred-variance", "subtract")
def centred_variance(graph: Graph, root: Op) -> int:
    """mean(x^2) - mean(x)^2 -> mean((x - mean(x))^2): the same number, of which bf16 keeps what the difference loses.

    Runs where arithmetic is in one spelling (x*x is a square), before the patterns of norms, which then find it.
    """
    if len(root.inputs) != 2 or root.attrs.get("activations"):
        return 0
    squares, squared_mean = produced_by(graph, root.inputs[0], "mean"), produced_by(graph, root.inputs[1], "square")
    square = None if squares is None else produced_by(graph, squares.inputs[0], "square")
    mean = None if squared_mean is None else produced_by(graph, squared_mean.inputs[0], "mean")
    if squares is None or squared_mean is None or square is None or mean is None:
        return 0
    x = square.inputs[0]
    if mean.inputs[0] != x or _dims(graph, mean) != _dims(graph, squares):
        return 0
    keep = bool(opdef(squares.op).attr(squares, "keepdim"))
    if bool(opdef(mean.op).attr(mean, "keepdim")) is not keep:
        return 0
    dims: Attr = _dims(graph, mean)
    kept = mean.outputs[0] if keep else emit(graph, root, "mean", [x], {"dim": dims, "keepdim": True})
    spread = emit(graph, root, "square", [_centred(graph, root, x, kept)], {})
    absorbed = [squares, square, squared_mean, mean]
    fuse(graph, root, root, "mean", [spread], {"dim": dims, "keepdim": keep}, absorbed)
    return 1


def _dims(graph: Graph, op: Op) -> tuple[int, ...]:
    """The dims that a mean is over, counted from the front."""
    rank = len(graph.value(op.inputs[0]).shape)
    dim = opdef(op.op).attr(op, "dim")
    given = range(rank) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    return tuple(sorted(int(d) % rank for d in given))  # type: ignore[arg-type]


def _centred(graph: Graph, like: Op, x: str, mean: str) -> str:
    """x - mean, of the graph's own op for it where there is one."""
    for op in graph.consumers(x):
        if op.op == "ttnn.subtract" and op.inputs == (x, mean) and not op.attrs.get("activations"):
            return op.outputs[0]
    return emit(graph, like, "subtract", [x, mean], {})


def _mean_of_last(graph: Graph, value_id: str) -> Op | None:
    """The producer of a value, if it is a mean over the last dim that keeps it."""
    op = produced_by(graph, value_id, "mean")
    if op is None or not op.attrs.get("keepdim", True):
        return None
    rank = len(graph.value(op.inputs[0]).shape)
    dim = op.attrs.get("dim")
    dims = dim if isinstance(dim, tuple) else (dim,)
    return op if [int(d) % rank for d in dims if d is not None] == [rank - 1] else None  # type: ignore[arg-type]


def _row(graph: Graph, op: Op, x: str) -> str | None:
    """The other operand of a binary op, if it is static and varies along the last dim only."""
    if len(op.inputs) != 2 or op.inputs[0] == op.inputs[1] or x not in op.inputs:
        return None
    other = op.inputs[1 - op.inputs.index(x)]
    shape = graph.value(other).shape
    width = graph.value(x).shape[-1]
    return other if is_static(graph, other) and shape[-1] == width == prod(shape) else None


def channel_operand(graph: Graph, op: Op, x: str) -> str | None:
    """The other operand of a binary op on [N, C, ...], if it is static with one element per channel."""
    if len(op.inputs) != 2 or op.inputs[0] == op.inputs[1] or x not in op.inputs or op.attrs.get("activations"):
        return None
    other = op.inputs[1 - op.inputs.index(x)]
    shape, full = graph.value(other).shape, graph.value(x).shape
    if not is_static(graph, other) or len(full) < 3 or len(shape) > len(full):
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
        following = only_use(graph, root.outputs[0])
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
    shifted = produced_by(graph, root.inputs[0], "add")
    if shifted is None or not is_scalar_op(shifted, "add"):
        return None
    mean = _mean_of_last(graph, shifted.inputs[0])
    square = produced_by(graph, mean.inputs[0], "square") if mean is not None else None
    scaled = only_use(graph, root.outputs[0])
    if mean is None or square is None or scaled is None or scaled.op != "ttnn.multiply":
        return None
    epsilon = float(shifted.attrs["scalar"])  # type: ignore[arg-type]
    return _Normalised(epsilon, square.inputs[0], scaled, (square, mean, shifted, root))


@rewrites_each("layer-norm", "rsqrt")
def layer_norm(graph: Graph, root: Op) -> int:
    """(x - mean)*rsqrt(mean((x - mean)^2) + eps)*weight + bias -> layer_norm."""
    found = _normalised(graph, root)
    centre = produced_by(graph, found.v, "subtract") if found is not None else None
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
    grouped = produced_by(graph, norm.inputs[0], "reshape")
    back = only_use(graph, norm.outputs[0])
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
