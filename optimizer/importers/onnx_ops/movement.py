"""Shape changes and data movement."""

from __future__ import annotations

from typing import Literal

import numpy as np

from optimizer.errors import ShapeError
from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError
from optimizer.importers.onnx_ops.computed import bordered, counting, diagonal, triangle
from optimizer.importers.onnx_ops.selecting import MAX_CONSTANT, broadcast_to, full, select
from optimizer.ir.graph import Attr

MAX_MIRRORED = 64
"""Elements of mirrored border that are put together from single slices."""


def to_out_shape(ctx: Lowering) -> str:
    """Reshape, Flatten, Squeeze, Unsqueeze: the target is the inferred shape."""
    return ctx.reshape(ctx.x(0), ctx.out_shape() or (1,))


def transpose(ctx: Lowering) -> str:
    rank = len(ctx.shape(0))
    perm = ctx.attr("perm") or tuple(reversed(range(rank)))
    return ctx.permute(ctx.x(0), perm) if rank else ctx.x(0)


def concat(ctx: Lowering) -> str:
    rank = len(ctx.out_shape())
    axis = ctx.axis(ctx.attr("axis", 1), rank)
    inputs = [ctx.use(v) for v in ctx.node.inputs if v is not None and 0 not in (tuple(v.shape or ()))]
    return inputs[0] if len(inputs) == 1 else ctx.emit("concat", *inputs, dim=axis)


def split(ctx: Lowering) -> list[str]:
    shape = ctx.shape(0)
    axis = ctx.axis(ctx.attr("axis", 0), len(shape))
    sizes = tuple(v.shape[axis] for v in ctx.node.outputs if v.shape is not None)
    if len(sizes) == 1:
        return [ctx.x(0)]
    attrs: dict[str, Attr] = {"sizes": tuple(int(str(s)) for s in sizes), "dim": axis}
    return ctx.emit_raw("ttnn.split", [ctx.x(0)], attrs)


def slice_(ctx: Lowering) -> str:
    shape = ctx.shape(0)
    if ctx.opset < 10:
        starts, ends = ctx.attr("starts"), ctx.attr("ends")
        axes, steps = ctx.attr("axes"), None
    else:
        starts = ctx.need_const(1, "start").reshape(-1).tolist()
        ends = ctx.need_const(2, "end").reshape(-1).tolist()
        axes = ctx.need_const(3, "axis").reshape(-1).tolist() if ctx.has(3) else None
        steps = ctx.need_const(4, "step").reshape(-1).tolist() if ctx.has(4) else None
    axes = [ctx.axis(a, len(shape)) for a in (axes if axes is not None else range(len(starts)))]
    steps = [int(s) for s in (steps if steps is not None else [1] * len(starts))]
    begins, stops, strides = [0] * len(shape), list(shape), [1] * len(shape)
    reverse: list[int] = []
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        span = range(*slice(int(start), int(end), step).indices(shape[axis]))
        if len(span) == 0:
            raise NotMappedError("empty slice")
        if step < 0:
            reverse.append(axis)
            span = span[::-1]
        begins[axis], stops[axis], strides[axis] = span[0], span[-1] + 1, span.step
    if reverse:
        return _reversed(ctx, begins, stops, strides, reverse)
    if begins == [0] * len(shape) and tuple(stops) == shape and set(strides) == {1}:
        return ctx.x(0)
    return ctx.emit("slice", ctx.x(0), begins=tuple(begins), ends=tuple(stops), steps=tuple(strides))


def _reversed(ctx: Lowering, begins: list[int], ends: list[int], steps: list[int], axes: list[int]) -> str:
    """A slice with negative steps: the forward slice, then each axis turned."""
    x = ctx.emit("slice", ctx.x(0), begins=tuple(begins), ends=tuple(ends), steps=tuple(steps))
    for axis in axes:
        x = select(ctx, x, axis, counting(ctx, ctx.vshape(x)[axis])[::-1])
    return x


def expand(ctx: Lowering) -> str:
    return broadcast_to(ctx, ctx.x(0), ctx.shape(0), ctx.out_shape())


def tile(ctx: Lowering) -> str:
    repeats = tuple(int(r) for r in ctx.need_const(1, "repeats").reshape(-1))
    if len(repeats) != len(ctx.shape(0)):
        raise ShapeError(f"{len(repeats)} repeats of a tensor of rank {len(ctx.shape(0))}")
    return ctx.x(0) if set(repeats) <= {1} else ctx.emit("repeat", ctx.x(0), repeats=repeats)


def pad(ctx: Lowering) -> str:
    rank = len(ctx.shape(0))
    mode = ctx.attr("mode", "constant")
    if ctx.opset < 11:
        amounts = [int(p) for p in (ctx.attr("pads") or ctx.attr("paddings"))]
        value: float | int | None = float(ctx.attr("value", 0.0))
    else:
        amounts = [int(p) for p in ctx.need_const(1, "padding").reshape(-1)]
        value = ctx.scalar(ctx.input(2), rank) if ctx.has(2) else 0.0
    axes = [ctx.axis(a, rank) for a in ctx.need_const(3, "axes").reshape(-1)] if ctx.has(3) else list(range(rank))
    pairs = [(0, 0)] * rank
    for i, axis in enumerate(axes):
        pairs[axis] = (amounts[i], amounts[i + len(axes)])
    x = crop(ctx, ctx.x(0), pairs)
    pairs = [(max(lo, 0), max(hi, 0)) for lo, hi in pairs]
    if all(p == (0, 0) for p in pairs):
        return x
    if mode != "constant":
        return _mirror(ctx, x, pairs, mode)
    if value is None:
        return _pad_with(ctx, x, pairs, ctx.x(2))
    return ctx.emit("pad", x, padding=tuple(pairs), value=value)


def crop(ctx: Lowering, x: str, pairs: list[tuple[int, int]]) -> str:
    """Cut off what negative amounts of padding take away."""
    for axis, (lo, hi) in enumerate(pairs):
        if lo < 0 or hi < 0:
            x = ctx.slice(x, axis, max(0, -lo), ctx.vshape(x)[axis] - max(0, -hi))
    return x


def _pad_with(ctx: Lowering, x: str, pairs: list[tuple[int, int]], value: str) -> str:
    """Padding by a number that is computed: repeated to the borders and put around."""
    for axis, (lo, hi) in enumerate(pairs):
        shape = ctx.vshape(x)
        border = [broadcast_to(ctx, value, (1,), (*shape[:axis], n, *shape[axis + 1 :])) if n else "" for n in (lo, hi)]
        if lo + hi:
            x = ctx.emit("concat", *[v for v in (border[0], x, border[1]) if v], dim=axis)
    return x


def _mirror(ctx: Lowering, x: str, pairs: list[tuple[int, int]], mode: Literal["reflect", "edge", "wrap"]) -> str:
    """Padding by reflection, edge or wrap: slices of the axis around it, or all of it as chosen rows."""
    for axis, (lo, hi) in enumerate(pairs):
        if lo + hi == 0:
            continue
        size = ctx.vshape(x)[axis]
        index = bordered(ctx, size, lo, hi, mode)
        if lo + hi > MAX_MIRRORED:
            x = select(ctx, x, axis, index)
            continue
        before = [ctx.slice(x, axis, int(i), int(i) + 1) for i in index[:lo]]
        after = [ctx.slice(x, axis, int(i), int(i) + 1) for i in index[lo + size :]]
        x = ctx.emit("concat", *before, x, *after, dim=axis)
    return x


def center_crop_pad(ctx: Lowering) -> str:
    source, target = ctx.shape(0), ctx.out_shape()
    missing = [t - s for s, t in zip(source, target, strict=True)]
    # what is left over when halving goes to the end when padding, and is cut from the end when cropping
    pairs = [(m // 2, m - m // 2) if m >= 0 else (-(-m // 2), -(-m - -m // 2)) for m in missing]
    x = crop(ctx, ctx.x(0), pairs)
    pairs = [(max(lo, 0), max(hi, 0)) for lo, hi in pairs]
    return x if all(p == (0, 0) for p in pairs) else ctx.emit("pad", x, padding=tuple(pairs), value=0.0)


def constant_of_shape(ctx: Lowering) -> str:
    value = ctx.attr("value")
    number = ctx.number(value.reshape(-1)[0]) if value is not None else 0.0
    dtype = ctx.dtype(ctx.node.outputs[0])
    return ctx.emit("full", shape=ctx.out_shape() or (1,), value=number, dtype=dtype.value)


def range_(ctx: Lowering) -> str:
    start, end, step = (ctx.number(ctx.need_const(i, "range").reshape(-1)[0]) for i in range(3))
    dtype = ctx.dtype(ctx.node.outputs[0])
    if all(float(v).is_integer() for v in (start, end, step)):
        return ctx.emit("arange", start=int(start), end=int(end), step=int(step), dtype=dtype.value)
    # TTNN counts in integers only
    steps = ctx.emit("arange", start=0, end=ctx.out_shape()[0], step=1, dtype=dtype.value)
    return ctx.emit("add", ctx.emit("multiply", steps, scalar=step), scalar=start)


def trilu(ctx: Lowering) -> str:
    k = int(ctx.need_const(1, "k").reshape(-1)[0]) if ctx.has(1) else 0
    shape = ctx.shape(0)
    rows, columns = shape[-2:]
    upper = bool(ctx.attr("upper", 1))
    if rows * columns > MAX_CONSTANT:
        return ctx.emit("triu" if upper else "tril", ctx.x(0), diagonal=k)
    mask = triangle(ctx, rows, columns, k - 1 if upper else k) != upper
    dtype = ctx.vdtype(ctx.x(0))
    condition = ctx.constant(mask.reshape((1,) * (len(shape) - 2) + mask.shape), dtype, "triangle")
    return ctx.emit("where", condition, ctx.x(0), y=0.0)


def eye_like(ctx: Lowering) -> str:
    rows, columns = ctx.out_shape()
    dtype, k = ctx.dtype(ctx.node.outputs[0]), int(ctx.attr("k", 0))
    if rows * columns <= MAX_CONSTANT:
        return ctx.constant(diagonal(ctx, rows, columns, k), dtype, "eye")
    ones = full(ctx, (rows, columns), 1.0, dtype)
    return ctx.emit("tril", ctx.emit("triu", ones, diagonal=k), diagonal=k)


def constant(ctx: Lowering) -> str:
    """A constant that the model returns as it is."""
    array = ctx.attr("value")
    if array is None:
        given = [ctx.attr(name) for name in ("value_int", "value_ints", "value_float", "value_floats")]
        found = next((v for v in given if v is not None), None)
        if found is None:
            raise NotMappedError("a constant of strings or in sparse form")
        array = np.asarray(found)
    return ctx.constant(np.asarray(array).reshape(ctx.out_shape()), ctx.dtype(ctx.node.outputs[0]), "value")


OPS: dict[str, NodeMapping] = {
    "Reshape": to_out_shape,
    "Flatten": to_out_shape,
    "Squeeze": to_out_shape,
    "Unsqueeze": to_out_shape,
    "Transpose": transpose,
    "Concat": concat,
    "Split": split,
    "Slice": slice_,
    "Expand": expand,
    "Tile": tile,
    "Pad": pad,
    "ConstantOfShape": constant_of_shape,
    "Range": range_,
    "Trilu": trilu,
    "EyeLike": eye_like,
    "Constant": constant,
    "CenterCropPad": center_crop_pad,
}
