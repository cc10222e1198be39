"""Channels-last rules of ops on rows: norms, products with weights, attention heads, reductions."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from optimizer.importers.passes.rewriting import reduced_dims, reshape
from optimizer.importers.passes.twins import ROWS, SECOND, Rule, Twins, done, follow, full_attrs, put
from optimizer.ir.graph import Op


def _row_norm(twins: Twins, op: Op) -> bool:
    twin = twins.get(op.inputs[0])
    if twin is None or twin.form is not ROWS or any(not twins.graph.is_static(v) for v in op.inputs[1:]):
        return False
    return follow(twins, op, ROWS)


def _linear(twins: Twins, op: Op) -> bool:
    twin = twins.get(op.inputs[0])
    graph = twins.graph
    if twin is None or twin.form is not ROWS or op.attrs.get("transpose_a") or len(twin.shape) < 2:
        return False
    if any(not graph.is_static(v) for v in op.inputs[1:]) or len(graph.value(op.inputs[1]).shape) != 2:
        return False
    return follow(twins, op, ROWS)


def _split_heads(twins: Twins, op: Op) -> bool:
    """Rows of one sequence are already what the op of rank four takes."""
    twin = twins.get(op.inputs[0])
    if twin is None or twin.form is not ROWS or len(twin.shape) != 3 or twin.shape[0] != 1:
        return False
    flat = twins.flat(op.inputs[0], ROWS, op)
    twins.graph.replace_op(replace(op, op="ttnn.nlp_create_qkv_heads", inputs=(flat,)))
    return True


def _join_heads(twins: Twins, op: Op) -> bool:
    """Heads of one sequence are joined to the rows that the ops around are computed on."""
    shape = twins.graph.value(op.outputs[0]).shape
    if shape[0] != 1 or not twins.has_rows(shape[:-1]):
        return False
    return done(twins, op, ROWS, put(twins.graph, op, "ttnn.nlp_concat_heads", op.inputs, {}))


def _softmax(twins: Twins, op: Op) -> bool:
    """Along the channels; of an image for a convolution also where that has no rows of pixels yet."""
    graph, twin = twins.graph, twins.get(op.inputs[0])
    shape = graph.value(op.inputs[0]).shape
    dim = int(full_attrs(op)["dim"]) % len(shape)  # type: ignore[arg-type]
    image = len(shape) == 4 and any(o.op.startswith("nchw.") for o in graph.consumers(op.outputs[0]))
    form = twin.form if twin is not None else SECOND
    if dim != (1 if form is SECOND else len(shape) - 1) or (twin is None and not image):
        return False
    return follow(twins, op, form, {**op.attrs, "dim": -1})


def _reduce(twins: Twins, op: Op) -> bool:
    twin = twins.get(op.inputs[0])
    if twin is None:
        return False
    graph, rank = twins.graph, len(twin.shape)
    dims, keep = reduced_dims(graph, op), bool(full_attrs(op)["keepdim"])
    if dims == (twin.channel_dim,) and keep:
        return follow(twins, op, twin.form, {"dim": (3,), "keepdim": True})
    if twin.form is not SECOND or dims != tuple(range(2, rank)):
        return False
    n, channels = twin.shape[:2]
    image = reshape(graph, op, twins.flat(op.inputs[0], SECOND, op), (n, 1, prod(twin.shape[2:]), channels))
    result = put(graph, op, op.op, [image], {"dim": (2,), "keepdim": True})[0]
    return done(twins, op, SECOND if keep else ROWS, [reshape(graph, op, result, (1, 1, n, channels))])


ROW_RULES: dict[str, Rule] = {
    "ttnn.layer_norm": _row_norm,
    "ttnn.rms_norm": _row_norm,
    "ttnn.linear": _linear,
    "ttnn.matmul": _linear,
    "ttnn.split_query_key_value_and_split_heads": _split_heads,
    "ttnn.concatenate_heads": _join_heads,
    "ttnn.softmax": _softmax,
    **{f"ttnn.{name}": _reduce for name in ("sum", "mean", "max", "min", "prod")},
}
