"""Other ways to compute a convolution that no config can run: parts of its groups, image or kernel, put together.

Like `convolution_ways`, each is a pass over one op of a finished graph, on [1, 1, N*H*W, C]. Parts of groups and image
are exact; parts of a kernel are sums of their own, rounded to the element type before they are added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import lcm
from typing import Any, ClassVar, Literal

from optimizer.importers.passes.convolution_ways import Way, channels_of, cut, parted, put
from optimizer.importers.passes.rewriting import emit, finish, reshape
from optimizer.ir.activations import FUSED_ACTIVATIONS
from optimizer.ir.graph import Attr, Graph, Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.tiling import TILE, round_up

MOST_PARTS = 64
"""Parts of one convolution."""
_AXIS = {"height": 0, "width": 1}


@dataclass(frozen=True)
class _Seen:
    """What a range of window positions sees of an image along one axis."""

    low: int
    high: int
    before: int
    after: int
    """Padding that it sees before and behind elements [low, high)."""

    @staticmethod
    def of(first: int, end: int, size: int, padding: int) -> _Seen | None:
        """Of elements [first, end) of an image padded by `padding` in front; None: of nothing but padding."""
        start, stop = first - padding, end - padding
        low, high = max(0, start), min(size, stop)
        return _Seen(low, high, low - start, stop - high) if low < high else None


@dataclass(frozen=True)
class _Image:
    """The image of a convolution, and its attributes."""

    op: Op
    attrs: dict[str, Any]
    shape: tuple[int, int, int, int]
    """N, H, W, C."""

    @staticmethod
    def of(graph: Graph, op: Op) -> _Image | None:
        """None if the op is no convolution."""
        if op.op != "ttnn.conv2d":
            return None
        a: dict[str, Any] = opdef(op.op).full_attrs(op)
        channels = graph.value(op.inputs[0]).shape[-1]
        return _Image(op, a, (a["batch_size"], a["input_height"], a["input_width"], channels))

    def out(self, axis: int) -> int:
        """Window positions along an axis."""
        a = self.attrs
        padded = self.shape[1 + axis] + a["padding"][2 * axis] + a["padding"][2 * axis + 1]
        reach: int = a["dilation"][axis] * (a["kernel_size"][axis] - 1) + 1
        return int((padded - reach) // a["stride"][axis]) + 1

    def seen(self, axis: int, taps: tuple[int, int], results: tuple[int, int]) -> _Seen | None:
        """What taps [first, end) of the kernel see for results [first, end) along an axis."""
        a = self.attrs
        stride, dilation = a["stride"][axis], a["dilation"][axis]
        first = results[0] * stride + taps[0] * dilation
        end = (results[1] - 1) * stride + (taps[1] - 1) * dilation + 1
        return _Seen.of(first, end, self.shape[1 + axis], a["padding"][2 * axis])

    def part(self, graph: Graph, axis: int, seen: _Seen) -> tuple[str, dict[str, Attr]]:
        """The rows or columns that are seen, and the attributes that a convolution of them has otherwise."""
        batch, height, width, channels = self.shape
        sizes = [height, width]
        sizes[axis] = seen.high - seen.low
        padding = list(self.attrs["padding"])
        padding[2 * axis : 2 * axis + 2] = [seen.before, seen.after]
        changed: dict[str, Attr] = {"input_height": sizes[0], "input_width": sizes[1], "padding": tuple(padding)}
        if sizes == [height, width]:
            return self.op.inputs[0], changed
        image = reshape(graph, self.op, self.op.inputs[0], self.shape)
        begins, ends = [0, 0, 0, 0], list(self.shape)
        begins[1 + axis], ends[1 + axis] = seen.low, seen.high
        piece = cut(graph, self.op, image, tuple(begins), tuple(ends))
        return reshape(graph, self.op, piece, (1, 1, batch * sizes[0] * sizes[1], channels)), changed


@dataclass(frozen=True)
class _Other:
    """Another way to compute one convolution."""

    op_id: str

    def apply(self, graph: Graph) -> int:
        """Rewrite the op in place; 0 where the way is not open to it."""
        op = graph.op(self.op_id)
        image = _Image.of(graph, op)
        result = None if image is None else self.computed(graph, op, image)
        if result is None:
            return 0
        put(graph, op, result)
        return finish(graph, 1)

    def computed(self, graph: Graph, op: Op, image: _Image) -> str | None:
        """What takes the place of the op's result; None where the way is not open to it."""
        raise NotImplementedError


@dataclass(frozen=True)
class ZeroBias(_Other):
    """A depthwise convolution of one row gets a bias of zeros, which makes it an ordinary convolution.

    Without one tt-metal takes kernels that not every form of it runs in (`opmodel.known_faults`).
    """

    name: ClassVar[str] = "zero-bias"

    def computed(self, graph: Graph, op: Op, image: _Image) -> str | None:
        if len(op.inputs) > 2 or image.shape[1] != 1:
            return None
        results = graph.value(op.inputs[1]).shape[0]
        if not image.attrs["groups"] == image.shape[3] == results:
            return None
        dtype = graph.value(op.inputs[1]).dtype
        attrs: dict[str, Attr] = {"shape": (1, 1, 1, results), "dtype": dtype.value}
        zeros = emit(graph, op, "zeros", [], attrs, output=graph.fresh_id(f"{op.id}_no_bias"))
        return emit(graph, op, "conv2d", [*op.inputs, zeros], op.attrs)


@dataclass(frozen=True)
class SplitGroups(_Other):
    """Convolutions of some of the groups each, side by side.

    Groups are kept together until their channels are whole tiles where there are enough of them.
    """

    parts: int
    name: ClassVar[str] = "split-groups"

    def computed(self, graph: Graph, op: Op, image: _Image) -> str | None:
        groups = image.attrs["groups"]
        parts = min(self.parts, groups, MOST_PARTS)
        if parts < 2:
            return None
        rows, given = image.shape[0] * image.shape[1] * image.shape[2], image.shape[3] // groups
        made = graph.value(op.inputs[1]).shape[0] // groups
        each = -(-groups // parts)
        whole = lcm(_whole(given), _whole(made))
        each = round_up(each, whole) if each >= whole else each
        if each >= groups:
            return None
        found = []
        for first, end in parted(groups, each):
            piece = cut(graph, op, op.inputs[0], (0, 0, 0, first * given), (1, 1, rows, end * given))
            operands = [piece, *channels_of(graph, op, first * made, end * made)]
            sizes = {"groups": end - first, "in_channels": (end - first) * given, "out_channels": (end - first) * made}
            found.append(emit(graph, op, "conv2d", operands, {**op.attrs, **sizes}))
        return emit(graph, op, "concat", found, {"dim": 3})


@dataclass(frozen=True)
class SplitBatch(_Other):
    """Convolutions of some of the images each, one behind the other."""

    parts: int
    name: ClassVar[str] = "split-batch"

    def computed(self, graph: Graph, op: Op, image: _Image) -> str | None:
        parts = min(self.parts, image.shape[0], MOST_PARTS)
        if parts < 2:
            return None
        batch, height, width, channels = image.shape
        pixels, found = height * width, []
        for first, end in parted(batch, -(-batch // parts)):
            piece = cut(graph, op, op.inputs[0], (0, 0, first * pixels, 0), (1, 1, end * pixels, channels))
            operands = [piece, *op.inputs[1:]]
            found.append(emit(graph, op, "conv2d", operands, {**op.attrs, "batch_size": end - first}))
        return emit(graph, op, "concat", found, {"dim": 2})


@dataclass(frozen=True)
class SplitImage(_Other):
    """Convolutions of strips of the image, which overlap by what windows at their ends share, put together."""

    axis: Literal["height", "width"]
    parts: int

    @property
    def name(self) -> str:
        return f"split-{self.axis}"

    def computed(self, graph: Graph, op: Op, image: _Image) -> str | None:
        axis = _AXIS[self.axis]
        if not 2 <= self.parts <= min(image.out(axis), MOST_PARTS):
            return None
        extent, kernel = image.out(axis), image.attrs["kernel_size"][axis]
        ranges = parted(extent, -(-extent // self.parts))
        seen = [image.seen(axis, (0, kernel), part) for part in ranges]
        if None in seen:
            return None
        out = [image.out(0), image.out(1)]
        found = []
        for (first, end), what in zip(ranges, seen, strict=True):
            assert what is not None
            piece, changed = image.part(graph, axis, what)
            result = emit(graph, op, "conv2d", [piece, *op.inputs[1:]], {**op.attrs, **changed})
            out[axis] = end - first
            found.append(reshape(graph, op, result, (image.shape[0], out[0], out[1], graph.value(result).shape[3])))
        joined = emit(graph, op, "concat", found, {"dim": 1 + axis})
        return reshape(graph, op, joined, graph.value(op.outputs[0]).shape)


@dataclass(frozen=True)
class SplitKernel(_Other):
    """Convolutions with parts of the kernel, each over what it sees of the image, added up.

    A part that sees nothing but padding is left out. Every part's sum is rounded to the element type; the pairs are
    added first, then theirs, so that as few roundings as possible follow one another.
    """

    axis: Literal["height", "width"]
    parts: int

    @property
    def name(self) -> str:
        return f"split-kernel-{self.axis}"

    def computed(self, graph: Graph, op: Op, image: _Image) -> str | None:
        axis = _AXIS[self.axis]
        if not 2 <= self.parts <= min(image.attrs["kernel_size"][axis], MOST_PARTS):
            return None
        kernel = image.attrs["kernel_size"][axis]
        ranges, results = parted(kernel, -(-kernel // self.parts)), (0, image.out(axis))
        parts = [(taps, seen) for taps in ranges if (seen := image.seen(axis, taps, results)) is not None]
        if not parts:
            return None
        sums: list[str] = []
        plain = {k: v for k, v in op.attrs.items() if k != "activation"}
        for taps, seen in parts:
            piece, changed = image.part(graph, axis, seen)
            weight = _taps(graph, op, axis, taps)
            size = list(image.attrs["kernel_size"])
            size[axis] = taps[1] - taps[0]
            bias = op.inputs[2:] if not sums else ()
            attrs: dict[str, Attr] = {**plain, **changed, "kernel_size": tuple(size)}
            sums.append(emit(graph, op, "conv2d", [piece, weight, *bias], attrs))
        return added(graph, op, sums)


@dataclass(frozen=True)
class Both:
    """One way, then another one for every convolution that the first leaves and that the other is open to."""

    first: Way
    second: Callable[[str], Way]
    """Makes the second way of an op's id."""

    @property
    def name(self) -> str:
        return f"{self.first.name}, {self.second('').name}"

    def apply(self, graph: Graph) -> int:
        before = {op.id for op in graph.ops()}
        if not self.first.apply(graph):
            return 0
        left = [op.id for op in graph.ops() if op.op == "ttnn.conv2d" and op.id not in before]
        for op_id in left:
            self.second(op_id).apply(graph)
        return 1


def _whole(channels: int) -> int:
    """Groups of so many channels that are whole tiles together."""
    return lcm(channels, TILE) // channels


def _taps(graph: Graph, op: Op, axis: int, taps: tuple[int, int]) -> str:
    """Rows or columns of a kernel, cut out of a matrix."""
    results, channels, height, width = graph.value(op.inputs[1]).shape
    first, end = taps
    if axis:
        rows, depth = results * channels * height, width
        size = (height, end - first)
    else:
        rows, depth = results * channels, height * width
        size = (end - first, width)
        first, end = first * width, end * width
    matrix = cut(graph, op, reshape(graph, op, op.inputs[1], (rows, depth)), (0, first), (rows, end))
    return reshape(graph, op, matrix, (results, channels, *size))


def added(graph: Graph, op: Op, sums: list[str]) -> str:
    """The sum of several values, and the convolution's activation."""
    activation = op.attrs.get("activation")
    fused = activation in FUSED_ACTIVATIONS
    while len(sums) > 1:
        last = len(sums) == 2 and fused
        attrs: dict[str, Attr] = {"activations": (str(activation),)} if last else {}
        pairs = [emit(graph, op, "add", sums[k : k + 2], attrs) for k in range(0, len(sums) - 1, 2)]
        sums = pairs + sums[len(pairs) * 2 :]
    maker = graph.producer(sums[0])
    if activation and not (fused and maker is not None and maker.op == "ttnn.add"):
        return emit(graph, op, str(activation), sums, {})
    return sums[0]
