"""What no way to run an op gets around: the products of its elements, and the elements that it has to read.

Rules of the vocabulary on attributes and shapes. Multiply-adds are those of elements: padding, of tiles and of images,
has none. What is computed here is the ground of `optimizer.limit` (docs/cost-model.md, "The physical limit").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

Shape = tuple[int, ...]
Attrs = Mapping[str, Any]
TILE = 32
"""Rows and columns of a tile."""


@dataclass(frozen=True)
class Products:
    """The multiplications of one op."""

    multiply_adds: int
    """Of elements; 2 floating-point operations each."""
    tile_products: int
    """Products of 32x32x32 where every matrix is filled up to whole tiles, and groups of channels to all channels."""


ProductRule = Callable[[Attrs, Sequence[Shape]], Products]
"""(attributes, operands' shapes) -> products."""
ReadRule = Callable[[Attrs, int, Sequence[Shape], Sequence[Shape]], int]
"""(attributes, position of an operand, operands' shapes, results' shapes) -> elements that must be read of it."""


def _tiles(size: int) -> int:
    return -(-size // TILE)


# -- products -------------------------------------------------------------------------------------------------
def matmul(attrs: Attrs, inputs: Sequence[Shape]) -> Products:
    """[.., M, K] times [.., K, N], batches broadcast."""
    a, b = inputs[0], inputs[1]
    rows, depth = (a[-1], a[-2]) if attrs.get("transpose_a") else (a[-2], a[-1])
    columns = b[-2] if attrs.get("transpose_b") else b[-1]
    longest = max(len(a), len(b)) - 2
    dims = zip(*((1,) * (longest + 2 - len(s)) + tuple(s[:-2]) for s in (a, b)), strict=True)
    batches = prod(max(pair) for pair in dims)
    return Products(batches * rows * depth * columns, batches * _tiles(rows) * _tiles(depth) * _tiles(columns))


def _taps(size: int, results: int, window: tuple[int, int, int, int]) -> int:
    """Pairs of an output and a tap of its window that lie on the image, along one axis; window: kernel, stride,
    dilation, padding in front."""
    kernel, stride, dilation, before = window
    return sum(_hits(size, results, stride, tap * dilation - before) for tap in range(kernel))


def _hits(size: int, results: int, stride: int, shift: int) -> int:
    """Outputs `o` below `results` with `0 <= o * stride + shift < size`."""
    first = max(0, -(shift // stride))  # ceil(-shift / stride)
    last = min(results, -((shift - size) // stride))  # ceil((size - shift) / stride)
    return max(0, last - first)


def _windows(attrs: Attrs) -> tuple[tuple[int, int, int, int], tuple[int, int, int, int]]:
    """(kernel, stride, dilation, padding in front) along the rows and along the columns of an image."""
    (kh, kw), (sh, sw), (dh, dw) = attrs["kernel_size"], attrs["stride"], attrs["dilation"]
    top, _, left, _ = attrs["padding"]
    return (kh, sh, dh, top), (kw, sw, dw, left)


def _results(size: int, window: tuple[int, int, int, int], after: int) -> int:
    """Outputs of a convolution along one axis."""
    kernel, stride, dilation, before = window
    return (size + before + after - dilation * (kernel - 1) - 1) // stride + 1


def _conv_depth(attrs: Attrs) -> int:
    """Tiles along the depth of the weight matrix; depth-wise weights are spread over blocks of the diagonal."""
    (kh, kw), channels, groups = attrs["kernel_size"], attrs["in_channels"], attrs["groups"]
    return _tiles(channels) * kh * kw if groups == channels > 1 else _tiles(channels * kh * kw)


def conv2d(attrs: Attrs, inputs: Sequence[Shape]) -> Products:
    """Taps on the image, times channels of a group, times output channels."""
    high, wide = _windows(attrs)
    height, width, batch = attrs["input_height"], attrs["input_width"], attrs["batch_size"]
    rows, columns = _results(height, high, attrs["padding"][1]), _results(width, wide, attrs["padding"][3])
    taps = batch * _taps(height, rows, high) * _taps(width, columns, wide)
    each = attrs["in_channels"] // attrs["groups"] * attrs["out_channels"]
    pixels = _tiles(batch * rows * columns)
    return Products(taps * each, pixels * _conv_depth(attrs) * _tiles(attrs["out_channels"]))


def conv_transpose2d(attrs: Attrs, inputs: Sequence[Shape]) -> Products:
    """Every pixel of the input goes into the outputs of its window that lie on the result."""
    high, wide = _windows(attrs)
    height, width, batch = attrs["input_height"], attrs["input_width"], attrs["batch_size"]
    (top, bottom, left, right), (more_rows, more_columns) = attrs["padding"], attrs["output_padding"]
    rows = (height - 1) * high[1] - top - bottom + high[2] * (high[0] - 1) + more_rows + 1
    columns = (width - 1) * wide[1] - left - right + wide[2] * (wide[0] - 1) + more_columns + 1
    taps = batch * _taps(rows, height, high) * _taps(columns, width, wide)
    each = attrs["in_channels"] * (attrs["out_channels"] // attrs["groups"])
    pixels = _tiles(batch * rows * columns)
    return Products(taps * each, pixels * _conv_depth(attrs) * _tiles(attrs["out_channels"]))


def attention(attrs: Attrs, inputs: Sequence[Shape]) -> Products:
    """Q [B, H, Sq, D] with K and V [B, Hkv, Sk, D]: a causal row attends to the keys up to its own."""
    (batch, heads, queries, depth), keys, width = inputs[0], inputs[1][-2], inputs[2][-1]
    causal = bool(attrs.get("is_causal"))
    pairs = _attended(queries, keys, causal)
    blocks = _attended(_tiles(queries), _tiles(keys), causal)
    return Products(batch * heads * pairs * (depth + width), batch * heads * blocks * (_tiles(depth) + _tiles(width)))


def _attended(queries: int, keys: int, causal: bool) -> int:
    """Pairs of a query and a key."""
    if not causal:
        return queries * keys
    short = min(queries, keys)
    return short * (short + 1) // 2 + (queries - short) * keys


def attention_decode(attrs: Attrs, inputs: Sequence[Shape]) -> Products:
    """Q [1, B, H, D] with caches [B, Hkv, S, D], of which each user needs the keys up to its position."""
    _, _, heads, depth = inputs[0]
    held = _held(attrs, inputs)
    tiles = sum(_tiles(keys) for keys in held) * _tiles(heads) * 2 * _tiles(depth)
    return Products(sum(held) * heads * 2 * depth, tiles)


def _held(attrs: Attrs, inputs: Sequence[Shape]) -> list[int]:
    """Keys that the cache of each user holds."""
    users, keys, given = inputs[0][1], inputs[1][-2], attrs["cur_pos"]
    if not attrs.get("is_causal", True):
        return [keys] * users
    positions = [given] * users if isinstance(given, int) else list(given)
    return [min(keys, position + 1) for position in (positions * users)[:users]]


# -- elements that must be read -------------------------------------------------------------------------------
def whole(attrs: Attrs, position: int, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    """All of them."""
    return prod(inputs[position])


def selected(attrs: Attrs, position: int, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    """Of operand 0 no more than the results hold (slice, split, gather, grid_sample)."""
    return _chosen(0, position, inputs, outputs)


def looked_up(attrs: Attrs, position: int, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    """Of a table, operand 1, no more than the result holds: every index has a row of its own (embedding)."""
    return _chosen(1, position, inputs, outputs)


def _chosen(source: int, position: int, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    every = prod(inputs[position])
    return min(every, sum(map(prod, outputs))) if position == source else every


def cached(attrs: Attrs, position: int, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    """Of caches, operands 1 and 2, the positions that are held."""
    if position not in (1, 2):
        return whole(attrs, position, inputs, outputs)
    _, heads, _, depth = inputs[position]
    return sum(_held(attrs, inputs)) * heads * depth
