"""Floating-point arithmetic as the vector unit does it, on numpy arrays: also packed, and the steps of a division.

A correctly rounded float32 division has three: scale, fused multiply-add with rescaling, fix-up. Source: pseudo-code of
V_DIV_SCALE_F32, V_DIV_FMAS_F32 and V_DIV_FIXUP_F32 in AMD's ISA documents, the factor of v_div_fmas and the overflow of
v_div_fixup as the newer ones (RDNA3) spell them out: the older text does not invert the scaling. The tests hold the
three steps together against a correctly rounded division.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_BIAS = 127
_SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)
_LOW16, _SHIFT16 = np.uint32(0xFFFF), np.uint32(16)
_LOW32, _SHIFT32 = np.uint64(0xFFFFFFFF), np.uint64(32)


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


# -- division -----------------------------------------------------------------------------------------
def _exponent(values: Array) -> Array:
    """The biased exponent field."""
    field: Array = np.ascontiguousarray(values).view(np.uint32) >> np.uint32(23) & np.uint32(255)
    return field.astype(np.int64)


def _is_denormal(values: Array) -> Array:
    """Whether a float64 quotient would be subnormal as float32."""
    small: Array = (values != 0) & (np.abs(values) < _SMALLEST_NORMAL)
    return small


def divide_scale(value: Array, denominator: Array, numerator: Array) -> tuple[Array, Array]:
    """`value` (the denominator or the numerator again) scaled by a power of two, and where v_div_fmas must undo it."""
    below, above = denominator.astype(np.float64), numerator.astype(np.float64)
    reciprocal, quotient = 1 / below, above / below
    far = _exponent(numerator) - _exponent(denominator) >= 96
    tiny_denominator = _is_denormal(below)
    tiny_reciprocal, tiny_quotient = _is_denormal(reciprocal), _is_denormal(quotient)
    is_denominator, is_numerator = value == denominator, value == numerator
    conditions = [
        (above == 0) | (below == 0),
        far,
        tiny_denominator,
        tiny_reciprocal & tiny_quotient,
        tiny_reciprocal,
        tiny_quotient,
        _exponent(numerator) <= 23,
    ]
    up, down = np.ldexp(value, 64), np.ldexp(value, -64)
    choices = [
        np.full_like(value, np.nan),
        np.where(is_denominator, up, value),
        up,
        np.where(is_denominator, up, value),
        down,
        np.where(is_numerator, up, value),
        up,
    ]
    undo = np.select(conditions, [np.full(far.shape, position in (1, 3, 5)) for position in range(7)], False)
    return np.select(conditions, choices, value).astype(np.float32), undo


def divide_fmas(a: Array, b: Array, c: Array, scaled: Array) -> Array:
    """a * b + c, scaled by 2^64 or 2^-64 where v_div_scale asked for it: away from the exponent of the estimate c."""
    exact = a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
    shift = np.where(_exponent(c) > _BIAS, 64, -64)
    return np.where(scaled, np.ldexp(exact, shift).astype(np.float32), fused_multiply_add(a, b, c))


def divide_fixup(quotient: Array, denominator: Array, numerator: Array) -> Array:
    """The quotient with its sign and the special cases put right."""
    negative = np.signbit(denominator) ^ np.signbit(numerator)
    magnitude = np.abs(quotient)
    infinite = (denominator == 0) | np.isinf(numerator)
    zero = np.isinf(denominator) | (numerator == 0)
    undefined = np.isnan(denominator) | np.isnan(numerator) | infinite & zero
    underflow = _exponent(numerator) - _exponent(denominator) < -150
    # An estimate that is not a number means that the steps before overflowed.
    conditions = [undefined, infinite, zero | underflow, np.isnan(quotient)]
    specials = [np.full_like(magnitude, special) for special in (np.nan, np.inf, 0, np.inf)]
    chosen = np.select(conditions, specials, magnitude)
    return np.where(negative, -chosen, chosen).astype(np.float32)


# -- packed: two float16 in a register, or two float32 in a pair, each half with its like ----------------
def _by_parts(function: Callable[..., Array], number: Any, part: Any, whole: Any) -> Callable[..., Array]:
    """The function of floats on two at a time: `number` is their type, `part` that of their bits, `whole` of both's."""
    low_bits, shift = whole(np.iinfo(part).max), whole(np.iinfo(part).bits)

    def compute(*sources: Array) -> Array:
        low = [(bits & low_bits).astype(part).view(number) for bits in sources]
        high = [(bits >> shift).astype(part).view(number) for bits in sources]
        parts = [function(*half).astype(number).view(part).astype(whole) for half in (low, high)]
        packed: Array = parts[0] | parts[1] << shift
        return packed

    return compute


def _halves(function: Callable[..., Array]) -> Callable[..., Array]:
    return _by_parts(function, np.float16, np.uint16, np.uint32)


def _singles(function: Callable[..., Array]) -> Callable[..., Array]:
    return _by_parts(function, np.float32, np.uint32, np.uint64)


def packed_operations() -> dict[str, tuple[str, Callable[..., Array]]]:
    """Signature and function of every packed operation; sources are registers with the default halves."""
    add, multiply = wide(lambda a, b: a + b), wide(lambda a, b: a * b)
    two, wide_two = "u32 <- u32 u32", "u64 <- u64 u64"
    return {
        "v_pk_add_f16": (two, _halves(add)),
        "v_pk_mul_f16": (two, _halves(multiply)),
        "v_pk_min_f16": (two, _halves(minimum)),
        "v_pk_max_f16": (two, _halves(maximum)),
        "v_pk_fma_f16": (f"{two} u32", _halves(fused_multiply_add)),
        "v_pk_add_u16": (two, lambda a, b: (a + b & _LOW16) | (a >> _SHIFT16) + (b >> _SHIFT16) << _SHIFT16),
        "v_pk_mul_lo_u16": (
            two,
            lambda a, b: ((a & _LOW16) * (b & _LOW16) & _LOW16) | (a >> _SHIFT16) * (b >> _SHIFT16) << _SHIFT16,
        ),
        "v_pk_mov_b32": (wide_two, lambda a, b: a & _LOW32 | (b & _LOW32) << _SHIFT32),
        "v_pk_add_f32": (wide_two, _singles(add)),
        "v_pk_mul_f32": (wide_two, _singles(multiply)),
        "v_pk_fma_f32": (f"{wide_two} u64", _singles(fused_multiply_add)),
    }
