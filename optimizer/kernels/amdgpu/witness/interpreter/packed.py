"""Packed arithmetic (v_pk_*): two float16 in a register, or two float32 in a pair, each half with its like."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .floats import Array, fused_multiply_add, maximum, minimum, wide

_LOW16, _SHIFT16 = np.uint32(0xFFFF), np.uint32(16)
_LOW32, _SHIFT32 = np.uint64(0xFFFFFFFF), np.uint64(32)


def _halves(function: Callable[..., Array]) -> Callable[..., Array]:
    def compute(*sources: Array) -> Array:
        low = [(bits & _LOW16).astype(np.uint16).view(np.float16) for bits in sources]
        high = [(bits >> _SHIFT16).astype(np.uint16).view(np.float16) for bits in sources]
        parts = [function(*part).astype(np.float16).view(np.uint16).astype(np.uint32) for part in (low, high)]
        packed: Array = parts[0] | parts[1] << _SHIFT16
        return packed

    return compute


def _singles(function: Callable[..., Array]) -> Callable[..., Array]:
    def compute(*sources: Array) -> Array:
        low = [(bits & _LOW32).astype(np.uint32).view(np.float32) for bits in sources]
        high = [(bits >> _SHIFT32).astype(np.uint32).view(np.float32) for bits in sources]
        parts = [function(*part).astype(np.float32).view(np.uint32).astype(np.uint64) for part in (low, high)]
        packed: Array = parts[0] | parts[1] << _SHIFT32
        return packed

    return compute


def packed_operations() -> dict[str, tuple[str, Callable[..., Array]]]:
    """Signature and function of every packed operation; sources are registers with the default halves."""
    add, multiply = wide(lambda a, b: a + b), wide(lambda a, b: a * b)

    two, three, wide_two, wide_three = (
        "u32 <- u32 u32",
        "u32 <- u32 u32 u32",
        "u64 <- u64 u64",
        "u64 <- u64 u64 u64",
    )
    return {
        "v_pk_add_f16": (two, _halves(add)),
        "v_pk_mul_f16": (two, _halves(multiply)),
        "v_pk_min_f16": (two, _halves(minimum)),
        "v_pk_max_f16": (two, _halves(maximum)),
        "v_pk_fma_f16": (three, _halves(fused_multiply_add)),
        "v_pk_add_u16": (two, lambda a, b: (a + b & _LOW16) | (a >> _SHIFT16) + (b >> _SHIFT16) << _SHIFT16),
        "v_pk_mul_lo_u16": (
            two,
            lambda a, b: ((a & _LOW16) * (b & _LOW16) & _LOW16) | (a >> _SHIFT16) * (b >> _SHIFT16) << _SHIFT16,
        ),
        "v_pk_mov_b32": (wide_two, lambda a, b: a & _LOW32 | (b & _LOW32) << _SHIFT32),
        "v_pk_add_f32": (wide_two, _singles(add)),
        "v_pk_mul_f32": (wide_two, _singles(multiply)),
        "v_pk_fma_f32": (wide_three, _singles(fused_multiply_add)),
    }
