"""Element types on numpy: what a value becomes when it is kept in 16 bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import DTypeError
from optimizer.ir.dtype import DType

Array = NDArray[np.float32]


def round_bf16(values: Array) -> Array:
    """To the nearest bfloat16, ties to even; infinities and NaN stay what they are."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isfinite(values), rounded.view(np.float32), values).astype(np.float32)


def rounded(values: Array, dtype: DType) -> Array:
    """Values as an element type holds them. DTypeError for block formats, whose exponents are shared."""
    if dtype is DType.F32:
        return np.asarray(values, dtype=np.float32)
    if dtype is DType.BF16:
        return round_bf16(values)
    raise DTypeError(f"kernels are not interpreted with {dtype.value} values", alternatives=("bf16", "f32"))
