"""Softmax and the norms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from optimizer.values.reference.kinds import Array, Attrs, Computed, Rule, of_one

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
    return Computed(value, size, size, roundings=roundings, inexact=inexact)


def _layer_norm(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
    x = operands[0]
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return [_scaled(centred / np.sqrt(variance + attrs["epsilon"]), operands[1:3])]


def _rms_norm(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
    x = operands[0]
    return [_scaled(x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + attrs["epsilon"]), operands[1:2])]


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
    "ttnn.softmax": of_one(lambda x, attrs: softmax(x, attrs["dim"])),
    "ttnn.layer_norm": _layer_norm,
    "ttnn.rms_norm": _rms_norm,
    "ttnn.group_norm": _group_norm,
    "ttnn.batch_norm": _batch_norm,
}
