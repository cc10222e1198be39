"""Reductions, sorting, running sums, softmax and norms in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optimizer.values.reference.kinds import Array, Attrs, Computed, Rule, alike, of_one, of_sum


def reduced_axes(attrs: Attrs, x: Array) -> tuple[int, ...]:
    """The dims that a reduction takes away, counted from the front."""
    dim: Any = attrs.get("dim")
    if dim is None:
        return tuple(range(x.ndim))
    return tuple(sorted(int(d) % x.ndim for d in (dim if isinstance(dim, tuple | list) else (dim,))))


def _keeps(attrs: Attrs) -> bool:
    return bool(attrs.get("keepdim", True))


def _sum(mean: bool) -> Rule:
    def rule(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array | Computed]:
        x = operands[0]
        axes, keep = reduced_axes(attrs, x), _keeps(attrs)
        if x.dtype.kind != "f":
            return [x.sum(axis=axes, keepdims=keep)]
        terms = int(np.prod([x.shape[a] for a in axes]))
        return [of_sum(lambda v: v.sum(axis=axes, keepdims=keep), x, terms, 1 / terms if mean else 1.0)]

    return rule


def _extreme(function: Any) -> Rule:
    return lambda attrs, operands: [
        function(operands[0], axis=reduced_axes(attrs, operands[0]), keepdims=_keeps(attrs))
    ]


def _product(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array | Computed]:
    """TTNN keeps the product of those so far in bf16, of f32 too, and cuts it off each time."""
    x = operands[0]
    axes = reduced_axes(attrs, x)
    value: Array = np.prod(x, axis=axes, keepdims=_keeps(attrs))
    factors = float(np.prod([x.shape[a] for a in axes]))
    return [Computed(value, lambda: alike(np.abs(value)), inexact=(1 + 2.0**-8) ** factors - 1)]


def _spread(root: bool) -> Rule:
    """Sample variance (divided by n - 1), as TTNN's; its root."""

    def rule(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
        x = operands[0]
        axes, keep = reduced_axes(attrs, x), _keeps(attrs)
        variance = x.var(axis=axes, keepdims=keep, ddof=1)
        size = (x**2).mean(axis=axes, keepdims=keep)
        value, most = (np.sqrt(variance), np.sqrt(size)) if root else (variance, size)
        return [Computed(value, lambda: alike(most))]

    return rule


def _argmax(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array]:
    x, dim = operands[0], attrs.get("dim")
    if dim is None:
        found = np.asarray(x.argmax())
        return [found.reshape((1,) * x.ndim) if attrs.get("keepdim") else found]
    axis = int(dim[0] if isinstance(dim, tuple) else dim)
    return [np.argmax(x, axis=axis, keepdims=bool(attrs.get("keepdim")))]


def _ordered(x: Array, axis: int, descending: bool) -> tuple[Array, Array]:
    index = np.argsort(-x if descending else x, axis=axis, kind="stable")
    return np.take_along_axis(x, index, axis), index


def _topk(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array]:
    x, axis = operands[0], int(attrs["dim"])
    return [v.take(range(attrs["k"]), axis) for v in _ordered(x, axis, bool(attrs.get("largest", True)))]


def _cumsum(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array | Computed]:
    x, axis = operands[0], int(attrs["dim"])

    def total(v: Array) -> Array:
        if attrs.get("reverse_order"):
            return np.flip(np.flip(v, axis).cumsum(axis), axis)
        return v.cumsum(axis)

    return [of_sum(total, x, x.shape[axis]) if x.dtype.kind == "f" else total(x)]


_STATISTICS = 2.0**-7
"""Of 1/sqrt(variance) as the group norm kernel finds it, by partial sums in bf16: groups of 12 channels x 1024 rows
came out 0.6 to 1.3 % too large on Tenstorrent's simulator, at HiFi3 with 32-bit sums (ttnn 0.81.1)."""


def softmax(x: Array, axis: int) -> Array:
    """Over one dim, with the maximum taken off first."""
    shifted: Array = np.exp(x - x.max(axis=axis, keepdims=True))
    total: Array = shifted.sum(axis=axis, keepdims=True)
    return np.divide(shifted, total)


def _scaled(
    x: Array, rest: Sequence[Array], shape: tuple[int, ...] | None = None, roundings: float = 0, inexact: float = 0
) -> Computed:
    """Normalised values, scaled and shifted; errors are relative to values of unit size before the shift."""
    weight = rest[0].reshape(shape or -1) if rest else np.ones(1)
    value = x * weight
    size = np.broadcast_to(np.maximum(np.abs(x), 1.0) * np.abs(weight), value.shape)
    if len(rest) > 1:
        shift = rest[1].reshape(shape or -1)
        value = value + shift
        size = size + np.abs(shift)
    return Computed(value, lambda: alike(size), roundings=roundings, inexact=inexact)


def _layer_norm(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
    x = operands[0]
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return [_scaled(centred / np.sqrt(variance + attrs["epsilon"]), operands[1:3])]


def _rms_norm(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
    """The kernel keeps squares, their mean, 1/sqrt(mean), its product with x, and that scaled in circular buffers."""
    x = operands[0]
    normalised = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + attrs["epsilon"])
    return [_scaled(normalised, operands[1:2], roundings=5)]


def _group_norm(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
    """Input [N, 1, H*W, C]; scale and shift [C], or rows of them.

    The kernel keeps x - mean, 1/sqrt(variance), their product, and that scaled and shifted in circular buffers of the
    result's type (`groupnorm_sharded_v2.cpp`, ttnn 0.81.1).
    """
    x = operands[0]
    n, _, rows, channels = x.shape
    groups = attrs["num_groups"]
    parts = x.reshape(n, rows, groups, channels // groups)
    centred = parts - parts.mean(axis=(1, 3), keepdims=True)
    variance = (centred**2).mean(axis=(1, 3), keepdims=True)
    normalised = (centred / np.sqrt(variance + attrs["epsilon"])).reshape(x.shape)
    return [_scaled(normalised, operands[1:3], roundings=5, inexact=_STATISTICS)]


def _batch_norm(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
    """Input [N, C, ...]: mean, variance, and scale and shift, one per channel."""
    x, mean, variance = operands[:3]
    shape = (1, -1, *(1,) * (x.ndim - 2))
    centred = x - mean.reshape(shape)
    found = centred / np.sqrt(variance.reshape(shape) + attrs["epsilon"])
    return [_scaled(found, operands[3:5], shape)]


RULES: Mapping[str, Rule] = {
    "ttnn.sum": _sum(mean=False),
    "ttnn.mean": _sum(mean=True),
    "ttnn.max": _extreme(np.max),
    "ttnn.min": _extreme(np.min),
    "ttnn.prod": _product,
    "ttnn.std": _spread(root=True),
    "ttnn.var": _spread(root=False),
    "ttnn.argmax": _argmax,
    "ttnn.topk": _topk,
    "ttnn.sort": lambda attrs, x: list(_ordered(x[0], int(attrs["dim"]), bool(attrs.get("descending")))),
    "ttnn.cumsum": _cumsum,
    "ttnn.softmax": of_one(lambda x, attrs: softmax(x, attrs["dim"])),
    "ttnn.layer_norm": _layer_norm,
    "ttnn.rms_norm": _rms_norm,
    "ttnn.group_norm": _group_norm,
    "ttnn.batch_norm": _batch_norm,
}
