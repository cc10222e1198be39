"""Pixel shuffles: channels of a convolution that become pixels, without moving single elements.

A convolution to C*r*s channels, of which each pixel makes r*s pixels of C channels (ONNX DepthToSpace in both modes,
PixelShuffle), is a transposed convolution (Shi et al. 2016, "Is the deconvolution layer the same as a convolutional
layer?"). With its channels in another order, which its weights decide, it moves whole rows of pixels instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from optimizer.families.elementwise.rows import UNARY, UNARY_PARAMS
from optimizer.importers.passes.convolution_ways import cut, put
from optimizer.importers.passes.movement import Factors, Step, step_of
from optimizer.importers.passes.rewriting import Shape, emit, finish, permute, reshape
from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import CONV2D, opdef
from optimizer.rewrites.way import Site

_SINGLE = frozenset((*UNARY, *UNARY_PARAMS))
MOST_TAPS = 25
"""Of kernels that are turned around tap by tap."""


@dataclass(frozen=True)
class Shuffle:
    """What becomes of a convolution's result."""

    ops: tuple[Op, ...]
    """Reshapes, permutes and functions of single elements behind it, in order."""
    channels: tuple[int, ...]
    """Sizes of what the channels are made of, outermost first."""
    order: tuple[int, int, int]
    """Which of these are rows, columns and channels of a pixel."""
    planes: bool
    """Whether the result is [N, C, H, W]; else pixel by pixel."""

    @property
    def factors(self) -> tuple[int, int]:
        """Rows and columns that one pixel makes."""
        return self.channels[self.order[0]], self.channels[self.order[1]]

    @staticmethod
    def of(graph: Graph, conv: Op) -> Shuffle | None:
        """The longest one behind a convolution; None if there is none."""
        found, ops, value = None, list[Op](), conv.outputs[0]
        followed = Factors(graph.value(value).shape)
        while (op := graph.only_use(value)) is not None:
            step = _step(op)
            if step is None and not (op.op.removeprefix("ttnn.") in _SINGLE and len(op.inputs) == 1):
                break
            if step is not None and not followed.apply(step):
                break
            ops.append(op)
            value = op.outputs[0]
            found = _recognised(graph, conv, ops, followed) or found
        return found


def _step(op: Op) -> Step | None:
    return step_of(op) if op.op in ("ttnn.reshape", "ttnn.permute") else None


def _recognised(graph: Graph, conv: Op, ops: list[Op], followed: Factors) -> Shuffle | None:
    pixels = prod(graph.value(conv.outputs[0]).shape[:-1])
    root, sequence, sizes = list(followed.root), [f for dim in followed.dims for f in dim], followed.sizes
    held, seen = 0, 1
    while seen < pixels:
        seen *= sizes[root[held]]
        held += 1
    rows, parts = root[:held], root[held:]
    if seen != pixels or len(rows) < 2 or len(parts) not in (2, 3):
        return None
    column, lines = rows[-1], rows[:-1]
    for high in parts:
        for wide in parts:
            rest = [f for f in parts if f not in (high, wide)]
            if high == wide or len(rest) != len(parts) - 2:
                continue
            pixelwise = [*lines, high, column, wide, *rest]
            images = [*lines[:-1], *rest, lines[-1], high, column, wide]
            if sequence not in (pixelwise, images):
                continue
            shape = graph.value(ops[-1].outputs[0]).shape
            planes = _is_planes(graph, conv, shape, sizes[high], sizes[wide])
            if (sequence == images and not planes) or (sequence == pixelwise and planes and rest):
                continue
            channels = tuple(sizes[f] for f in parts) + (() if rest else (1,))
            order = (parts.index(high), parts.index(wide), parts.index(rest[0]) if rest else 2)
            return Shuffle(tuple(ops), channels, order, planes)
    return None


def _is_planes(graph: Graph, conv: Op, shape: Shape, high: int, wide: int) -> bool:
    batch, lines, columns = _made(conv)
    depth = graph.value(conv.outputs[0]).shape[-1] // (high * wide)
    return shape == (batch, depth, lines * high, columns * wide)


def _made(conv: Op) -> tuple[int, int, int]:
    """Images, rows and columns of a convolution's result."""
    a: dict[str, Any] = opdef(conv.op).full_attrs(conv)
    size = (a["input_height"], a["input_width"])
    out = [
        (size[k] + a["padding"][2 * k] + a["padding"][2 * k + 1] - a["dilation"][k] * (a["kernel_size"][k] - 1) - 1)
        // a["stride"][k] + 1
        for k in (0, 1)
    ]  # fmt: skip
    return a["batch_size"], out[0], out[1]


@dataclass(frozen=True)
class ShuffleRows:
    """The convolution's channels in the order rows, columns, channels: then rows of pixels are moved as they are."""

    op_id: str
    name: ClassVar[str] = "shuffle-rows"

    def apply(self, graph: Graph) -> int:
        conv = graph.op(self.op_id)
        shuffle = Shuffle.of(graph, conv)
        if shuffle is None:
            return 0
        (high, wide), depth = shuffle.factors, shuffle.channels[shuffle.order[2]]
        weight, batch = conv.inputs[1], _made(conv)[0]
        shape = graph.value(weight).shape
        taps = prod(shape[1:])
        ordered = reshape(graph, conv, weight, (*shuffle.channels, taps))
        ordered = reshape(graph, conv, permute(graph, conv, ordered, (*shuffle.order, 3)), shape)
        operands = [conv.inputs[0], ordered]
        operands += [_ordered_bias(graph, conv, v, shuffle) for v in conv.inputs[2:]]
        made = emit(graph, conv, "conv2d", operands, conv.attrs)
        _, lines, columns = _made(conv)
        made = reshape(graph, conv, made, (batch * lines, columns, high, wide * depth))
        made = permute(graph, conv, made, (0, 2, 1, 3))
        made = reshape(graph, conv, made, (1, 1, batch * lines * high * columns * wide, depth))
        return _ended(graph, conv, shuffle, made)


def _ordered_bias(graph: Graph, conv: Op, bias: str, shuffle: Shuffle) -> str:
    shape = graph.value(bias).shape
    ordered = permute(graph, conv, reshape(graph, conv, bias, shuffle.channels), shuffle.order)
    return reshape(graph, conv, ordered, shape)


def _ended(graph: Graph, conv: Op, shuffle: Shuffle, made: str) -> int:
    """The functions of single elements on pixels one behind the other, then images where those were made."""
    for op in shuffle.ops:
        if _step(op) is None:
            made = emit(graph, op, op.op.removeprefix("ttnn."), [made], op.attrs)
    last, (batch, lines, columns) = shuffle.ops[-1], _made(conv)
    high, wide = shuffle.factors
    shape = graph.value(last.outputs[0]).shape
    if shuffle.planes:
        made = reshape(graph, last, made, (batch, lines * high, columns * wide, shape[1]))
        made = permute(graph, last, made, (0, 3, 1, 2))
    put(graph, last, reshape(graph, last, made, shape))
    return finish(graph, 1)


@dataclass(frozen=True)
class TransposeConvolution:
    """One transposed convolution: stride r, a kernel r times as long, its taps from the last to the first.

    Result r*h + i sees input h + t - p (tap t of k, padding p) by tap i + r * (k - 1 - t) of a kernel of r*k taps with
    padding r * (k - 1 - p).
    """

    op_id: str
    name: ClassVar[str] = "transpose-convolution"

    def apply(self, graph: Graph) -> int:
        conv = graph.op(self.op_id)
        a: dict[str, Any] = opdef(conv.op).full_attrs(conv)
        kernel, padding = a["kernel_size"], a["padding"]
        plain = a["stride"] == (1, 1) and a["dilation"] == (1, 1) and a["groups"] == 1
        inside = all(padding[k] <= kernel[k // 2] - 1 for k in range(4))
        shuffle = Shuffle.of(graph, conv) if plain and inside and prod(kernel) <= MOST_TAPS else None
        if shuffle is None:
            return 0
        (high, wide), depth = shuffle.factors, shuffle.channels[shuffle.order[2]]
        operands = [conv.inputs[0], self._weight(graph, conv, shuffle)]
        activation = conv.attrs.get("activation") if len(conv.inputs) > 2 else None
        factors = (high, high, wide, wide)
        attrs = {
            **conv.attrs,
            "activation": None if activation else conv.attrs.get("activation"),
            "kernel_size": (high * kernel[0], wide * kernel[1]),
            "stride": (high, wide),
            "padding": tuple(r * (kernel[k // 2] - 1 - padding[k]) for k, r in enumerate(factors)),
            "out_channels": depth,
            "output_padding": (0, 0),
        }
        made = emit(graph, conv, "conv_transpose2d", operands, attrs)
        for bias in conv.inputs[2:]:
            made = emit(graph, conv, "add", [made, _bias_image(graph, conv, bias, shuffle)], {})
        if activation:
            made = emit(graph, conv, str(activation), [made], {})
        return _ended(graph, conv, shuffle, made)

    def _weight(self, graph: Graph, conv: Op, shuffle: Shuffle) -> str:
        """[Cout parts, Cin, kh, kw] -> [Cin, C, r*kh, s*kw], taps from the last to the first."""
        results, given, kh, kw = graph.value(conv.inputs[1]).shape
        (high, wide), depth = shuffle.factors, shuffle.channels[shuffle.order[2]]
        taps = kh * kw
        weight = reshape(graph, conv, conv.inputs[1], (results * given, taps))
        if taps > 1:
            columns = [cut(graph, conv, weight, (0, t), (results * given, t + 1)) for t in reversed(range(taps))]
            weight = emit(graph, conv, "concat", columns, {"dim": 1})
        weight = reshape(graph, conv, weight, (*shuffle.channels, given, kh, kw))
        rows, columns_at, channels = shuffle.order
        weight = permute(graph, conv, weight, (3, channels, 4, rows, 5, columns_at))
        return reshape(graph, conv, weight, (given, depth, high * kh, wide * kw))


def _bias_image(graph: Graph, conv: Op, bias: str, shuffle: Shuffle) -> str:
    """A bias of every pixel: those that one pixel makes have their own."""
    batch, lines, columns = _made(conv)
    (high, wide), depth = shuffle.factors, shuffle.channels[shuffle.order[2]]
    row = reshape(graph, conv, _ordered_bias(graph, conv, bias, shuffle), (1, high, 1, wide * depth))
    image = emit(graph, conv, "repeat", [row], {"repeats": (batch * lines, 1, columns, 1)})
    return reshape(graph, conv, image, (1, 1, batch * lines * high * columns * wide, depth))


def shuffles(graph: Graph, op: Op) -> Iterator[Site]:
    """The ways to compute a convolution and the pixel shuffle behind it."""
    shuffle = Shuffle.of(graph, op) if op.op == CONV2D else None
    if shuffle is not None:
        ops = (op.id, *(other.id for other in shuffle.ops))
        yield Site(ShuffleRows(op.id), ops)
        yield Site(TransposeConvolution(op.id), ops)
