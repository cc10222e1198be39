"""LayerNorm, RMSNorm and GroupNorm that exporters spell out."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from optimizer.importers.passes.rewriting import (
    Shape,
    emit,
    finish,
    fuse,
    is_scalar_op,
    is_static,
    only_use,
    produced_by,
)
from optimizer.ir.graph import Graph, Op, ValueKind


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


def _with_scales(graph: Graph, root: Op, names: tuple[str, ...]) -> tuple[Op, list[str], list[Op]]:
    """Follow `root` through a multiplication and, for two names, an addition of rows.

    Returns the last op, the rows, and the ops between.
    """
    rows: list[str] = []
    between: list[Op] = []
    for name in names:
        following = only_use(graph, root.outputs[0])
        if following is None or following.op != f"ttnn.{name}" or following.attrs.get("activations"):
            break
        row = _row(graph, following, root.outputs[0])
        if row is None:
            break
        rows.append(row)
        between.append(root)
        root = following
    return root, rows, between


@dataclass(frozen=True)
class LayerNorm:
    """(x - mean)*rsqrt(mean((x - mean)^2) + eps)*weight + bias -> layer_norm."""

    name: ClassVar[str] = "layer-norm"

    def apply(self, graph: Graph) -> int:
        rewrites = 0
        for op in graph.ops():
            if op.op == "ttnn.rsqrt" and graph.has_op(op.id):
                rewrites += self._visit(graph, op)
        return finish(graph, rewrites)

    def _visit(self, graph: Graph, root: Op) -> int:
        shifted = produced_by(graph, root.inputs[0], "add")
        if shifted is None or not is_scalar_op(shifted, "add"):
            return 0
        variance = _mean_of_last(graph, shifted.inputs[0])
        square = produced_by(graph, variance.inputs[0], "square") if variance is not None else None
        scaled = only_use(graph, root.outputs[0])
        if variance is None or square is None or scaled is None or scaled.op != "ttnn.multiply":
            return 0
        centred = square.inputs[0]
        centre = produced_by(graph, centred, "subtract")
        if centre is None or len(centre.inputs) != 2 or centred not in scaled.inputs:
            return 0
        mean = _mean_of_last(graph, centre.inputs[1])
        if mean is None or mean.inputs[0] != centre.inputs[0]:
            return 0
        last, rows, between = _with_scales(graph, scaled, ("multiply", "add"))
        epsilon = float(shifted.attrs["scalar"])  # type: ignore[arg-type]
        absorbed = [mean, centre, square, variance, shifted, root, *between]
        fuse(graph, last, last, "layer_norm", [centre.inputs[0], *rows], {"epsilon": epsilon}, absorbed)
        return 1


@dataclass(frozen=True)
class RmsNorm:
    """x*rsqrt(mean(x^2) + eps)*weight -> rms_norm."""

    name: ClassVar[str] = "rms-norm"

    def apply(self, graph: Graph) -> int:
        rewrites = 0
        for op in graph.ops():
            if op.op == "ttnn.rsqrt" and graph.has_op(op.id):
                rewrites += self._visit(graph, op)
        return finish(graph, rewrites)

    def _visit(self, graph: Graph, root: Op) -> int:
        shifted = produced_by(graph, root.inputs[0], "add")
        if shifted is None or not is_scalar_op(shifted, "add"):
            return 0
        power = _mean_of_last(graph, shifted.inputs[0])
        square = produced_by(graph, power.inputs[0], "square") if power is not None else None
        scaled = only_use(graph, root.outputs[0])
        if power is None or square is None or scaled is None or scaled.op != "ttnn.multiply":
            return 0
        x = square.inputs[0]
        if len(scaled.inputs) != 2 or x not in scaled.inputs:
            return 0
        last, rows, between = _with_scales(graph, scaled, ("multiply",))
        epsilon = float(shifted.attrs["scalar"])  # type: ignore[arg-type]
        fuse(graph, last, last, "rms_norm", [x, *rows], {"epsilon": epsilon},
             [square, power, shifted, root, *between])  # fmt: skip
        return 1


@dataclass(frozen=True)
class GroupNorm:
    """Reshape to groups, instance norm, reshape back, scale, shift -> `nchw.group_norm`."""

    name: ClassVar[str] = "group-norm"

    def apply(self, graph: Graph) -> int:
        rewrites = 0
        for op in graph.ops():
            if op.op == "nchw.group_norm" and graph.has_op(op.id):
                rewrites += self._visit(graph, op)
        return finish(graph, rewrites)

    def _visit(self, graph: Graph, norm: Op) -> int:
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
        last, scales, between = self._scales(graph, back, shape)
        attrs = {"num_groups": groups, "epsilon": norm.attr("epsilon")}
        fuse(graph, last, last, "nchw.group_norm", [x, *scales], attrs, [grouped, norm, *between])
        return 1

    def _scales(self, graph: Graph, root: Op, shape: Shape) -> tuple[Op, list[str], list[Op]]:
        scales: list[str] = []
        between: list[Op] = []
        for name in ("multiply", "add"):
            following = only_use(graph, root.outputs[0])
            channel = channel_operand(graph, following, root.outputs[0]) if following is not None else None
            if following is None or channel is None or following.op != f"ttnn.{name}":
                break
            scales.append(emit(graph, following, "reshape", [channel], {"shape": (shape[1],)}))
            between.append(root)
            root = following
        return root, scales, between


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


def _is_filled(graph: Graph, value_id: str, number: float) -> bool:
    value = graph.value(value_id)
    return value.kind is ValueKind.CONSTANT and value.data is not None and all(v == number for v in value.data)
