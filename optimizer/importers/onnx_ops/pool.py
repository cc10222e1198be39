"""Pooling over one, two or three dims."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError
from optimizer.importers.onnx_node import BF16_MAX
from optimizer.importers.onnx_ops.computed import filled
from optimizer.importers.onnx_ops.conv import (
    Depth,
    frame_window,
    join_frames,
    lift,
    spatial,
    split_frames,
    taps,
    two,
    window,
)
from optimizer.ir.graph import Attr


def _window(ctx: Lowering, op: str, x: str | None = None, count_pad: bool | None = None) -> str:
    """One pooling op over the foreign operand, or over `x` of the same shape."""
    rank = spatial(ctx)
    x = lift(ctx, x or ctx.x(0), rank)
    attrs = window(ctx, x, two(ctx.attr("kernel_shape"), rank), rank) | {"ceil_mode": bool(ctx.attr("ceil_mode", 0))}
    out = ctx.out_shape()
    shape = (*ctx.vshape(x)[:2], *((1,) if rank == 1 else ()), *out[2:])
    if op == "nchw.avg_pool2d":
        attrs["count_include_pad"] = bool(ctx.attr("count_include_pad", 0)) if count_pad is None else count_pad
        if attrs["dilation"] != (1, 1):
            return ctx.reshape(_spread_average(ctx, x, attrs, shape), out)
    result = ctx.emit_raw(op, [x], attrs, [(shape, ctx.vdtype(x))])[0]
    return ctx.reshape(result, out)


def _spread_average(ctx: Lowering, x: str, attrs: dict[str, Attr], shape: tuple[int, ...]) -> str:
    """TTNN averages without dilation only: a depthwise convolution with equal weights."""
    padding = attrs["padding"]
    if attrs["ceil_mode"] or (not attrs["count_include_pad"] and padding != (0, 0, 0, 0)):
        raise NotMappedError("an average with dilation whose windows differ in size")
    kernel: Sequence[int] = attrs["kernel_size"]  # type: ignore[assignment]
    weights = filled(ctx, (shape[1], 1, *kernel), 1 / prod(kernel))
    names = ("kernel_size", "stride", "padding", "dilation")
    operands = [x, ctx.constant(weights, ctx.vdtype(x), "weights")]
    return ctx.emit_raw(
        "nchw.conv2d", operands, {**{n: attrs[n] for n in names}, "groups": shape[1]}, [(shape, ctx.vdtype(x))]
    )[0]


def max_pool(ctx: Lowering) -> list[str | None]:
    outputs = list(ctx.node.outputs)
    if len(outputs) > 1 and ctx.is_needed(outputs[1]):
        raise NotMappedError("MaxPool that returns indices")
    three = len(ctx.shape(0)) == 5
    result = _volume(ctx, "nchw.max_pool2d") if three else _window(ctx, "nchw.max_pool2d")
    return [result, *([None] * (len(outputs) - 1))]


def average_pool(ctx: Lowering) -> str:
    return _volume(ctx, "nchw.avg_pool2d") if len(ctx.shape(0)) == 5 else _window(ctx, "nchw.avg_pool2d")


def _volume(ctx: Lowering, op: str) -> str:
    """Each frame is pooled in two dims, then the frames of a window are put together."""
    depth = Depth.of(ctx)
    kernel = two(tuple((ctx.attr("kernel_shape") or (1, 1, 1))[1:]), 2)
    attrs = frame_window(ctx, kernel) | {"ceil_mode": False}
    if attrs["dilation"] != (1, 1) and op == "nchw.avg_pool2d":
        raise NotMappedError("three-dimensional average with dilation")
    frames = split_frames(ctx, ctx.x(0))
    n, c = ctx.vshape(frames)[:2]
    out = ctx.out_shape()
    if str(ctx.attr("auto_pad", "NOTSET")) not in ("NOTSET", "VALID") or ctx.attr("ceil_mode", 0):
        raise NotMappedError("three-dimensional window with automatic padding or ceil_mode")
    average = op == "nchw.avg_pool2d"
    counts_pad = bool(ctx.attr("count_include_pad", 0))
    if average:
        attrs["count_include_pad"] = counts_pad
    pooled = ctx.emit_raw(op, [frames], attrs, [((n, c, *out[3:]), ctx.vdtype(frames))])[0]
    x = join_frames(ctx, pooled, ctx.shape(0)[0])
    parts = taps(ctx, x, depth, 0.0 if average else -BF16_MAX)
    total = parts[0]
    for part in parts[1:]:
        total = ctx.emit("add" if average else "maximum", total, part)
    if average:
        counts = filled(ctx, (depth.out,), depth.kernel) if counts_pad else depth.counts(ctx)
        if not counts.all():
            raise NotMappedError("an average over a window of padding only")
        share = 1.0 / counts
        if len(set(share.tolist())) == 1:
            total = ctx.emit("multiply", total, scalar=float(share[0])) if share[0] != 1 else total
        else:
            factors = ctx.constant(share.reshape(1, -1, 1, 1, 1), ctx.vdtype(total), "shares")
            total = ctx.emit("multiply", total, factors)
    return ctx.permute(total, (0, 2, 1, 3, 4))


def global_pool(op: str) -> NodeMapping:
    def lower(ctx: Lowering) -> str:
        axes = tuple(range(2, len(ctx.shape(0))))
        return ctx.emit(op, ctx.x(0), dim=axes, keepdim=True)

    return lower


def _powered(ctx: Lowering, p: int) -> str:
    """|x|^p"""
    if p == 2:
        return ctx.emit("square", ctx.x(0))
    size = ctx.emit("abs", ctx.x(0))
    return size if p == 1 else ctx.emit("pow_scalar", size, exponent=float(p))


def _root(ctx: Lowering, x: str, p: int) -> str:
    if p == 1:
        return x
    return ctx.emit("sqrt", x) if p == 2 else ctx.emit("pow_scalar", x, exponent=1.0 / p)


def global_lp_pool(ctx: Lowering) -> str:
    p = int(ctx.attr("p", 2))
    axes = tuple(range(2, len(ctx.shape(0))))
    return _root(ctx, ctx.emit("sum", _powered(ctx, p), dim=axes, keepdim=True), p)


def lp_pool(ctx: Lowering) -> str:
    """The p-norm of each window: its mean power, times its size, to the power 1/p."""
    p = int(ctx.attr("p", 2))
    if ctx.attr("ceil_mode", 0):
        raise NotMappedError("LpPool with ceil_mode")
    mean = _window(ctx, "nchw.avg_pool2d", _powered(ctx, p), count_pad=True)
    total = ctx.emit("multiply", mean, scalar=float(prod(ctx.attr("kernel_shape"))))
    return _root(ctx, total, p)


OPS: dict[str, NodeMapping] = {
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "LpPool": lp_pool,
    "GlobalAveragePool": global_pool("mean"),
    "GlobalMaxPool": global_pool("max"),
    "GlobalLpPool": global_lp_pool,
}
