"""Write convolutions and what surrounds them in TTNN's form [1, 1, N*H*W, C].

One forward sweep. `nchw.*` ops become TTNN ops on flat twins; elementwise ops, concats, norms, linears
and channel slices follow into the flat domain, so that permutes remain only where the graph enters or
leaves it.

A rule gets the twins and an op; it either replaces the op by one on twins and returns True, or leaves
everything as it was and returns False.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from optimizer.families.elementwise.rows import BINARY, UNARY, UNARY_PARAMS
from optimizer.importers.passes.channels_last_rows import ROW_RULES
from optimizer.importers.passes.rewriting import Pass, Shape, emit, finish, permuted_dims, reshape
from optimizer.importers.passes.twins import ROWS, SECOND, Form, Rule, Twins, done, follow, put
from optimizer.ir.graph import Attr, Graph, Op


# -- window ops ------------------------------------------------------------------------------------
def _conv(twins: Twins, op: Op) -> bool:
    graph = twins.graph
    n, cin, height, width = graph.value(op.inputs[0]).shape
    cout = graph.value(op.outputs[0]).shape[1]
    attrs = {**op.attrs, "batch_size": n, "input_height": height, "input_width": width}
    attrs |= {"in_channels": cin, "out_channels": cout}
    operands = [twins.flat(op.inputs[0], SECOND, op), op.inputs[1]]
    if len(op.inputs) > 2:
        operands.append(reshape(graph, op, op.inputs[2], (1, 1, 1, cout)))
    flats = put(graph, op, f"ttnn.{op.op.removeprefix('nchw.')}", operands, attrs)
    return done(twins, op, SECOND, flats)


def _pool(twins: Twins, op: Op) -> bool:
    graph = twins.graph
    n, channels, height, width = graph.value(op.inputs[0]).shape
    sizes = {"batch_size": n, "input_height": height, "input_width": width, "channels": channels}
    attrs = {**op.attrs, **sizes}
    flats = put(graph, op, f"ttnn.{op.op.removeprefix('nchw.')}", [twins.flat(op.inputs[0], SECOND, op)], attrs)
    return done(twins, op, SECOND, flats)


def _sampled(twins: Twins, op: Op) -> bool:
    operands = [twins.last(op.inputs[0], SECOND, op), *op.inputs[1:]]
    return _apart(twins, op, SECOND, f"ttnn.{op.op.removeprefix('nchw.')}", operands, op.attrs)


def _apart(twins: Twins, op: Op, form: Form, name: str, operands: Sequence[str], attrs: Mapping[str, Attr]) -> bool:
    """Replace an op by one on twins whose dims are apart; always True."""
    twins.add(op.outputs[0], form, op, last=put(twins.graph, op, name, operands, attrs)[0])
    return True


# -- norms over channels ---------------------------------------------------------------------------
def _batch_norm(twins: Twins, op: Op) -> bool:
    """x*scale + shift with scale and shift computed once from the weights."""
    graph = twins.graph
    channels = graph.value(op.inputs[0]).shape[1]
    scale, shift = batch_norm_factors(graph, op)
    flat = twins.flat(op.inputs[0], SECOND, op)
    row = (1, 1, 1, channels)
    scaled = emit(graph, op, "multiply", [flat, reshape(graph, op, scale, row)], {})
    flats = put(graph, op, "ttnn.add", [scaled, reshape(graph, op, shift, row)], {})
    return done(twins, op, SECOND, flats)


def batch_norm_factors(graph: Graph, op: Op) -> tuple[str, str]:
    """weight/sqrt(variance + epsilon) and bias - mean*that, both [C], of an `nchw.batch_norm`."""
    _, weight, bias, mean, variance = op.inputs
    epsilon = op.attr("epsilon")
    inverse = emit(graph, op, "rsqrt", [emit(graph, op, "add", [variance], {"scalar": epsilon})], {})
    scale = emit(graph, op, "multiply", [weight, inverse], {})
    shift = emit(graph, op, "subtract", [bias, emit(graph, op, "multiply", [mean, scale], {})], {})
    return scale, shift


def _group_norm(twins: Twins, op: Op) -> bool:
    graph = twins.graph
    shape = graph.value(op.inputs[0]).shape
    n, channels = shape[:2]
    flat = twins.flat(op.inputs[0], SECOND, op)
    image = reshape(graph, op, flat, (n, 1, prod(shape[2:]), channels))
    scales = [reshape(graph, op, v, (channels,)) for v in op.inputs[1:]]
    result = put(graph, op, "ttnn.group_norm", [image, *scales], op.attrs)[0]
    flats = [reshape(graph, op, result, graph.value(flat).shape)]
    return done(twins, op, SECOND, flats)


# -- elementwise -----------------------------------------------------------------------------------
def _unary(twins: Twins, op: Op) -> bool:
    twin = twins.get(op.inputs[0])
    if twin is None:
        return False
    return follow(twins, op, twin.form)


def _nary(twins: Twins, op: Op) -> bool:
    graph = twins.graph
    out = graph.value(op.outputs[0]).shape
    whole = [v for v in op.inputs if graph.value(v).shape == out]
    forms = [twin.form for v in whole if (twin := twins.get(v)) is not None]
    if not forms or len(out) < 2:
        return False
    form = SECOND if SECOND in forms else ROWS
    moving = [twins.get(v) for v in whole if not graph.is_static(v)]
    if form is SECOND and 2 * sum(twin is not None and twin.form is form for twin in moving) < len(moving):
        return False
    views = [_operand_view(graph.value(v).shape, out, form) for v in op.inputs]
    if None in views:
        return False
    if "sample" in views:
        return _per_sample(twins, op, views)
    operands = [_as_operand(twins, op, v, str(view), form) for v, view in zip(op.inputs, views, strict=True)]
    return done(twins, op, form, put(graph, op, op.op, operands, op.attrs))


def _operand_view(shape: Shape, out: Shape, form: Form) -> str | None:
    """How an operand broadcasts against the flat form: whole, channel, one, position, sample; else None."""
    if len(shape) > len(out):
        return None
    padded = (*(1,) * (len(out) - len(shape)), *shape)
    if padded == out:
        return "whole" if len(shape) == len(out) else "padded"
    if prod(padded) == 1:
        return "one"
    channel = 1 if form is SECOND else len(out) - 1
    others = [s for i, s in enumerate(padded) if i != channel]
    full_others = [s for i, s in enumerate(out) if i != channel]
    if padded[channel] == out[channel] and prod(others) == 1:
        return "channel"
    if padded[channel] == 1 and others == full_others:
        return "position"
    if form is SECOND and padded[:2] == out[:2] and prod(padded[2:]) == 1:
        return "sample"
    return None


def _as_operand(twins: Twins, op: Op, value_id: str, view: str, form: Form) -> str:
    graph = twins.graph
    if view in ("whole", "position"):
        value_shape = graph.value(value_id).shape
        if view == "position" and form is ROWS:
            return twins.flat(value_id, ROWS, op)
        if len(value_shape) >= 2 and (view == "whole" or len(value_shape) == len(graph.value(op.outputs[0]).shape)):
            return twins.flat(value_id, form, op)
    twin = twins.get(value_id)
    if view == "channel" and twin is not None and twin.channels == prod(twin.shape):
        return reshape(graph, op, twins.flat(value_id, twin.form, op), (1, 1, 1, twin.channels))
    twins.materialise(value_id)
    if view == "padded":
        out = graph.value(op.outputs[0]).shape
        return twins.flat(reshape(graph, op, value_id, out), form, op)
    count = prod(graph.value(value_id).shape)
    return reshape(graph, op, value_id, (1, 1, count, 1) if view == "position" else (1, 1, 1, count))


def _per_sample(twins: Twins, op: Op, views: list[str | None]) -> bool:
    """Operands [N, C, 1, 1] against [N, C, H, W]: the op runs on [N, 1, H*W, C]."""
    graph = twins.graph
    out = graph.value(op.outputs[0]).shape
    n, channels, count = out[0], out[1], prod(out[2:])
    operands: list[str] = []
    for value_id, view in zip(op.inputs, views, strict=True):
        if view == "sample":
            flat = twins.flat(value_id, SECOND, op) if len(graph.value(value_id).shape) == len(out) else value_id
            operands.append(reshape(graph, op, flat, (n, 1, 1, channels)))
        elif view == "position":
            operands.append(reshape(graph, op, _as_operand(twins, op, value_id, view, SECOND), (n, 1, count, 1)))
        else:
            flat = _as_operand(twins, op, value_id, str(view), SECOND)
            operands.append(reshape(graph, op, flat, (n, 1, count, channels)) if view in ("whole", "padded") else flat)
    result = put(graph, op, op.op, operands, op.attrs)[0]
    return done(twins, op, SECOND, [reshape(graph, op, result, (1, 1, n * count, channels))])


# -- data movement ---------------------------------------------------------------------------------
def _concat(twins: Twins, op: Op) -> bool:
    graph = twins.graph
    forms = [twin.form for v in op.inputs if (twin := twins.get(v)) is not None]
    if not forms or 2 * len(forms) < len(op.inputs):
        return False
    form = SECOND if SECOND in forms else ROWS
    shape = graph.value(op.outputs[0]).shape
    axis = int(op.attr("dim")) % len(shape)
    channel = 1 if form is SECOND else len(shape) - 1
    if axis == channel:
        dim = 3
    elif axis == 0 or (axis == (2 if form is SECOND else 1) and shape[0] == 1):
        dim = 2
    elif form is SECOND:
        lasts = [twins.last(v, form, op) for v in op.inputs]
        return _apart(twins, op, form, op.op, lasts, {"dim": axis - 1})
    else:
        return False
    flats = [twins.flat(v, form, op) for v in op.inputs]
    return done(twins, op, form, put(graph, op, op.op, flats, {"dim": dim}))


def _slice(twins: Twins, op: Op) -> bool:
    twin = twins.get(op.inputs[0])
    if twin is None:
        return False
    shape, channel = twin.shape, twin.channel_dim
    begins, ends = list(op.attr("begins")), list(op.attr("ends"))
    steps = list(op.attrs.get("steps") or (1,) * len(shape))  # type: ignore[arg-type]
    kept = [i for i in range(len(shape)) if (begins[i], ends[i], steps[i]) == (0, shape[i], 1)]
    if len(kept) == len(shape) - 1 and channel not in kept:
        first, count = (0, 0, 0, begins[channel]), prod(shape) // twin.channels
        attrs = {"begins": first, "ends": (1, 1, count, ends[channel]), "steps": (1, 1, 1, steps[channel])}
        return follow(twins, op, twin.form, attrs)
    if twin.form is not SECOND:
        return False
    given = {"begins": begins, "ends": ends, "steps": steps}
    turned = {name: tuple(of[i] for i in twin.channels_last) for name, of in given.items()}
    return _apart(twins, op, SECOND, op.op, [twins.last(op.inputs[0], SECOND, op)], turned)


def _split(twins: Twins, op: Op) -> bool:
    twin = twins.get(op.inputs[0])
    if twin is None:
        return False
    if int(op.attr("dim")) % len(twin.shape) != twin.channel_dim:
        return False
    return follow(twins, op, twin.form, {"sizes": op.attr("sizes"), "dim": 3})


def _pad(twins: Twins, op: Op) -> bool:
    twin = twins.get(op.inputs[0])
    if twin is None or twin.form is not SECOND:
        return False
    pairs = op.attr("padding")
    attrs = {**op.attrs, "padding": tuple(pairs[i] for i in twin.channels_last)}
    return _apart(twins, op, SECOND, op.op, [twins.last(op.inputs[0], SECOND, op)], attrs)


def _reshape(twins: Twins, op: Op) -> bool:
    graph = twins.graph
    twin = twins.get(op.inputs[0])
    if twin is None:
        return False
    old, new = twin.shape, graph.value(op.outputs[0]).shape
    spread = prod(old[2:]) if twin.form is SECOND else 1
    flat_order = twin.form is ROWS or spread == 1  # the twin has the value's own element order
    if twin.form is SECOND and len(new) >= 3 and new[:2] == old[:2]:
        form = SECOND
    elif flat_order and len(new) >= 2 and new[-1] == twin.channels:
        form = ROWS
    elif flat_order:
        flat = twins.flat(op.inputs[0], twin.form, op)
        graph.replace_op(replace(op, inputs=(flat,)))
        return True
    else:
        return False
    flat = twins.flat(op.inputs[0], twin.form, op)
    graph.remove_op(op.id)
    return done(twins, op, form, [flat])


def _permute(twins: Twins, op: Op) -> bool:
    graph = twins.graph
    source = op.inputs[0]
    twin = twins.get(source)
    dims = permuted_dims(op)
    rank = len(dims)
    to_last, to_second = (0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))
    if twin is not None and twin.form is SECOND and dims == to_last:
        flat = twins.flat(source, SECOND, op)
        graph.remove_op(op.id)
        return done(twins, op, ROWS, [flat])
    if dims == to_second and (rank == 4 or (rank >= 3 and twin is not None and twin.form is ROWS)):
        if graph.is_static(source):
            return False
        if twin is not None and twin.form is ROWS:
            flat = twins.flat(source, ROWS, op)
            graph.remove_op(op.id)
            return done(twins, op, SECOND, [flat])
        twins.materialise(source)
        graph.remove_op(op.id)
        twins.add(op.outputs[0], SECOND, op, last=source)
        return True
    if twin is not None and twin.form is SECOND:
        last = twins.last(source, SECOND, op)
        composed = tuple(to_last.index(d) for d in dims)
        if list(composed) != sorted(composed):
            graph.replace_op(replace(op, inputs=(last,), attrs={"dims": composed}))
            return True
    return False


RULES: dict[str, Rule] = {
    "nchw.conv2d": _conv,
    "nchw.conv_transpose2d": _conv,
    "nchw.max_pool2d": _pool,
    "nchw.avg_pool2d": _pool,
    "nchw.upsample": _sampled,
    "nchw.grid_sample": _sampled,
    "nchw.batch_norm": _batch_norm,
    "nchw.group_norm": _group_norm,
    **{f"ttnn.{name}": _unary for name in (*UNARY, *UNARY_PARAMS, "typecast")},
    **{f"ttnn.{name}": _nary for name in (*BINARY, "where", "addcmul", "addcdiv", "lerp", "mac")},
    "ttnn.concat": _concat,
    "ttnn.slice": _slice,
    "ttnn.split": _split,
    "ttnn.pad": _pad,
    "ttnn.reshape": _reshape,
    "ttnn.permute": _permute,
    **ROW_RULES,
}


@partial(Pass, "channels-last")
def channels_last(graph: Graph) -> int:
    """NCHW to [1, 1, N*H*W, C]; counts the ops that now run channels-last."""
    twins = Twins(graph)
    rewrites = 0
    for op in graph.ops():
        rule = RULES.get(op.op)
        if rule is not None and rule(twins, op):
            rewrites += 1
            continue
        for value_id in op.inputs:
            twins.materialise(value_id)
    for value_id in graph.outputs:
        twins.materialise(value_id)
    return finish(graph, rewrites)
