"""Gradients of convolutions, pools and sampling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from optimizer.families.movement.adjoint import moved
from optimizer.families.products.adjoint import before_activation, through
from optimizer.families.windows.reference import between, framed, image, sample_points, window_shares
from optimizer.values.adjoint.kinds import Call, Maps, Rule, Transposed, one_result
from optimizer.values.reference.kinds import Array, Attrs


def kernel_places(attrs: Attrs, counts: Sequence[int]) -> Iterator[tuple[int, int, tuple[slice, ...]]]:
    """(row, column) in the kernel -> what it reads of [N, H, W, C] for `counts` windows along H and W."""
    (kh, kw), (sh, sw) = attrs["kernel_size"], attrs["stride"]
    dh, dw = attrs.get("dilation") or (1, 1)
    for i in range(kh):
        for j in range(kw):
            rows = slice(i * dh, i * dh + (counts[0] - 1) * sh + 1, sh)
            columns = slice(j * dw, j * dw + (counts[1] - 1) * sw + 1, sw)
            yield i, j, (slice(None), rows, columns)


def _times(x: Array, weight: Array, groups: int) -> Array:
    """[..., groups * a] times [groups * a, b], group by group: [..., groups * b]."""
    if groups == 1:
        return np.asarray(x @ weight)
    if weight.shape == (groups, 1):
        return np.asarray(x * weight[:, 0])
    parts = x.reshape(-1, groups, weight.shape[0] // groups).swapaxes(0, 1)
    found = parts @ weight.reshape(groups, -1, weight.shape[1])
    return np.asarray(found.swapaxes(0, 1)).reshape(*x.shape[:-1], groups * weight.shape[1])


def _turned(weight: Array, groups: int) -> Array:
    """[groups * a, b] as [groups * b, a]."""
    a, b = weight.shape[0] // groups, weight.shape[1]
    return weight.reshape(groups, a, b).swapaxes(1, 2).reshape(groups * b, a)


def _pairs(x: Array, y: Array, groups: int) -> Array:
    """[..., groups * a] and [..., groups * b]: the sum of their products, [groups * a, b]."""
    a, b = (v.reshape(-1, groups, v.shape[-1] // groups).swapaxes(0, 1) for v in (x, y))
    return np.asarray(a.swapaxes(1, 2) @ b).reshape(x.shape[-1], -1)


def _conv2d(call: Call) -> Maps:
    attrs, groups, weight = call.attrs, int(call.attrs["groups"]), call.operands[1]
    top, bottom, left, right = attrs["padding"]
    x = image(attrs, call.operands[0])
    n, h, w, c = x.shape
    (kh, kw), (sh, sw), (dh, dw) = attrs["kernel_size"], attrs["stride"], attrs["dilation"]
    counts = ((h + top + bottom - dh * (kh - 1) - 1) // sh + 1, (w + left + right - dw * (kw - 1) - 1) // sw + 1)
    by_place = np.ascontiguousarray(weight.transpose(2, 3, 0, 1))
    factor = before_activation(call)

    def gradient_image(gradient: Array) -> Array:
        return through(gradient, factor).reshape(n, *counts, -1)

    def operand(gradient: Array) -> Array:
        g = gradient_image(gradient)
        full = np.zeros((n, h + top + bottom, w + left + right, c), g.dtype)
        for i, j, place in kernel_places(attrs, counts):
            full[place] += _times(g, by_place[i, j], groups)
        return full[:, top : top + h, left : left + w].reshape(call.operands[0].shape)

    def weights(gradient: Array) -> Array:
        g = gradient_image(gradient)
        padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
        found = np.zeros_like(weight)
        for i, j, place in kernel_places(attrs, counts):
            found[:, :, i, j] = _pairs(g, padded[place], groups)
        return found

    return {0: operand, 1: weights, 2: lambda g: _bias(call, through(g, factor))}


def _conv_transpose2d(call: Call) -> Maps:
    attrs, groups, weight = call.attrs, int(call.attrs["groups"]), call.operands[1]
    top, bottom, left, right = attrs["padding"]
    eh, ew = attrs.get("output_padding") or (0, 0)
    x = image(attrs, call.operands[0])
    n, h, w, _ = x.shape
    (kh, kw), (sh, sw), (dh, dw) = attrs["kernel_size"], attrs["stride"], attrs["dilation"]
    high, wide = (h - 1) * sh + dh * (kh - 1) + 1 + eh, (w - 1) * sw + dw * (kw - 1) + 1 + ew
    factor = before_activation(call)

    def gradient_image(gradient: Array) -> Array:
        inner = through(gradient, factor).reshape(n, high - top - bottom, wide - left - right, -1)
        return np.pad(inner, ((0, 0), (top, bottom), (left, right), (0, 0)))

    def operand(gradient: Array) -> Array:
        g = gradient_image(gradient)
        found = np.zeros_like(x)
        for i, j, place in kernel_places(attrs, (h, w)):
            found += _times(g[place], _turned(weight[:, :, i, j], groups), groups)
        return found.reshape(call.operands[0].shape)

    def weights(gradient: Array) -> Array:
        g = gradient_image(gradient)
        found = np.zeros_like(weight)
        for i, j, place in kernel_places(attrs, (h, w)):
            found[:, :, i, j] = _pairs(x, g[place], groups)
        return found

    return {0: operand, 1: weights, 2: lambda g: _bias(call, through(g, factor))}


def _bias(call: Call, gradient: Array) -> Array:
    return np.asarray(gradient.reshape(-1, gradient.shape[-1]).sum(axis=0)).reshape(call.operands[2].shape)


# -- pools and sampling -------------------------------------------------------------------------------------------
def _counts(call: Call, padded: Array) -> tuple[int, int]:
    """Windows along H and W."""
    dilation = call.attrs.get("dilation") or (1, 1)
    high, wide = (
        (padded.shape[k + 1] - dilation[k] * (call.attrs["kernel_size"][k] - 1) - 1) // call.attrs["stride"][k] + 1
        for k in (0, 1)
    )
    return high, wide


def _cut(call: Call, padded: Array, shape: tuple[int, ...]) -> Array:
    """What lies on the image itself."""
    top, _, left, _ = call.attrs["padding"]
    return padded[:, top : top + shape[1], left : left + shape[2]].reshape(call.operands[0].shape)


def _max_pool2d(call: Call) -> Maps:
    """To the first of the largest elements under each window."""
    source = image(call.attrs, call.operands[0])
    x = framed(call.attrs, source, -np.inf)
    counts = _counts(call, x)
    shape = (len(x), *counts, x.shape[-1])
    largest = call.results[0].reshape(shape)

    def operand(gradient: Array) -> Array:
        g, full, open_ = gradient.reshape(shape), np.zeros_like(x), np.ones(shape, bool)
        for _, _, place in kernel_places(call.attrs, counts):
            chosen = open_ & (x[place] == largest)
            full[place] += g * chosen
            open_ &= ~chosen
        return _cut(call, full, source.shape)

    return {0: operand}


def _avg_pool2d(call: Call) -> Maps:
    source = image(call.attrs, call.operands[0])
    x = framed(call.attrs, source, 0.0)
    counts = _counts(call, x)
    shares = window_shares(call.attrs, source).astype(x.dtype)

    def operand(gradient: Array) -> Array:
        g, full = gradient.reshape(len(x), *counts, -1) * shares, np.zeros_like(x)
        for _, _, place in kernel_places(call.attrs, counts):
            full[place] += g
        return _cut(call, full, source.shape)

    return {0: operand}


def _global_avg_pool2d(call: Call) -> Maps:
    shape = call.operands[0].shape
    return {0: lambda gradient: np.broadcast_to(gradient / (shape[1] * shape[2]), shape)}


def _upsample(call: Call) -> Transposed:
    if str(call.attrs.get("mode", "nearest")) == "nearest":
        return moved(call)
    x = call.operands[0]
    high, wide = (
        between(np.eye(x.shape[k + 1], dtype=x.dtype), 0, call.attrs["scale_factor"][k]).astype(x.dtype) for k in (0, 1)
    )
    back: Maps = {0: lambda gradient: np.einsum("nhwc,ha,wb->nabc", gradient, high, wide, optimize=True)}
    return one_result(lambda _: back)(call)


def _grid_sample(call: Call) -> Maps:
    source, grid = call.operands
    points = list(sample_points(call.attrs, source, grid))
    n, height, width, _ = source.shape
    index = np.arange(n)[:, None, None]
    edge = 1.0 if call.attrs["align_corners"] else 0.0

    def operand(gradient: Array) -> Array:
        found = np.zeros_like(source)
        for point in points:
            np.add.at(found, (index, point.rows, point.columns), gradient * point.weight[..., None])
        return found

    def places(gradient: Array) -> Array:
        along: Any = np.zeros(grid.shape)
        for point in points:
            held = (gradient * source[index, point.rows, point.columns]).sum(axis=-1)
            along += np.stack([held * point.slope_x, held * point.slope_y], axis=-1)
        return np.asarray(along * (np.array([width, height]) - edge) / 2).astype(grid.dtype)

    return {0: operand, 1: places}


ADJOINTS: Mapping[str, Rule] = {
    "ttnn.conv2d": one_result(_conv2d),
    "ttnn.conv_transpose2d": one_result(_conv_transpose2d),
    "ttnn.max_pool2d": one_result(_max_pool2d),
    "ttnn.avg_pool2d": one_result(_avg_pool2d),
    "ttnn.global_avg_pool2d": one_result(_global_avg_pool2d),
    "ttnn.upsample": _upsample,
    "ttnn.grid_sample": one_result(_grid_sample),
}
