"""Reductions, scans and selections along an axis."""

from __future__ import annotations

from optimizer.importers.onnx_lowering import Lowering, NodeMapping
from optimizer.importers.onnx_ops.computed import counting
from optimizer.importers.onnx_ops.selecting import full
from optimizer.ir.dtype import DType


def _axes(ctx: Lowering) -> tuple[int, ...] | None:
    """Reduced axes, non-negative; None when nothing is reduced."""
    rank = len(ctx.shape(0))
    axes = ctx.axes("axes", 1)
    if not axes:
        return None if ctx.attr("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted({ctx.axis(a, rank) for a in axes}))


def reduction(op: str, before: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> NodeMapping:
    """`after(op(before(x)))` over the node's axes."""

    def lower(ctx: Lowering) -> str:
        x = ctx.x(0)
        axes = _axes(ctx) if ctx.shape(0) else ()
        for name in before:
            x = ctx.emit(name, x)
        if axes:
            x = _reduce(ctx, op, x, axes)
        for name in after:
            x = ctx.emit(name, x)
        return x

    return lower


def _reduce(ctx: Lowering, op: str, x: str, axes: tuple[int, ...]) -> str:
    """One reduction. TTNN multiplies floats over one dim at a time and has no mean of integers."""
    keep, dtype = bool(ctx.attr("keepdims", 1)), ctx.vdtype(x)
    if op in ("prod", "mean") and not dtype.is_float:
        x = ctx.typecast(x, DType.F32)
    if op == "prod":
        for axis in reversed(axes):
            x = ctx.emit("prod", x, dim=axis, keepdim=keep)
    else:
        x = ctx.emit(op, x, dim=axes, keepdim=keep)
    return ctx.typecast(x, dtype)


def log_sum_exp(ctx: Lowering) -> str:
    axes = _axes(ctx)
    if not axes:
        return ctx.x(0)
    x = ctx.x(0)
    peak = ctx.emit("max", x, dim=axes, keepdim=True)
    total = ctx.emit("sum", ctx.emit("exp", ctx.emit("subtract", x, peak)), dim=axes, keepdim=True)
    return ctx.emit("add", ctx.emit("log", total), peak)  # the caller drops the dims of one


def arg_reduce(largest: bool) -> NodeMapping:
    def lower(ctx: Lowering) -> str:
        x = ctx.x(0)
        if not ctx.vdtype(x).is_float:
            x = ctx.typecast(x, DType.F32)
        if not largest:
            x = ctx.emit("neg", x)
        axis, keep = ctx.stated_axis(ctx.attr("axis", 0), len(ctx.vshape(x))), bool(ctx.attr("keepdims", 1))
        if ctx.attr("select_last_index", 0):
            return _last_maximum(ctx, x, axis, keep)
        return ctx.typecast(ctx.emit("argmax", x, dim=axis, keepdim=keep), DType.I32)

    return lower


def _last_maximum(ctx: Lowering, x: str, axis: int, keep: bool) -> str:
    """The largest index among those of the maxima, in integers."""
    shape = ctx.vshape(x)
    hits = ctx.emit("eq", x, ctx.emit("max", x, dim=(axis,), keepdim=True))
    steps = counting(ctx, shape[axis]).reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])
    places = ctx.emit("multiply", ctx.typecast(hits, DType.I32), ctx.constant(steps, DType.I32, "places"))
    return ctx.emit("max", places, dim=(axis,), keepdim=keep)


def top_k(ctx: Lowering) -> list[str]:
    count = int(ctx.need_const(1, "k").reshape(-1)[0]) if ctx.opset >= 10 else int(ctx.attr("k"))
    axis = ctx.stated_axis(ctx.attr("axis", -1), len(ctx.shape(0)))
    attrs = {"k": count, "dim": axis, "largest": bool(ctx.attr("largest", 1))}
    values, indices = ctx.emit_raw("ttnn.topk", [ctx.x(0)], attrs)
    return [values, ctx.typecast(indices, DType.I32)]


def cum_sum(ctx: Lowering) -> str:
    x = ctx.x(0)
    shape = ctx.vshape(x)
    axis = ctx.axis(ctx.need_const(1, "axis").reshape(-1)[0], len(shape))
    backwards = bool(ctx.attr("reverse", 0))
    if ctx.attr("exclusive", 0):  # the same sums, one element later
        zeros = full(ctx, (*shape[:axis], 1, *shape[axis + 1 :]), 0.0, ctx.vdtype(x))
        if shape[axis] == 1:
            return zeros
        kept = ctx.slice(x, axis, *((1, shape[axis]) if backwards else (0, shape[axis] - 1)))
        x = ctx.emit("concat", *([kept, zeros] if backwards else [zeros, kept]), dim=axis)
    attrs = {"reverse_order": True} if backwards else {}
    return ctx.emit("cumsum", x, dim=axis, **attrs)


OPS: dict[str, NodeMapping] = {
    "ReduceSum": reduction("sum"),
    "ReduceMean": reduction("mean"),
    "ReduceMax": reduction("max"),
    "ReduceMin": reduction("min"),
    "ReduceProd": reduction("prod"),
    "ReduceL1": reduction("sum", before=("abs",)),
    "ReduceL2": reduction("sum", before=("square",), after=("sqrt",)),
    "ReduceSumSquare": reduction("sum", before=("square",)),
    "ReduceLogSum": reduction("sum", after=("log",)),
    "ReduceLogSumExp": log_sum_exp,
    "ArgMax": arg_reduce(True),
    "ArgMin": arg_reduce(False),
    "TopK": top_k,
    "CumSum": cum_sum,
}
