"""Group norms: those that exporters spell out are found, those that TTNN does not take are spelled out."""

from __future__ import annotations

from math import prod

from optimizer.importers.passes.rewriting import (
    Shape,
    drop_dead,
    emit,
    fuse,
    is_static,
    only_use,
    produced_by,
    reshape,
    rewrites_each,
)
from optimizer.ir.graph import Graph, Op, ValueKind

TILE = 32


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
    last, scales, between = _scales(graph, back, shape)
    attrs = {"num_groups": groups, "epsilon": norm.attr("epsilon")}
    fuse(graph, last, last, "nchw.group_norm", [x, *scales], attrs, [grouped, norm, *between])
    return 1


def _scales(graph: Graph, root: Op, shape: Shape) -> tuple[Op, list[str], list[Op]]:
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
