"""Windows over three dims: TTNN's run over two, so the depth becomes batch and shifted frames are combined."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optimizer.errors import ShapeError
from optimizer.importers.onnx_lowering import STEPS_OF_AN_OP, Lowering, NotMappedError
from optimizer.importers.onnx_ops.computed import Array, places


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
        if min(depth.kernel, depth.stride, depth.dilation) < 1 or min(depth.before, depth.after) < 0 or depth.out < 1:
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
