"""Convolutions; one- and three-dimensional ones run as two-dimensional ones.

Windows over three dims: TTNN's run over two, so the depth becomes batch and shifted frames are combined.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from optimizer.errors import ShapeError
from optimizer.importers.onnx_lowering import STEPS_OF_AN_OP, Lowering, NodeMapping, NotMappedError, Shape
from optimizer.importers.onnx_ops.computed import Array, places
from optimizer.ir.graph import Attr


@dataclass(frozen=True)
class Depth:
    """How a window moves over the first of three dims."""

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int

    @classmethod
    def of(cls, ctx: Lowering, kernel: int | None = None) -> Depth:
        """From the current node's attributes; `kernel` for ops that take it from their weight."""
        if str(ctx.attr("auto_pad", "NOTSET")) not in ("NOTSET", "VALID"):
            raise NotMappedError("three-dimensional window with automatic padding")
        given = ctx.attr("pads") or (0,) * 6
        one = (1, 1, 1)
        depth = cls(
            size=ctx.shape(0)[2],
            kernel=kernel or int(ctx.attr("kernel_shape", one)[0]),
            stride=int((ctx.attr("strides") or one)[0]),
            dilation=int((ctx.attr("dilations") or one)[0]),
            before=int(given[0]),
            after=int(given[3]),
        )
        if depth.out < 1:
            raise ShapeError(
                f"a window of {depth.kernel} in steps of {depth.stride}, {depth.dilation} apart, does not fit into "
                f"{depth.size} frames with {depth.before} before and {depth.after} after them"
            )
        ctx.budget.work(ctx.label, STEPS_OF_AN_OP * depth.kernel)
        return depth

    @property
    def out(self) -> int:
        span = self.size + self.before + self.after - self.dilation * (self.kernel - 1) - 1
        return span // self.stride + 1

    def counts(self, ctx: Lowering) -> Array:
        """Frames of the input in each window."""
        window, frame = places(ctx, (self.out, self.kernel)).reshape(2, self.out, self.kernel)
        seen = window * self.stride - self.before + frame * self.dilation
        return np.asarray(((seen >= 0) & (seen < self.size)).sum(axis=1))


def split_frames(ctx: Lowering, x: str) -> str:
    """[N, C, D, H, W] to [N*D, C, H, W]."""
    n, c, d, h, w = ctx.vshape(x)
    return ctx.reshape(ctx.permute(x, (0, 2, 1, 3, 4)), (n * d, c, h, w))


def join_frames(ctx: Lowering, frames: str, batch: int) -> str:
    """[N*D, C, H, W] to [N, D, C, H, W]."""
    total, *rest = ctx.vshape(frames)
    return ctx.reshape(frames, (batch, total // batch, *rest))


def taps(ctx: Lowering, x: str, depth: Depth, fill: float) -> list[str]:
    """The frames [N, OD, C, H, W] that each place of the kernel sees, of x [N, D, C, H, W]."""
    if depth.before or depth.after:
        padding = ((0, 0), (depth.before, depth.after), (0, 0), (0, 0), (0, 0))
        x = ctx.emit("pad", x, padding=padding, value=fill)
    last = (depth.out - 1) * depth.stride + 1
    begins = [k * depth.dilation for k in range(depth.kernel)]
    return [ctx.slice(x, 1, begin, begin + last, depth.stride) for begin in begins]


Pads = tuple[int, int, int, int]
"""Top, bottom, left, right."""


def two(values: tuple[int, ...] | None, rank: int, default: int = 1) -> tuple[int, int]:
    """A per-dimension attribute as (height, width)."""
    given = tuple(int(v) for v in values) if values else (default,) * rank
    if len(given) != rank:
        raise ShapeError(f"{list(given)} does not give one number for each of {rank} dimensions")
    return (default, given[0]) if rank == 1 else (given[0], given[1])


def pads(ctx: Lowering, size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int],
         dilation: tuple[int, int], rank: int) -> Pads:  # fmt: skip
    """Explicit or automatic padding of a window op."""
    auto = ctx.attr("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        found: list[int] = []
        for i, s, k, d in zip(size, stride, kernel, dilation, strict=True):
            total = max(0, (-(-i // s) - 1) * s + (k - 1) * d + 1 - i)
            low = total // 2 if auto == "SAME_UPPER" else total - total // 2
            found += [low, total - low]
        return (found[0], found[1], found[2], found[3])
    given = ctx.attr("pads") or (0,) * (2 * rank)
    if auto == "VALID":
        given = (0,) * (2 * rank)
    if len(given) != 2 * rank:
        raise ShapeError(f"attribute 'pads' {list(given)} does not give {2 * rank} numbers")
    if rank == 1:
        return (0, 0, int(given[0]), int(given[1]))
    return (int(given[0]), int(given[2]), int(given[1]), int(given[3]))


def spatial(ctx: Lowering) -> int:
    rank = len(ctx.shape(0)) - 2
    if rank not in (1, 2):
        raise NotMappedError(f"{rank}-dimensional window")
    return rank


def lift(ctx: Lowering, value_id: str, rank: int) -> str:
    """[N, C, L] to [N, C, 1, L]."""
    if rank == 2:
        return value_id
    n, c, length = ctx.vshape(value_id)
    return ctx.reshape(value_id, (n, c, 1, length))


def conv(ctx: Lowering) -> str:
    return convolve(ctx, ctx.there(range(3)))


def convolve(ctx: Lowering, operands: list[str]) -> str:
    """The current node's convolution of input, weight and perhaps bias."""
    _check_weights(ctx, operands[1:])
    if len(ctx.vshape(operands[0])) == 5:
        return _volume(ctx, operands)
    rank = spatial(ctx)
    x, weight = (lift(ctx, v, rank) for v in operands[:2])
    cout, _, kh, kw = ctx.vshape(weight)
    attrs = window(ctx, x, (kh, kw), rank) | _groups(ctx)
    return _emit(ctx, "nchw.conv2d", [x, weight, *operands[2:]], attrs, (ctx.vshape(x)[0], cout), rank)


def _volume(ctx: Lowering, operands: list[str]) -> str:
    """The frames that the depth of the kernel sees side by side as channels: one convolution over two dims."""
    cout, per_group, kd, kh, kw = ctx.vshape(operands[1])
    depth, groups = Depth.of(ctx, kd), int(ctx.attr("group", 1))
    frames = ctx.permute(operands[0], (0, 2, 1, 3, 4))
    n, _, c, height, width = ctx.vshape(frames)
    flat = (n * depth.out, c, height, width)
    parts = [ctx.reshape(part, flat) for part in taps(ctx, frames, depth, 0.0)]
    if kd > 1:  # channels of one group must lie together
        parts = [ctx.reshape(part, (n * depth.out, groups, per_group, height, width)) for part in parts]
        joined = ctx.emit("concat", *parts, dim=2)
        x = ctx.reshape(joined, (n * depth.out, c * kd, height, width))
    else:
        x = parts[0]
    weight = ctx.reshape(ctx.permute(operands[1], (0, 2, 1, 3, 4)), (cout, kd * per_group, kh, kw))
    results = [((n * depth.out, cout, *ctx.out_shape()[3:]), ctx.vdtype(x))]
    attrs = frame_window(ctx, (kh, kw)) | _groups(ctx)
    result = ctx.emit_raw("nchw.conv2d", [x, weight, *operands[2:]], attrs, results)[0]
    return ctx.permute(join_frames(ctx, result, n), (0, 2, 1, 3, 4))


def window(ctx: Lowering, x: str, kernel: tuple[int, int], rank: int) -> dict[str, Attr]:
    """How the current node's window moves over `x` [N, C, H, W]."""
    height, width = ctx.vshape(x)[2:]
    stride, dilation = two(ctx.attr("strides"), rank), two(ctx.attr("dilations"), rank)
    padding = pads(ctx, (height, width), kernel, stride, dilation, rank)
    return {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}


def frame_window(ctx: Lowering, kernel: tuple[int, int]) -> dict[str, Attr]:
    """How it moves over the last two of three dims."""
    given, one = ctx.attr("pads") or (0,) * 6, (1, 1, 1)
    stride, dilation = (two(tuple((ctx.attr(name) or one)[1:]), 2) for name in ("strides", "dilations"))
    padding = (int(given[1]), int(given[4]), int(given[2]), int(given[5]))
    return {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}


def _groups(ctx: Lowering) -> dict[str, Attr]:
    return {"groups": int(ctx.attr("group", 1))}


def _check_weights(ctx: Lowering, weights: list[str]) -> None:
    kernel, stated = ctx.vshape(weights[0])[2:], ctx.attr("kernel_shape")
    if stated and tuple(stated) != kernel:
        raise ShapeError(f"attribute 'kernel_shape' {list(stated)} for weights of a kernel of {list(kernel)}")
    if not all(ctx.is_static(v) for v in weights):
        raise NotMappedError("weights that are computed at run time; TTNN prepares them once, on the host")


def conv_transpose(ctx: Lowering) -> str:
    _check_weights(ctx, ctx.there((1, 2)))
    if len(ctx.shape(0)) == 5:
        return _flat_volume_transpose(ctx)
    rank = spatial(ctx)
    x, weight = lift(ctx, ctx.x(0), rank), lift(ctx, ctx.x(1), rank)
    n, _, height, width = ctx.vshape(x)
    _, cout, kh, kw = ctx.vshape(weight)
    groups = int(ctx.attr("group", 1))
    stride, dilation = two(ctx.attr("strides"), rank), two(ctx.attr("dilations"), rank)
    extra = two(ctx.attr("output_padding"), rank, 0)
    if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True) if e):
        raise ShapeError(f"attribute 'output_padding' {list(extra)} is not below the strides or dilations")
    padding = _transpose_pads(ctx, (height, width), (kh, kw), stride, dilation, extra, rank)
    sizes: dict[str, Attr] = {"kernel_size": (kh, kw), "stride": stride, "padding": padding, "dilation": dilation}
    attrs = {**sizes, "groups": groups, "output_padding": extra}
    operands = [x, weight, *ctx.there((2,))]
    return _emit(ctx, "nchw.conv_transpose2d", operands, attrs, (n, cout * groups), rank)


def _flat_volume_transpose(ctx: Lowering) -> str:
    """A transposed convolution whose kernel sees one frame at a time."""
    _, per_group, kd, kh, kw = ctx.shape(1)
    depth = Depth.of(ctx, kd)
    extra = tuple(ctx.attr("output_padding") or (0, 0, 0))
    if (kd, depth.stride, depth.before, depth.after, extra[0]) != (1, 1, 0, 0, 0) or ctx.attr("output_shape"):
        raise NotMappedError("a transposed convolution over the depth of three dims")
    frames, groups = split_frames(ctx, ctx.x(0)), int(ctx.attr("group", 1))
    attrs = {**frame_window(ctx, (kh, kw)), "groups": groups, "output_padding": two(extra[1:], 2, 0)}
    weight = ctx.reshape(ctx.x(1), (ctx.shape(1)[0], per_group, kh, kw))
    operands = [frames, weight, *ctx.there((2,))]
    shape = (ctx.vshape(frames)[0], per_group * groups, *ctx.out_shape()[3:])
    result = ctx.emit_raw("nchw.conv_transpose2d", operands, attrs, [(shape, ctx.vdtype(frames))])[0]
    return ctx.permute(join_frames(ctx, result, ctx.shape(0)[0]), (0, 2, 1, 3, 4))


def _transpose_pads(ctx: Lowering, size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int],
                    dilation: tuple[int, int], extra: tuple[int, int], rank: int) -> Pads:  # fmt: skip
    auto = ctx.attr("auto_pad", "NOTSET")
    stated = ctx.attr("output_shape")
    if auto not in ("SAME_UPPER", "SAME_LOWER") and stated is None:
        return pads(ctx, size, kernel, stride, dilation, rank)
    want = two(stated, rank) if stated else (size[0] * stride[0], size[1] * stride[1])
    found: list[int] = []
    for i, s, k, d, e, o in zip(size, stride, kernel, dilation, extra, want, strict=True):
        total = (i - 1) * s + d * (k - 1) + e + 1 - o
        if total < 0:
            raise NotMappedError("output_shape needs negative padding")
        low = total // 2 if auto == "SAME_UPPER" else total - total // 2
        found += [low, total - low]
    return (found[0], found[1], found[2], found[3])


def _emit(ctx: Lowering, op: str, operands: list[str], attrs: dict[str, Attr], lead: tuple[int, int], rank: int) -> str:
    out: Shape = ctx.out_shape()
    shape = (*lead, *((1,) if rank == 1 else ()), *out[2:])
    if prod(shape) != prod(out):
        raise NotMappedError("channels of weight and result differ")
    result = ctx.emit_raw(op, operands, attrs, [(shape, ctx.vdtype(operands[0]))])[0]
    return ctx.reshape(result, out)


OPS: dict[str, NodeMapping] = {"Conv": conv, "ConvTranspose": conv_transpose}
