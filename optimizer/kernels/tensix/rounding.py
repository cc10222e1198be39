"""Element types on numpy: what a value becomes when it is kept in fewer bits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np
from ml_dtypes import bfloat16
from numpy.typing import NDArray

from optimizer.errors import DTypeError
from optimizer.ir.dtype import DType

Array = NDArray[np.float32]
BLOCK_BITS: Mapping[DType, int] = MappingProxyType({DType.BFP8_B: 7, DType.BFP4_B: 3})
"""Bits of a magnitude in the formats whose exponents are shared."""
FLOATS = (DType.BFP4_B, DType.BFP8_B, DType.BF16, DType.F32)
"""Element types of kernels, from narrow to wide."""
FORMAT_NUMBERS: Mapping[DType, int] = MappingProxyType({DType.F32: 0, DType.BF16: 5, DType.BFP8_B: 6, DType.BFP4_B: 7})
"""tt-metal's `DataFormat` (`tt_backend_api_types.hpp`)."""


def widest(dtypes: Iterable[DType]) -> DType:
    """The element type that holds values of all of these."""
    return max(dtypes, key=FLOATS.index)


def round_bf16(values: Array) -> Array:
    """To the nearest bfloat16, ties to even; infinities and NaN stay what they are."""
    return np.asarray(values, np.float32).astype(bfloat16).astype(np.float32)


def rounded(values: Array, dtype: DType) -> Array:
    """Values as an element type holds them. DTypeError for block formats, whose exponents are shared."""
    if dtype is DType.F32:
        return np.asarray(values, dtype=np.float32)
    if dtype is DType.BF16:
        return round_bf16(values)
    if dtype in BLOCK_BITS:
        return round_block_float(values, BLOCK_BITS[dtype])
    raise DTypeError(f"kernels are not interpreted with {dtype.value} values", alternatives=[d.value for d in FLOATS])


def packer_sum(kept: Array, added: Array, dtype: DType) -> Array:
    """What the packer makes of numbers in L1 that it adds to: their sum, rounded once, to bf16 or float32."""
    exact = kept.astype(np.float64) + added.astype(np.float64)
    if dtype is DType.F32:
        return exact.astype(np.float32)
    near = exact.astype(np.float32)
    halfway = (np.ascontiguousarray(near).view(np.uint32) & np.uint32(0xFFFF)) == 0x8000
    beside = np.where(exact > near, np.float32(np.inf), np.float32(-np.inf))
    return round_bf16(np.where(halfway & (exact != near), np.nextafter(near, beside), near).astype(np.float32))


def round_block_float(values: Array, bits: int) -> Array:
    """To a block format: 16 neighbours of a row share the largest exponent and keep `bits` bits below it.

    To the nearest, ties to even, and no higher than the largest magnitude; zero has no sign (tt-metal,
    `blockfloat_common.cpp`). The last dimension is a multiple of 16.
    """
    groups = np.asarray(values, np.float32).reshape(*values.shape[:-1], -1, 16)
    largest = np.max(np.abs(groups), axis=-1, keepdims=True, initial=0.0)
    quantum = np.ldexp(np.float32(1.0), np.frexp(largest)[1] - bits)
    steps = np.clip(np.rint(groups / quantum), 1 - 2**bits, 2**bits - 1)
    made = np.where(largest > 0, steps * quantum, np.where(np.isnan(groups), groups, 0.0))
    return made.astype(np.float32).reshape(values.shape) + np.float32(0.0)
