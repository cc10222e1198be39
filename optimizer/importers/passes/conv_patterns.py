"""What convolutions and pools absorb: explicit padding and per-channel scales, batch norms among them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from optimizer.importers.passes.channels_last_rules import batch_norm_factors
from optimizer.importers.passes.norm_patterns import channel_operand
from optimizer.importers.passes.rewriting import Pass, drop_dead, emit, finish, fuse, origins, rewrites_each
from optimizer.ir.graph import Graph, Op

_WINDOWS = ("nchw.conv2d", "nchw.max_pool2d", "nchw.avg_pool2d")
_CONVS = ("nchw.conv2d", "nchw.conv_transpose2d")
_PER_CHANNEL = {"ttnn.multiply": None, "ttnn.add": None, "ttnn.divide": "reciprocal", "ttnn.subtract": "neg"}
"""Ops that scale or shift channels -> what makes a factor or a summand of their second operand."""


@rewrites_each("pad", *_WINDOWS)
def pad_into_window(graph: Graph, op: Op) -> int:
    """Zero padding before a convolution or average pool (minus infinity before a max pool) becomes its own."""
    pad = graph.produced_by(op.inputs[0], "pad")
    if pad is None:
        return 0
    pairs = pad.attr("padding")
    value = float(pad.attrs.get("value", 0.0))  # type: ignore[arg-type]
    fits = value <= -1e30 if op.op == "nchw.max_pool2d" else value == 0
    if len(pairs) != 4 or pairs[0] != (0, 0) or pairs[1] != (0, 0) or not fits:
        return 0
    own = op.attr("padding")
    if op.op == "nchw.avg_pool2d" and any(own):
        return 0
    kernel = op.attr("kernel_size")
    if op.op != "nchw.conv2d" and any(2 * max(pairs[i + 2]) > kernel[i] for i in range(2)):
        return 0  # TTNN's pools take at most half a window of padding
    padding = (own[0] + pairs[2][0], own[1] + pairs[2][1], own[2] + pairs[3][0], own[3] + pairs[3][1])
    attrs = {**op.attrs, "padding": padding}
    if op.op == "nchw.avg_pool2d":
        attrs["count_include_pad"] = True
    inputs = (pad.inputs[0], *op.inputs[1:])
    graph.replace_op(replace(op, inputs=inputs, attrs=attrs, origin=origins([pad, op])))
    drop_dead(graph, [pad.id])
    return 1


@partial(Pass, "scale-into-batch-norm")
def scale_into_batch_norm(graph: Graph) -> int:
    """BatchNormalization -> Mul -> Add (caffe2 files): the factors join those of the norm."""
    rewrites = 0
    for op in graph.ops():
        while op.op == "nchw.batch_norm" and graph.has_op(op.id):
            following = graph.only_use(op.outputs[0])
            channel = channel_operand(graph, following, op.outputs[0]) if following is not None else None
            if following is None or channel is None or following.op not in ("ttnn.multiply", "ttnn.add"):
                break
            x, weight, bias, mean, variance = op.inputs
            row = emit(graph, following, "reshape", [channel], {"shape": graph.value(weight).shape})
            if following.op == "ttnn.multiply":
                weight = emit(graph, following, "multiply", [weight, row], {})
                bias = emit(graph, following, "multiply", [bias, row], {})
            else:
                bias = emit(graph, following, "add", [bias, row], {})
            op = fuse(graph, following, op, "nchw.batch_norm", [x, weight, bias, mean, variance], op.attrs, [])
            rewrites += 1
    return finish(graph, rewrites)


@partial(Pass, "conv-batch-norm")
def conv_batch_norm(graph: Graph) -> int:
    """conv -> batch norm, or conv -> per-channel Mul, Div, Add, Sub: the weights are scaled once, not on every run."""
    rewrites = 0
    for op in graph.ops():
        while op.op in _CONVS and graph.has_op(op.id):
            new = _absorbed(graph, op)
            if new is None:
                break
            op = new
            rewrites += 1
    return finish(graph, rewrites)


def _absorbed(graph: Graph, conv: Op) -> Op | None:
    following = graph.only_use(conv.outputs[0])
    if following is None or not all(graph.is_static(v) for v in conv.inputs[1:]):
        return None
    if conv.op == "nchw.conv_transpose2d" and conv.attrs["groups"] != 1:
        return None
    channels = graph.value(conv.outputs[0]).shape[1]
    scale: str | None = None
    shift: str | None = None
    if following.op == "nchw.batch_norm" and all(graph.is_static(v) for v in following.inputs[1:]):
        scale, shift = batch_norm_factors(graph, following)
    elif following.op in _PER_CHANNEL:
        channel = channel_operand(graph, following, conv.outputs[0])
        inverse = _PER_CHANNEL[following.op]
        if channel is None or (inverse is not None and following.inputs[0] != conv.outputs[0]):
            return None
        row = emit(graph, following, "reshape", [channel], {"shape": (channels,)})
        row = row if inverse is None else emit(graph, following, inverse, [row], {})
        scale, shift = (row, None) if following.op in ("ttnn.multiply", "ttnn.divide") else (None, row)
    else:
        return None
    operands = _scaled(graph, following, conv, scale, shift, channels)
    return fuse(graph, following, conv, conv.op, operands, conv.attrs, [])


def _scaled(graph: Graph, like: Op, conv: Op, scale: str | None, shift: str | None, channels: int) -> list[str]:
    x, weight = conv.inputs[:2]
    bias = conv.inputs[2] if len(conv.inputs) > 2 else None
    if scale is not None:
        column = (channels, 1, 1, 1) if conv.op == "nchw.conv2d" else (1, channels, 1, 1)
        spread = emit(graph, like, "reshape", [scale], {"shape": column})
        weight = emit(graph, like, "multiply", [weight, spread], {})
        bias = emit(graph, like, "multiply", [bias, scale], {}) if bias is not None else None
    if shift is not None:
        bias = emit(graph, like, "add", [bias, shift], {}) if bias is not None else shift
    return [x, weight, *([bias] if bias is not None else [])]
