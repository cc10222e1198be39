"""Packed arithmetic (v_pk_*): two float16 in a register, or two float32 in a pair, each half with its like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .floats import Array, fused_multiply_add, maximum, minimum, wide

_LOW16, _SHIFT16 = np.uint32(0xFFFF), np.uint32(16)
_LOW32, _SHIFT32 = np.uint64(0xFFFFFFFF), np.uint64(32)


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
