"""Normalisations and softmax."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from optimizer.errors import GraphError, ShapeError
from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError
from optimizer.importers.onnx_ops.computed import counting
from optimizer.ir.dtype import DType
from optimizer.ir.shape_rules import broadcast

MAX_WINDOW = 64
"""Neighbouring channels that LRN adds up, one slice each."""


def along_axis(ctx: Lowering, act: Callable[[str, int], str]) -> str:
    """`act(value, axis)`; before opset 13 softmax and its relatives take the dims from `axis` on as one."""
    shape = ctx.vshape(ctx.x(0))
    rank = len(shape)
    axis = ctx.axis(ctx.attr("axis", -1 if ctx.opset >= 13 else 1), rank)
    if ctx.opset >= 13 or prod(shape[axis + 1 :]) == 1:
        return act(ctx.x(0), axis - rank)
    return ctx.reshape(act(ctx.reshape(ctx.x(0), (prod(shape[:axis]), prod(shape[axis:]))), -1), shape)


def softmax(ctx: Lowering) -> str:
    return along_axis(ctx, lambda x, axis: ctx.emit("softmax", x, dim=axis))


def log_softmax(ctx: Lowering) -> str:
    """x - max - log(sum(exp(x - max))): the logarithm of a softmax is infinite where that underflows."""

    def spelled_out(x: str, axis: int) -> str:
        shifted = ctx.emit("subtract", x, ctx.emit("max", x, dim=(axis,), keepdim=True))
        total = ctx.emit("sum", ctx.emit("exp", shifted), dim=(axis,), keepdim=True)
        return ctx.emit("subtract", shifted, ctx.emit("log", total))

    return along_axis(ctx, spelled_out)


def hardmax(ctx: Lowering) -> str:
    """One at the first maximum, zero elsewhere."""

    def first(x: str, axis: int) -> str:
        shape = ctx.vshape(x)
        index = ctx.typecast(ctx.emit("argmax", x, dim=axis, keepdim=True), DType.I32)
        steps = counting(ctx, shape[axis]).reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])
        hit = ctx.emit("eq", index, ctx.constant(steps, DType.I32, "places"))
        return ctx.typecast(hit, ctx.vdtype(x))

    return along_axis(ctx, first)


def layer_norm(ctx: Lowering) -> list[str | None]:
    axis = ctx.axis(ctx.attr("axis", -1), len(ctx.shape(0)))
    epsilon = float(ctx.attr("epsilon", 1e-5))
    operands = ctx.there(range(1, 3))
    result = over_tail(ctx, "layer_norm", ctx.x(0), axis, operands, epsilon)
    others = list(ctx.node.outputs)[1:]
    if not any(ctx.is_needed(v) for v in others):
        return [result, *[None] * len(others)]
    mean, deviation = statistics(ctx, ctx.x(0), tuple(range(axis, len(ctx.shape(0)))), epsilon)
    found: list[str | None] = [result, mean, deviation]
    return found[: 1 + len(others)]


def statistics(ctx: Lowering, x: str, axes: tuple[int, ...], epsilon: float) -> tuple[str, str]:
    """Mean and reciprocal standard deviation over `axes`, which stay as dims of one."""
    mean = ctx.emit("mean", x, dim=axes, keepdim=True)
    centred = ctx.emit("subtract", x, mean)
    variance = ctx.emit("mean", ctx.emit("square", centred), dim=axes, keepdim=True)
    return mean, ctx.emit("rsqrt", ctx.emit("add", variance, scalar=epsilon))


def rms_norm(ctx: Lowering) -> str:
    axis = ctx.axis(ctx.attr("axis", -1), len(ctx.shape(0)))
    operands = [ctx.x(1)] if ctx.has(1) else []
    return over_tail(ctx, "rms_norm", ctx.x(0), axis, operands, float(ctx.attr("epsilon", 1e-5)))


def over_tail(ctx: Lowering, op: str, x: str, axis: int, scales: list[str], epsilon: float) -> str:
    """Normalise the dims from `axis` on, as one dim."""
    shape = ctx.vshape(x)
    width = prod(shape[axis:])
    flat = ctx.reshape(x, (*shape[:axis], width))
    rows = []
    for scale in scales:
        if prod(ctx.vshape(scale)) not in (1, width):
            if broadcast(ctx.vshape(scale), shape) != shape:
                raise ShapeError(f"a scale of shape {list(ctx.vshape(scale))} for {list(shape)}")
            raise NotMappedError("scale that differs between rows")
        if prod(ctx.vshape(scale)) == 1 and width != 1:
            scale = ctx.emit("repeat", ctx.reshape(scale, (1,)), repeats=(width,))
        rows.append(ctx.reshape(scale, (width,)))
    return ctx.reshape(ctx.emit(op, flat, *rows, epsilon=epsilon), shape)


def batch_norm(ctx: Lowering) -> list[str | None]:
    outputs = list(ctx.node.outputs)
    if ctx.attr("training_mode", 0) or any(ctx.is_needed(v) for v in outputs[1:]):
        raise NotMappedError("BatchNormalization in training mode")
    shape = _with_channels(ctx)
    x = ctx.reshape(ctx.x(0), (*shape, *(1,) * (4 - len(shape))))
    operands = [x, *(ctx.x(i) for i in range(1, 5))]
    attrs = {"epsilon": float(ctx.attr("epsilon", 1e-5))}
    result = ctx.emit_raw("nchw.batch_norm", operands, attrs, [(ctx.vshape(x), ctx.vdtype(x))])
    return [ctx.reshape(result[0], shape)] + [None] * (len(outputs) - 1)


def _with_channels(ctx: Lowering) -> tuple[int, ...]:
    """The shape of operand 0, whose dim 1 are channels."""
    shape = ctx.vshape(ctx.x(0))
    if len(shape) < 2:
        raise ShapeError(f"input of shape {list(shape)} has no channels")
    return shape


def instance_norm(ctx: Lowering) -> str:
    shape = _with_channels(ctx)
    operands = [ctx.x(i) for i in range(3)]
    attrs = {"epsilon": float(ctx.attr("epsilon", 1e-5)), "num_groups": shape[1]}
    return ctx.emit_raw("nchw.group_norm", operands, attrs, [(shape, ctx.vdtype(operands[0]))])[0]


def group_norm(ctx: Lowering) -> str:
    x = ctx.x(0)
    shape = _with_channels(ctx)
    groups = int(ctx.attr("num_groups"))
    if shape[1] % groups:
        raise GraphError(f"attribute 'num_groups' {groups} does not divide {shape[1]} channels")
    scales = [ctx.x(1), ctx.x(2)]
    if prod(ctx.vshape(scales[0])) != shape[1]:  # opset 18 has one scale per group
        size = shape[1] // groups
        scales = [ctx.emit("repeat_interleave", s, repeats=size, dim=0) for s in scales]
    attrs = {"epsilon": float(ctx.attr("epsilon", 1e-5)), "num_groups": groups}
    return ctx.emit_raw("nchw.group_norm", [x, *scales], attrs, [(shape, ctx.vdtype(x))])[0]


def lrn(ctx: Lowering) -> str:
    size, alpha = int(ctx.attr("size")), float(ctx.attr("alpha", 1e-4))
    beta, bias = float(ctx.attr("beta", 0.75)), float(ctx.attr("bias", 1.0))
    x = ctx.x(0)
    shape = ctx.vshape(x)
    if len(shape) < 2:
        raise ShapeError(f"input of shape {list(shape)} has no channels")
    # channel c sees c - (size-1)//2 .. c + size//2; beyond the channels there are only zeros to add
    before, after = min((size - 1) // 2, shape[1] - 1), min(size // 2, shape[1] - 1)
    window = before + 1 + after
    if window > MAX_WINDOW:
        raise NotMappedError(f"a sum over {window} neighbouring channels")
    padding = tuple((before, after) if i == 1 else (0, 0) for i in range(len(shape)))
    padded = ctx.emit("pad", ctx.emit("square", x), padding=padding, value=0.0)
    total = ctx.slice(padded, 1, 0, shape[1])
    for k in range(1, window):
        total = ctx.emit("add", total, ctx.slice(padded, 1, k, k + shape[1]))
    scale = ctx.emit("add", ctx.emit("multiply", total, scalar=alpha / size), scalar=bias)
    return ctx.emit("multiply", x, ctx.emit("pow_scalar", scale, exponent=-beta))


SHORTEST = 1e-30
"""Added to lengths: of vectors that are zero nothing else is left, and any other has more than bf16 keeps of it."""


def lp_normalization(ctx: Lowering) -> str:
    x, p = ctx.x(0), int(ctx.attr("p", 2))
    axis = ctx.stated_axis(ctx.attr("axis", -1), len(ctx.vshape(x)))
    if p == 1:
        length = ctx.emit("sum", ctx.emit("abs", x), dim=(axis,), keepdim=True)
    else:
        length = ctx.emit("sqrt", ctx.emit("sum", ctx.emit("square", x), dim=(axis,), keepdim=True))
    return ctx.emit("divide", x, ctx.emit("add", length, scalar=SHORTEST))  # zeros stay zeros


def mean_variance_normalization(ctx: Lowering) -> str:
    x = ctx.x(0)
    axes = tuple(ctx.stated_axis(a, len(ctx.vshape(x))) for a in ctx.attr("axes", (0, 2, 3)))
    centred = ctx.emit("subtract", x, ctx.emit("mean", x, dim=axes, keepdim=True))
    variance = ctx.emit("mean", ctx.emit("square", centred), dim=axes, keepdim=True)
    deviation = ctx.emit("add", ctx.emit("sqrt", variance), scalar=1e-9)
    return ctx.emit("divide", centred, deviation)


OPS: dict[str, NodeMapping] = {
    "Softmax": softmax,
    "LogSoftmax": log_softmax,
    "Hardmax": hardmax,
    "LayerNormalization": layer_norm,
    "RMSNormalization": rms_norm,
    "BatchNormalization": batch_norm,
    "InstanceNormalization": instance_norm,
    "GroupNormalization": group_norm,
    "LRN": lrn,
    "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": mean_variance_normalization,
}
