"""The three steps of a correctly rounded float32 division: scale, fused multiply-add with rescaling, fix-up.

Source: pseudo-code of V_DIV_SCALE_F32, V_DIV_FMAS_F32 and V_DIV_FIXUP_F32 in AMD's ISA documents, the factor of
v_div_fmas and the overflow of v_div_fixup as the newer ones (RDNA3) spell them out: the older text does not invert the
scaling. The tests hold the three steps together against a correctly rounded division.
"""

from __future__ import annotations

import numpy as np

from .floats import Array, fused_multiply_add

_BIAS = 127
_SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)


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
