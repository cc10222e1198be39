"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

import numpy as np

from optimizer.values.reference.eltwise import activated
from optimizer.values.reference.kinds import Array, Attrs, Computed, Rule, of_products, plus

MOST_PRODUCTS = 1 << 34
"""Multiplied at once: half a second to two."""


def _activated(computed: Computed, activation: object) -> Computed:
    return replace(computed, value=activated(computed.value, activation))


def _product(a: Array, b: Array) -> Array:
    """`a @ b`, some rows at a time: NumPy cannot be interrupted."""
    parts = ceil(a.size * b.shape[-1] / MOST_PRODUCTS)
    if parts < 2 or a.ndim < 2 or b.ndim < 2:
        joined: Array = np.matmul(a, b)
        return joined
    rows = np.array_split(a, min(parts, a.shape[-2]), axis=-2)
    return np.concatenate([np.matmul(part, b) for part in rows], axis=-2)


def _matmul(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
    a, b = operands[0], operands[1]
    a = a.swapaxes(-1, -2) if attrs.get("transpose_a") else a
    b = b.swapaxes(-1, -2) if attrs.get("transpose_b") else b
    computed = of_products(_product, a, b, a.shape[-1])
    product = computed.value
    if len(operands) > 2:
        bias = operands[2]
        computed = plus(computed, np.broadcast_to(bias.reshape(bias.shape[-2:] if bias.ndim > 1 else bias.shape),
                                                  computed.value.shape))  # fmt: skip
    return [_activated(replace(computed, before=(product, computed.value)), attrs.get("activation"))]


def windows(x: Array, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Array:
    """[N, H, W, C] as a view [N, Ho, Wo, kh, kw, C]."""
    (kh, kw), (sh, sw), (dh, dw) = kernel, stride, dilation
    n, h, w, c = x.shape
    ho, wo = (h - dh * (kh - 1) - 1) // sh + 1, (w - dw * (kw - 1) - 1) // sw + 1
    bn, bh, bw, bc = x.strides
    return np.lib.stride_tricks.as_strided(
        x, (n, ho, wo, kh, kw, c), (bn, bh * sh, bw * sw, bh * dh, bw * dw, bc), writeable=False
    )


def _convolved(x: Array, weight: Array, attrs: Attrs) -> Array:
    """[N, H, W, C] padded already, weight [O, C/groups, kh, kw]; gives [N, Ho, Wo, O]."""
    groups = attrs["groups"]
    found = windows(x, attrs["kernel_size"], attrs["stride"], attrs["dilation"])
    n, ho, wo, *_, c = found.shape
    o = weight.shape[0]
    if c == groups and o == groups:
        depthwise: Array = np.einsum("nhwklc,ckl->nhwc", found, weight[:, 0], optimize=True)
        return depthwise
    parts = []
    for g in range(groups):
        columns = found[..., g * (c // groups) : (g + 1) * (c // groups)].reshape(n * ho * wo, -1)
        matrix = weight[g * (o // groups) : (g + 1) * (o // groups)].transpose(2, 3, 1, 0).reshape(-1, o // groups)
        parts.append(columns @ matrix)
    joined: Array = np.concatenate(parts, axis=-1)
    return joined.reshape(n, ho, wo, o)


def image(attrs: Attrs, x: Array) -> Array:
    """[1, 1, N*H*W, C] as [N, H, W, C]."""
    return x.reshape(attrs["batch_size"], attrs["input_height"], attrs["input_width"], x.shape[-1])


def flat(x: Array) -> Array:
    """[N, H, W, C] as [1, 1, N*H*W, C]."""
    return x.reshape(1, 1, -1, x.shape[-1])


def _with_bias(computed: Computed, operands: Sequence[Array], attrs: Attrs) -> Sequence[Computed]:
    found = computed
    computed = Computed(flat(found.value), lambda: (flat(found.most), flat(found.usual)), found.terms)
    if len(operands) > 2:
        computed = plus(computed, np.broadcast_to(operands[2].reshape(-1), computed.value.shape))
    return [_activated(computed, attrs.get("activation"))]


def _conv2d(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
    top, bottom, left, right = attrs["padding"]
    x = np.pad(image(attrs, operands[0]), ((0, 0), (top, bottom), (left, right), (0, 0)))
    weight = operands[1]
    terms = int(np.prod(weight.shape[1:]))
    return _with_bias(of_products(lambda a, b: _convolved(a, b, attrs), x, weight, terms), operands, attrs)


def spread(x: Array, weight: Array, attrs: Attrs) -> Array:
    """Transposed convolution: every element of the input adds its scaled kernel. Weight [C, O/groups, kh, kw]."""
    (kh, kw), (sh, sw), (dh, dw) = attrs["kernel_size"], attrs["stride"], attrs["dilation"]
    top, bottom, left, right = attrs["padding"]
    eh, ew = attrs.get("output_padding") or (0, 0)
    groups = attrs["groups"]
    n, h, w, c = x.shape
    each_in, each_out = c // groups, weight.shape[1]
    full = np.zeros(
        (n, (h - 1) * sh + dh * (kh - 1) + 1 + eh, (w - 1) * sw + dw * (kw - 1) + 1 + ew, groups * each_out)
    )
    for i in range(kh):
        for j in range(kw):
            rows, columns = slice(i * dh, i * dh + (h - 1) * sh + 1, sh), slice(j * dw, j * dw + (w - 1) * sw + 1, sw)
            for g in range(groups):
                taken = slice(g * each_in, (g + 1) * each_in)
                full[:, rows, columns, g * each_out : (g + 1) * each_out] += x[..., taken] @ weight[taken, :, i, j]
    return full[:, top : full.shape[1] - bottom, left : full.shape[2] - right]


def _conv_transpose2d(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
    x, weight = image(attrs, operands[0]), operands[1]
    terms = weight.shape[0] // attrs["groups"] * weight.shape[2] * weight.shape[3]
    return _with_bias(of_products(lambda a, b: spread(a, b, attrs), x, weight, terms), operands, attrs)


RULES: Mapping[str, Rule] = {
    "ttnn.matmul": _matmul,
    "ttnn.linear": _matmul,
    "ttnn.conv2d": _conv2d,
    "ttnn.conv_transpose2d": _conv_transpose2d,
}
