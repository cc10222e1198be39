"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from optimizer.values.adjoint.eltwise import slope_of_activation
from optimizer.values.adjoint.kinds import Call, Maps, Rule, one_result, summed_to
from optimizer.values.reference import computed
from optimizer.values.reference.contraction import image
from optimizer.values.reference.kinds import Array, Attrs


def _before_activation(call: Call) -> Array | None:
    """The slope of the fused activation."""

    def product() -> Array:
        bare = {**call.attrs, "activation": None}
        return computed(call.op, bare, call.operands, call.results[0].dtype.name)[0].value

    return slope_of_activation(call, call.attrs.get("activation"), product)


def _through(gradient: Array, factor: Array | None) -> Array:
    return gradient if factor is None else gradient * factor


def _matmul(call: Call) -> Maps:
    turned = [bool(call.attrs.get(name)) for name in ("transpose_a", "transpose_b")]
    a, b = (x.swapaxes(-1, -2) if t else x for x, t in zip(call.operands, turned, strict=False))
    factor = _before_activation(call)

    def operand(k: int, gradient: Array) -> Array:
        g = _through(gradient, factor)
        found = np.matmul(g, b.swapaxes(-1, -2)) if k == 0 else np.matmul(a.swapaxes(-1, -2), g)
        found = summed_to(found, (a, b)[k].shape)
        return found.swapaxes(-1, -2) if turned[k] else found

    def bias(gradient: Array) -> Array:
        shape = call.operands[2].shape
        return summed_to(_through(gradient, factor), shape[-2:]).reshape(shape)

    return {0: lambda g: operand(0, g), 1: lambda g: operand(1, g), 2: bias}


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
    factor = _before_activation(call)

    def gradient_image(gradient: Array) -> Array:
        return _through(gradient, factor).reshape(n, *counts, -1)

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

    return {0: operand, 1: weights, 2: lambda g: _bias(call, _through(g, factor))}


def _conv_transpose2d(call: Call) -> Maps:
    attrs, groups, weight = call.attrs, int(call.attrs["groups"]), call.operands[1]
    top, bottom, left, right = attrs["padding"]
    eh, ew = attrs.get("output_padding") or (0, 0)
    x = image(attrs, call.operands[0])
    n, h, w, _ = x.shape
    (kh, kw), (sh, sw), (dh, dw) = attrs["kernel_size"], attrs["stride"], attrs["dilation"]
    high, wide = (h - 1) * sh + dh * (kh - 1) + 1 + eh, (w - 1) * sw + dw * (kw - 1) + 1 + ew
    factor = _before_activation(call)

    def gradient_image(gradient: Array) -> Array:
        inner = _through(gradient, factor).reshape(n, high - top - bottom, wide - left - right, -1)
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

    return {0: operand, 1: weights, 2: lambda g: _bias(call, _through(g, factor))}


def _bias(call: Call, gradient: Array) -> Array:
    return np.asarray(gradient.reshape(-1, gradient.shape[-1]).sum(axis=0)).reshape(call.operands[2].shape)


RULES: Mapping[str, Rule] = {
    "ttnn.matmul": one_result(_matmul),
    "ttnn.linear": one_result(_matmul),
    "ttnn.conv2d": one_result(_conv2d),
    "ttnn.conv_transpose2d": one_result(_conv_transpose2d),
}
