"""Numbers on their way from L1 to the source registers or DST, and back: what unpackers and packers keep of them.

Source registers hold 19 bits (sign, 8 of the exponent, 10 of the mantissa), DST 16 or 32. A denormal number is zero
everywhere. Zero has a sign in DST (but not one that came through a source register to 32 bits), and in L1 of 32 bits;
the FPU takes none. Infinities and NaN are not modelled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.rounding import BLOCK_BITS, Array

Bits = NDArray[np.uint32]
UPPER_16, UPPER_19 = np.uint32(0xFFFF0000), np.uint32(0xFFFFE000)
_SIGN, _EXPONENT = np.uint32(0x80000000), np.uint32(0x7F800000)


def bits_of(values: Array) -> Bits:
    return np.ascontiguousarray(values, np.float32).view(np.uint32)


def truncated(values: Array, kept: np.uint32 = UPPER_16) -> Array:
    """Towards zero, to the bits of a mask."""
    return (bits_of(values) & kept).view(np.float32)


def without_denormals(values: Array, keep_sign: bool = False) -> Array:
    """Zero for what has no exponent."""
    bits = bits_of(values)
    zero = bits & _SIGN if keep_sign else np.zeros_like(bits)
    return np.where(bits & _EXPONENT, bits, zero).view(np.float32)


def in_source(values: Array, dtype: DType, wide: bool) -> Array:
    """Numbers of a circular buffer in source register A or B.

    Float32 is cut off at 19 bits, at 16 where DST has 16. Everything else fits.
    """
    return without_denormals(_cut_off(values, dtype, wide))


def _cut_off(values: Array, dtype: DType, wide: bool) -> Array:
    return truncated(values, UPPER_19 if wide else UPPER_16) if dtype is DType.F32 else np.asarray(values, np.float32)


def in_dst(values: Array, dtype: DType, wide: bool, straight: bool) -> Array:
    """Numbers of a circular buffer in DST, through a source register or, `straight`, past them (`UnpackToDestFp32`)."""
    if straight:
        return np.asarray(values, np.float32)
    return in_source(values, dtype, wide) if wide else _cut_off(values, dtype, wide)


def packed(values: Array, wide: bool, dtype: DType) -> Array:
    """Numbers of DST in a circular buffer.

    From a DST of 32 bits to bf16 to the nearest, ties away from zero; to block formats what 16 bits of a number hold is
    taken, ties away from zero again.
    """
    if dtype is DType.F32:
        return np.asarray(values, np.float32) if wide else without_denormals(values)
    bits = bits_of(values)
    if dtype is DType.BF16:
        rounded = (bits + np.uint32(0x8000)) & UPPER_16 if wide else bits
        return without_denormals(rounded.view(np.float32))
    return _shared(without_denormals((bits & UPPER_16).view(np.float32)), BLOCK_BITS[dtype])


def _shared(values: Array, kept: int) -> Array:
    """16 neighbours of a row with the largest exponent of them, 7 bits of each below it, of which `kept` stay.

    The 8 bits of a significand are rounded to 7, shifted down to the exponent and rounded again, ties away from zero
    both times; a shorter format cuts off what it has no bits for.
    """
    groups = values.reshape(*values.shape[:-1], -1, 16)
    bits = (bits_of(groups) + np.uint32(0x10000)) & np.uint32(0xFFFE0000)
    exponents = ((bits & _EXPONENT) >> np.uint32(23)).astype(np.int32)
    shared = exponents.max(axis=-1, keepdims=True)
    significands = ((bits >> np.uint32(17)) & np.uint32(0x3F)).astype(np.int32) | np.where(
        exponents > 0, np.int32(64), np.int32(0)
    )
    down = np.minimum(shared - exponents, 8)
    steps = ((significands + ((1 << down) >> 1)) >> down) >> (7 - kept)
    made = np.ldexp(steps.astype(np.float32), shared - 126 - kept)
    with np.errstate(over="ignore"):
        return np.where(bits & _SIGN, -made, made).astype(np.float32).reshape(values.shape) + np.float32(0.0)
