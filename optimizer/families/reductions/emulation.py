"""Sums, means, softmax and the norms: their kernels' steps, with what is packed between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optimizer.families.elementwise.emulation import rounded_once
from optimizer.families.movement.emulation import kept
from optimizer.families.reductions.reference import RULES
from optimizer.families.reductions.rows import ROWS
from optimizer.ir.dtype import DType
from optimizer.ir.opdef import Elements
from optimizer.kernels.tensix.device.formats import truncated
from optimizer.kernels.tensix.rounding import Array, round_bf16
from optimizer.values.emulation.functions import applied, exponential, rsqrt_approximate
from optimizer.values.emulation.kinds import AnyArray, Rule, Step, in_f32
from optimizer.values.emulation.products import passes
from optimizer.values.emulation.units import Units

_BF16 = DType.BF16


def _axes(step: Step, rank: int) -> tuple[int, ...]:
    dim: Any = step.attrs.get("dim")
    if dim is None:
        return tuple(range(rank))
    return tuple(sorted(int(d) % rank for d in (dim if isinstance(dim, tuple | list) else (dim,))))


def _sum(mean: bool) -> Rule:
    def rule(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
        if operands[0].dtype.kind != "f":
            return rounded_once(step, operands)
        x, dtype, units = in_f32(operands[0]), step.dtypes[0], step.units
        axes = _axes(step, x.ndim)
        for axis in sorted(axes, reverse=True):
            share = np.float32(1 / x.shape[axis]) if mean else np.float32(1)
            x = units.packed(_along(units, x, axis, dtype, share), step.results[0])
            dtype = step.results[0]
        return [
            x if step.attrs.get("keepdim", True) else x.reshape([n for k, n in enumerate(x.shape) if k not in axes])
        ]

    return rule


def _along(units: Units, x: Array, axis: int, dtype: DType, share: np.float32) -> Array:
    """Sums along one dim, which stays with size 1, times a share. Those of f32 are made on the vector unit, in f32."""
    if dtype is DType.F32:
        exactly: Array = (x.sum(axis=axis, keepdims=True, dtype=np.float64) * share).astype(np.float32)
        return exactly
    scaler = float(round_bf16(np.asarray([share], np.float32))[0])
    if axis == x.ndim - 1:
        return units.total(x, dtype, scaler)
    last = x.swapaxes(axis, -2)
    row = np.full((1, last.shape[-2]), scaler, np.float32)
    found = units.matmul(row, np.ascontiguousarray(last), (_BF16, dtype))
    return found.reshape(*last.shape[:-2], 1, last.shape[-1]).swapaxes(axis, -2)


def _extreme(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    found = RULES[step.op](step.attrs, list(operands))[0]
    return [kept(np.asarray(found), step.dtypes[0], step.results[0])]


# -- softmax --------------------------------------------------------------------------------------------------
def _softmax(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    """exp(x - max), its sum's reciprocal, and their product (`softmax.cpp`, ttnn 0.81.1)."""
    units, dtype, between = step.units, step.dtypes[0], step.units.between
    axis = int(step.attrs["dim"])
    x = in_f32(operands[0]).swapaxes(axis, -1)
    most = x.max(axis=-1, keepdims=True)
    lowered = units.minus(x, most, (dtype, between))
    powers = units.packed(exponential(units, lowered, step.approximate), between)
    total = units.total(powers, between)
    shares = units.packed(units.function(applied(np.reciprocal, total), nearest=not step.approximate), between)
    made = units.times(powers, shares, (between, between))
    return [units.packed(made.swapaxes(axis, -1), step.results[0])]


# -- norms ----------------------------------------------------------------------------------------------------
def _mean(units: Units, x: Array, dtype: DType, between: DType) -> Array:
    """Sums of rows, scaled by 1/N on the vector unit, [..., 1]."""
    return units.packed(units.function(units.total(x, dtype) * np.float32(1 / x.shape[-1]), False), between)


def _inverse_root(step: Step, variance: Array, between: DType) -> Array:
    """1/sqrt(variance + epsilon), packed."""
    units, small = step.units, np.full((1,), step.attrs["epsilon"], np.float32)
    total = units.plus(variance, round_bf16(small), (between, _BF16))
    function = rsqrt_approximate if step.approximate else lambda v: 1 / np.sqrt(v)
    return units.packed(units.function(applied(function, total)), between)


def _scaled(step: Step, units: Units, normal: Array, factor: Array, dtype: DType, rest: Sequence[AnyArray]) -> Array:
    """normal * factor * gamma + beta, packed between and at the end."""
    between, result = units.between, step.results[0]
    held = units.times(normal, factor, (dtype, between))
    dtypes = step.dtypes[-len(rest) :] if rest else ()
    for index, (row, row_dtype) in enumerate(zip(rest, dtypes, strict=True)):
        held = units.packed(held, between)
        flat = in_f32(row).reshape(-1)
        combine = units.plus if index else units.times
        held = combine(held, flat, (between, row_dtype))
    return units.packed(held, result)


def _layer_norm(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    """`layernorm.cpp`, ttnn 0.81.1: the deviation, its square, both packed; everything else as it is written."""
    units, between = step.units, step.units.between
    x = in_f32(operands[0])
    centred = units.minus(x, _mean(units, x, step.dtypes[0], between), (step.dtypes[0], between))
    centred = units.packed(centred, between)
    squared = units.packed(units.times(centred, centred, (between, between)), between)
    factor = _inverse_root(step, _mean(units, squared, between, between), between)
    return [_scaled(step, units, centred, factor, between, operands[1:3])]


def _rms_norm(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    """The same without a mean."""
    units, between, dtype = step.units, step.units.between, step.dtypes[0]
    x = in_f32(operands[0])
    squared = units.packed(units.times(x, x, (dtype, dtype)), between)
    factor = _inverse_root(step, _mean(units, squared, between, between), between)
    return [_scaled(step, units, x, factor, dtype, operands[1:2])]


def _group_norm(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    """x - mean, its square, 1/sqrt(variance), their product, that scaled and shifted are kept in the result's type
    (`groupnorm.cpp`, ttnn 0.81.1); means are sums of products with 1/N as bf16 has it, cut off."""
    units, kept_as = step.units, step.results[0]
    x = in_f32(operands[0])
    n, _, rows, channels = x.shape
    groups = step.attrs["num_groups"]
    parts = x.reshape(n, rows, groups, channels // groups)
    mean = units.packed(_share_of_all(units, parts), kept_as)
    centred = units.packed(units.minus(parts, mean, (step.dtypes[0], kept_as)), kept_as)
    squared = units.packed(units.times(centred, centred, (kept_as, kept_as)), kept_as)
    variance = units.packed(_share_of_all(units, squared), kept_as)
    factor = _inverse_root(step, variance, kept_as)
    made = units.packed(units.times(centred, factor, (kept_as, kept_as)), kept_as).reshape(x.shape)
    for index, row in enumerate(operands[1:3]):
        combine = units.plus if index else units.times
        made = units.packed(combine(made, in_f32(row).reshape(-1), (kept_as, step.dtypes[1 + index])), kept_as)
    return [made]


def _share_of_all(units: Units, x: Array) -> Array:
    """Means over rows and channels of groups [N, rows, groups, channels], which go through source register A.

    Sums in registers of 16 bits come out larger, by about what the scalar is too small: there it is taken as exact.
    """
    share = np.asarray([1 / (x.shape[1] * x.shape[3])], np.float32)
    made = sum(
        a.astype(np.float64) * b for a, b in passes(truncated(share) if units.wide else share, x, units.fidelity)
    )
    return units.function(np.asarray(made).sum(axis=(1, 3), keepdims=True))


EMULATIONS: Mapping[str, Rule] = {
    **{name: _extreme if row.elements is Elements.SELECTED else rounded_once for name, row in ROWS.items()},
    "ttnn.sum": _sum(mean=False),
    "ttnn.mean": _sum(mean=True),
    "ttnn.softmax": _softmax,
    "ttnn.layer_norm": _layer_norm,
    "ttnn.rms_norm": _rms_norm,
    "ttnn.group_norm": _group_norm,
}
