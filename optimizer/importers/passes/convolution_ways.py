"""Other ways to compute a convolution that no config can run: in parts of its channels, or as a matmul of windows.

Parts of its groups, image and kernel are in `convolution_parts`. Each is a pass over one op of a finished graph, on
[1, 1, N*H*W, C]. They are no part of `passes()`: whether tt-metal runs a convolution depends on the board
(`optimizer.runnable`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import Any, ClassVar, Protocol

from optimizer.importers.passes.rewriting import emit, finish, reshape
from optimizer.ir.activations import FUSED_ACTIVATIONS
from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.tiling import TILE, round_up

MOST_TAPS = 256
"""Slices that the windows of one convolution are put together from."""


class Way(Protocol):
    """A rewrite of one convolution."""

    @property
    def name(self) -> str: ...

    def apply(self, graph: Graph) -> int:
        """Rewrite the op in place; 0 where the way is not open to it."""


@dataclass(frozen=True)
class _Windows:
    """The windows of a convolution over a padded image."""

    channels: int
    kh: int
    kw: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int

    @property
    def step(self) -> int:
        """Columns of the image that are taken as one."""
        return gcd(self.kw, self.stride_w) if self.dilation_w == 1 else 1

    @property
    def taps(self) -> int:
        """Slices that one window is put together from."""
        return self.kh * (self.kw // self.step)

    def out(self, height: int, width: int) -> tuple[int, int]:
        """Windows along both sides."""
        high = (height - self.dilation_h * (self.kh - 1) - 1) // self.stride_h + 1
        return high, (width - self.dilation_w * (self.kw - 1) - 1) // self.stride_w + 1

    def used(self, width: int) -> int:
        """Columns that any window sees, in whole steps."""
        _, wide = self.out(self.kh, width)
        return round_up((wide - 1) * self.stride_w + self.dilation_w * (self.kw - 1) + 1, self.step)

    def rows(self, graph: Graph, op: Op, image: str, size: tuple[int, int, int]) -> str:
        """A row per window, [1, 1, N*OH*OW, KH*KW*C], of an image [N, H, used, C]; `size`: N, H, W."""
        batch, height, width = size
        high, wide = self.out(height, width)
        depth, stride = self.channels * self.step, self.stride_w // self.step
        used = graph.value(image).shape[2]
        image = reshape(graph, op, image, (batch, height, used // self.step, depth))
        parts = []
        for y in range(0, self.kh * self.dilation_h, self.dilation_h):
            for x in range(0, self.kw // self.step * self.dilation_w, self.dilation_w):
                end = (batch, y + (high - 1) * self.stride_h + 1, x + (wide - 1) * stride + 1, depth)
                parts.append(cut(graph, op, image, (0, y, x, 0), end, (1, self.stride_h, stride, 1)))
        joined = parts[0] if len(parts) == 1 else emit(graph, op, "concat", parts, {"dim": 3})
        return reshape(graph, op, joined, (1, 1, batch * high * wide, self.kh * self.kw * self.channels))


@dataclass(frozen=True)
class UnfoldConvolution:
    """The windows side by side as rows [N*OH*OW, KH*KW*C], then one `ttnn.linear`.

    Steps along the width that stride and kernel share are one row of the image: a long kernel with a long stride then
    takes kernel / gcd(kernel, stride) slices.
    """

    op_id: str
    most_taps: int = MOST_TAPS
    name: ClassVar[str] = "unfold-convolution"

    def apply(self, graph: Graph) -> int:
        op = graph.op(self.op_id)
        a: dict[str, Any] = opdef(op.op).full_attrs(op)
        if op.op != "ttnn.conv2d" or a["groups"] != 1:
            return 0
        windows = _Windows(*graph.value(op.inputs[1]).shape[1:], *a["stride"], *a["dilation"])
        if windows.taps > self.most_taps:
            return 0
        (top, bottom, left, right), batch = a["padding"], a["batch_size"]
        height, width = a["input_height"], a["input_width"]
        used = windows.used(width + left + right)
        if used > width + left + right:
            return 0
        image = reshape(graph, op, op.inputs[0], (batch, height, width, windows.channels))
        if any((top, bottom, left, right)):
            padding = ((0, 0), (top, bottom), (left, right), (0, 0))
            image = emit(graph, op, "pad", [image], {"padding": padding, "value": 0.0})
        height, width = height + top + bottom, width + left + right
        if used < width:
            image = cut(graph, op, image, (0, 0, 0, 0), (batch, height, used, windows.channels))
        rows = windows.rows(graph, op, image, (batch, height, width))
        self._linear(graph, op, rows, (graph.value(op.inputs[1]).shape[0], windows.channels, windows.kh * windows.kw))
        return finish(graph, 1)

    def _linear(self, graph: Graph, op: Op, windows: str, shape: tuple[int, int, int]) -> None:
        """The product in the place of the convolution; columns of the windows are taps first, then channels."""
        results, channels, taps = shape
        weight = op.inputs[1]
        if channels > 1 and taps > 1:
            weight = emit(graph, op, "permute", [reshape(graph, op, weight, shape)], {"dims": (0, 2, 1)})
        operands = [windows, reshape(graph, op, weight, (results, taps * channels))]
        operands += [reshape(graph, op, v, (results,)) for v in op.inputs[2:]]
        activation = op.attrs.get("activation")
        fused = activation in FUSED_ACTIVATIONS
        attrs = {
            "transpose_b": True,
            "activation": activation if fused else None,
            "math_fidelity": op.attrs.get("math_fidelity"),
        }
        result = emit(graph, op, "linear", operands, attrs)
        if activation and not fused:
            result = emit(graph, op, str(activation), [result], {})
        put(graph, op, result)


@dataclass(frozen=True)
class SplitChannels:
    """Convolutions to parts of the output channels, joined side by side."""

    op_id: str
    parts: int
    name: ClassVar[str] = "split-channels"

    def apply(self, graph: Graph) -> int:
        op = graph.op(self.op_id)
        weight = graph.value(op.inputs[1]).shape
        results = weight[0]
        if op.op != "ttnn.conv2d" or op.attrs.get("groups", 1) != 1 or results <= TILE * (self.parts - 1):
            return 0
        each = round_up(-(-results // self.parts), TILE)  # parts of whole tiles are cut and joined without copies
        found = []
        for first, end in parted(results, each):
            operands = [op.inputs[0], *channels_of(graph, op, first, end)]
            found.append(emit(graph, op, "conv2d", operands, {**op.attrs, "out_channels": end - first}))
        put(graph, op, emit(graph, op, "concat", found, {"dim": 3}))
        return finish(graph, 1)


def parted(count: int, each: int) -> list[tuple[int, int]]:
    """(first, end) of parts of so many of `count` each, the last one smaller where they do not come out even."""
    return [(first, min(count, first + each)) for first in range(0, count, each)]


def channels_of(graph: Graph, op: Op, first: int, end: int) -> list[str]:
    """The weight and perhaps the bias that make some of a convolution's output channels."""
    weight = weight_rows(graph, op, op.inputs[1], first, end)
    return [weight, *(cut(graph, op, v, (0, 0, 0, first), (1, 1, 1, end)) for v in op.inputs[2:])]


def weight_rows(graph: Graph, op: Op, weight: str, first: int, end: int) -> str:
    """Output channels of a weight, cut out of a matrix."""
    shape = graph.value(weight).shape
    depth = shape[1] * shape[2] * shape[3]
    matrix = reshape(graph, op, weight, (shape[0], depth))
    return reshape(graph, op, cut(graph, op, matrix, (first, 0), (end, depth)), (end - first, *shape[1:]))


def cut(
    graph: Graph,
    op: Op,
    value: str,
    begins: tuple[int, ...],
    ends: tuple[int, ...],
    steps: tuple[int, ...] | None = None,
) -> str:
    """A slice; the value itself where that is all of it."""
    if begins == (0,) * len(begins) and ends == graph.value(value).shape and steps is None:
        return value
    attrs = {"begins": begins, "ends": ends, "steps": (1,) * len(begins) if steps is None else steps}
    return emit(graph, op, "slice", [value], attrs)


def put(graph: Graph, op: Op, result: str) -> None:
    """The result takes the place of the op's: its value, and so its name where the graph returns it."""
    maker = graph.producer(result)
    assert maker is not None
    graph.remove_op(op.id)
    graph.replace_op(replace(maker, outputs=op.outputs))
    del graph.values[result]
