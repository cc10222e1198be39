"""Floating-point arithmetic as the vector unit does it, on numpy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def flush_denormals(values: Array) -> Array:
    """Subnormal float32 become zeros of the same sign (mode `float_denorm_mode_32` 0)."""
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), values), values)


def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once, for float32 or float16 inputs; float64 computes with round to odd in between.

    The product is exact in float64. Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved
    algorithms using rounding to odd" (IEEE TC 2008): rounding the sum to odd first makes the final rounding right.
    """
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    virtual = total - product
    error = (product - (total - virtual)) + (addend - virtual)
    bits = np.atleast_1d(total).view(np.int64).copy()
    odd = (error != 0) & np.isfinite(total) & (bits & 1 == 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    bits += np.where(odd, step, 0)
    exact: Array = bits.view(np.float64)
    return exact.astype(a.dtype)


def wide(function: Callable[..., Array]) -> Callable[..., Array]:
    """Compute in float64 and round once to the type of the first argument."""

    def compute(*arguments: Array) -> Array:
        result: Array = function(*[argument.astype(np.float64) for argument in arguments])
        return result.astype(arguments[0].dtype)

    return compute


def to_integer(values: Array, low: int, high: int) -> Array:
    """Truncate towards zero, saturate, NaN to 0 (V_CVT_I32_F32, V_CVT_U32_F32)."""
    clean = np.nan_to_num(np.trunc(values.astype(np.float64)), nan=0.0, posinf=float(high), neginf=float(low))
    return np.clip(clean, low, high).astype(np.int64)


def half_towards_zero(values: Array) -> Array:
    """float32 to float16, rounded towards zero (V_CVT_PKRTZ_F16_F32)."""
    nearest = values.astype(np.float16)
    over = np.abs(nearest.astype(np.float64)) > np.abs(values.astype(np.float64))
    bits = nearest.view(np.uint16)
    return np.where(over & np.isfinite(values), bits - np.uint16(1), bits).view(np.float16)


def minimum(a: Array, b: Array) -> Array:
    """The smaller number; a NaN loses, -0 is below +0."""
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, np.where((a < b) | (a == b) & np.signbit(a), a, b)))


def maximum(a: Array, b: Array) -> Array:
    """The greater number; a NaN loses, +0 is above -0."""
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, np.where((a > b) | (a == b) & np.signbit(b), a, b)))


def minimum_or_nan(a: Array, b: Array) -> Array:
    """The smaller number, NaN if one is NaN (IEEE 754-2019 minimum)."""
    return np.where(np.isnan(a) | np.isnan(b), np.float32(np.nan), minimum(a, b))


def maximum_or_nan(a: Array, b: Array) -> Array:
    """The greater number, NaN if one is NaN (IEEE 754-2019 maximum)."""
    return np.where(np.isnan(a) | np.isnan(b), np.float32(np.nan), maximum(a, b))


def float32_to_bfloat16(values: Array) -> Array:
    """uint16 bits of bfloat16, rounded to nearest even; NaN stays NaN."""
    bits = values.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    chosen = np.where(np.isnan(values), bits | np.uint32(1 << 22), rounded)
    return (chosen >> np.uint32(16)).astype(np.uint16)


def bfloat16_to_float32(bits: Array) -> Array:
    """uint16 bits of bfloat16 as float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
