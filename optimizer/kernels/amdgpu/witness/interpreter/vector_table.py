"""The vector ALU's operations on 64 lanes: types of results and sources, and what they compute.

Types: u, i and f with 16, 32 or 64 bits, m64 a lane mask in an SGPR pair. Transcendental operations are rounded
correctly here and within 1 ulp by the hardware (CDNA3 ISA, chapter "Vector ALU Operations").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .floats import (
    Array,
    divide_fixup,
    divide_fmas,
    divide_scale,
    float32_to_bfloat16,
    fused_multiply_add,
    half_towards_zero,
    maximum,
    maximum_or_nan,
    minimum,
    minimum_or_nan,
    packed_operations,
    to_integer,
    wide,
)


@dataclass(frozen=True, slots=True)
class VectorOp:
    results: tuple[str, ...]
    sources: tuple[str, ...]
    compute: Callable[..., Any]
    unit: str = "valu"
    tied: bool = False
    """The destination is also the last source (v_fmac)."""
    writes_exec: bool = False
    reads_vcc: bool = False
    """vcc is an implicit last source (v_div_fmas)."""
    registers_only: bool = False


def _op(signature: str, compute: Callable[..., Any], unit: str = "valu", *, tied: bool = False) -> VectorOp:
    results, _, sources = signature.partition("<-")
    return VectorOp(tuple(results.split()), tuple(sources.split()), compute, unit, tied)


def _u64(values: Array) -> Array:
    return values.astype(np.uint64)


def _i64(values: Array) -> Array:
    return values.astype(np.int64)


def _low(values: Array) -> Array:
    low: Array = values & np.array(0xFFFFFFFF, values.dtype)
    return low.astype(np.uint32)


def _shift(bits: int) -> Callable[[Array], Array]:
    return lambda amount: amount & np.uint32(bits - 1)


_by32, _by64 = _shift(32), _shift(64)


def _bfe(value: Array, offset: Array, width: Array) -> Array:
    size = (width & np.uint32(31)).astype(np.uint64)
    return _low(_u64(value) >> _u64(_by32(offset)) & ((np.uint64(1) << size) - np.uint64(1)))


def _bfe_signed(value: Array, offset: Array, width: Array) -> Array:
    field = _i64(_bfe(value, offset, width))
    size = _i64(width & np.uint32(31))
    top = np.int64(1) << np.maximum(size - 1, 0)
    return np.where(size == 0, 0, (field ^ top) - top).astype(np.int32).view(np.uint32)


def _add_carry(a: Array, b: Array, carry: Array | int = 0) -> tuple[Array, Array]:
    exact: Array = _u64(a) + _u64(b) + np.asarray(carry).astype(np.uint64)
    return _low(exact), exact >> np.uint64(32) != 0


def _sub_borrow(a: Array, b: Array, borrow: Array | int = 0) -> tuple[Array, Array]:
    exact: Array = _i64(a) - _i64(b) - np.asarray(borrow).astype(np.int64)
    return _low(exact.astype(np.uint64)), exact < 0


def _mad_wide(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    product = _u64(a) * _u64(b)
    total = product + c
    return total, total < product


def _mad_wide_signed(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    product = _i64(a) * _i64(b)
    total = product + c
    return total, ((product ^ total) & (c ^ total)) < 0


def _signed24(values: Array) -> Array:
    return (_i64(values & np.uint32(0xFFFFFF)) ^ 0x800000) - 0x800000


def _unsigned24(values: Array) -> Array:
    return _u64(values & np.uint32(0xFFFFFF))


def _perm(a: Array, b: Array, selector: Array) -> Array:
    """Bytes 0..7 of a:b by number, 8..11 the sign of halves 0..3 in every bit, 12 zero, above all ones."""
    joined = _u64(a) << np.uint64(32) | _u64(b)
    result = np.zeros(np.broadcast_shapes(a.shape, b.shape, selector.shape), np.uint32)
    for position in range(4):
        select = selector >> np.uint32(8 * position) & np.uint32(0xFF)
        byte = _low(joined >> _u64(np.minimum(select, 7) * np.uint32(8)) & np.uint64(0xFF))
        half = np.clip(select.astype(np.int64) - 8, 0, 3)
        sign = _low(joined >> _u64(16 * half + 15) & np.uint64(1)) * np.uint32(0xFF)
        special = np.where(select < 12, sign, np.where(select == 12, np.uint32(0), np.uint32(0xFF)))
        result = result | np.where(select < 8, byte, special) << np.uint32(8 * position)
    return result


def _reverse(values: Array) -> Array:
    octets = np.unpackbits(np.ascontiguousarray(values).view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")
    return np.packbits(octets[:, ::-1], axis=1, bitorder="little").view(np.uint32).reshape(-1)


def _bit_count(values: Array) -> Array:
    octets = np.ascontiguousarray(values).view(np.uint8).reshape(-1, 4)
    counts: Array = np.unpackbits(octets, axis=1).sum(axis=1, dtype=np.uint32)
    return counts


def _highest(values: Array) -> Array:
    _, exponent = np.frexp(values.astype(np.float64))
    return np.where(values == 0, np.uint32(0xFFFFFFFF), (32 - exponent).astype(np.uint32))


def _lowest(values: Array) -> Array:
    isolated = values & (~values + np.uint32(1))
    _, exponent = np.frexp(isolated.astype(np.float64))
    return np.where(values == 0, np.uint32(0xFFFFFFFF), (exponent - 1).astype(np.uint32))


_Two = Callable[[Array, Array], Array]


def _of_three(function: _Two) -> Callable[[Array, Array, Array], Array]:
    return lambda a, b, c: function(function(a, b), c)


def _median(low: _Two, high: _Two) -> Callable[[Array, Array, Array], Array]:
    return lambda a, b, c: high(low(a, b), low(high(a, b), c))


def _before_count(lane_first: int) -> Callable[[Array, Array], Array]:
    """v_mbcnt: the mask's set bits in lanes below this one, in the half of the wave that starts at `lane_first`."""
    lanes = np.arange(64)
    below = np.clip(lanes - lane_first, 0, 32).astype(np.uint64)
    thread_mask = ((np.uint64(1) << below) - np.uint64(1)).astype(np.uint32)
    return lambda mask, start: _bit_count(mask & thread_mask) + start


def _integer_table() -> dict[str, VectorOp]:
    two, three = "u32 <- u32 u32", "u32 <- u32 u32 u32"
    signed_two = "i32 <- i32 i32"
    return {
        "v_mov_b32": _op("u32 <- u32", lambda a: a),
        "v_mov_b64": _op("u64 <- u64", lambda a: a),
        "v_not_b32": _op("u32 <- u32", lambda a: ~a),
        "v_bfrev_b32": _op("u32 <- u32", _reverse),
        "v_ffbh_u32": _op("u32 <- u32", _highest),
        "v_ffbl_b32": _op("u32 <- u32", _lowest),
        "v_bcnt_u32_b32": _op(two, lambda a, b: _bit_count(a) + b),
        "v_add_u32": _op(two, lambda a, b: a + b),
        "v_sub_u32": _op(two, lambda a, b: a - b),
        "v_subrev_u32": _op(two, lambda a, b: b - a),
        "v_add_co_u32": _op("u32 m64 <- u32 u32", _add_carry),
        "v_sub_co_u32": _op("u32 m64 <- u32 u32", _sub_borrow),
        "v_subrev_co_u32": _op("u32 m64 <- u32 u32", lambda a, b: _sub_borrow(b, a)),
        "v_addc_co_u32": _op("u32 m64 <- u32 u32 m64", _add_carry),
        "v_subb_co_u32": _op("u32 m64 <- u32 u32 m64", _sub_borrow),
        "v_add3_u32": _op(three, lambda a, b, c: a + b + c),
        "v_add_lshl_u32": _op(three, lambda a, b, c: a + b << _by32(c)),
        "v_lshl_add_u32": _op(three, lambda a, b, c: (a << _by32(b)) + c),
        "v_lshl_or_b32": _op(three, lambda a, b, c: a << _by32(b) | c),
        "v_and_or_b32": _op(three, lambda a, b, c: a & b | c),
        "v_or3_b32": _op(three, lambda a, b, c: a | b | c),
        "v_xad_u32": _op(three, lambda a, b, c: (a ^ b) + c),
        "v_bfi_b32": _op(three, lambda a, b, c: a & b | ~a & c),
        "v_bfe_u32": _op(three, _bfe),
        "v_bfe_i32": _op(three, _bfe_signed),
        "v_bfm_b32": _op(two, lambda a, b: ((np.uint32(1) << _by32(a)) - np.uint32(1)) << _by32(b)),
        "v_perm_b32": _op(three, _perm),
        "v_alignbyte_b32": _op(
            three, lambda a, b, c: _low((_u64(a) << np.uint64(32) | _u64(b)) >> _u64((c & np.uint32(3)) * np.uint32(8)))
        ),
        "v_alignbit_b32": _op(three, lambda a, b, c: _low((_u64(a) << np.uint64(32) | _u64(b)) >> _u64(_by32(c)))),
        "v_and_b32": _op(two, lambda a, b: a & b),
        "v_or_b32": _op(two, lambda a, b: a | b),
        "v_xor_b32": _op(two, lambda a, b: a ^ b),
        "v_xnor_b32": _op(two, lambda a, b: ~(a ^ b)),
        "v_lshlrev_b32": _op(two, lambda a, b: b << _by32(a)),
        "v_lshrrev_b32": _op(two, lambda a, b: b >> _by32(a)),
        "v_ashrrev_i32": _op("i32 <- u32 i32", lambda a, b: b >> _by32(a).astype(np.int32)),
        "v_lshlrev_b64": _op("u64 <- u32 u64", lambda a, b: b << _u64(_by64(a))),
        "v_lshrrev_b64": _op("u64 <- u32 u64", lambda a, b: b >> _u64(_by64(a))),
        "v_ashrrev_i64": _op("i64 <- u32 i64", lambda a, b: b >> _i64(_by64(a))),
        "v_lshl_add_u64": _op("u64 <- u64 u32 u64", lambda a, b, c: (a << _u64(b & np.uint32(7))) + c),
        "v_mul_lo_u32": _op(two, lambda a, b: _low(_u64(a) * _u64(b))),
        "v_mul_hi_u32": _op(two, lambda a, b: _low(_u64(a) * _u64(b) >> np.uint64(32))),
        "v_mul_hi_i32": _op(signed_two, lambda a, b: (_i64(a) * _i64(b) >> 32).astype(np.int32)),
        "v_mul_u32_u24": _op(two, lambda a, b: _low(_unsigned24(a) * _unsigned24(b))),
        "v_mul_i32_i24": _op(two, lambda a, b: _low(_u64(_signed24(a) * _signed24(b)))),
        "v_mad_u32_u24": _op(three, lambda a, b, c: _low(_unsigned24(a) * _unsigned24(b)) + c),
        "v_mad_i32_i24": _op(three, lambda a, b, c: _low(_u64(_signed24(a) * _signed24(b))) + c),
        "v_mul_hi_u32_u24": _op(two, lambda a, b: _low(_unsigned24(a) * _unsigned24(b) >> np.uint64(32))),
        "v_mul_hi_i32_i24": _op(two, lambda a, b: _low(_u64(_signed24(a) * _signed24(b) >> 32))),
        "v_mad_i64_i32": _op("i64 m64 <- i32 i32 i64", _mad_wide_signed),
        "v_mad_u64_u32": _op("u64 m64 <- u32 u32 u64", _mad_wide),
        **{f"v_min_{k}": _op(f"{k} <- {k} {k}", np.minimum) for k in ("u32", "i32")},
        **{f"v_max_{k}": _op(f"{k} <- {k} {k}", np.maximum) for k in ("u32", "i32")},
        **{f"v_min3_{k}": _op(f"{k} <- {k} {k} {k}", _of_three(np.minimum)) for k in ("u32", "i32")},
        **{f"v_max3_{k}": _op(f"{k} <- {k} {k} {k}", _of_three(np.maximum)) for k in ("u32", "i32")},
        **{f"v_med3_{k}": _op(f"{k} <- {k} {k} {k}", _median(np.minimum, np.maximum)) for k in ("u32", "i32")},
        "v_cndmask_b32": _op("u32 <- u32 u32 m64", lambda a, b, lanes: np.where(lanes, b, a)),
        "v_mbcnt_lo_u32_b32": _op(two, _before_count(0)),
        "v_mbcnt_hi_u32_b32": _op(two, _before_count(32)),
        "v_pack_b32_f16": _op(
            "u32 <- u16 u16", lambda a, b: a.astype(np.uint32) | b.astype(np.uint32) << np.uint32(16)
        ),
        "v_add_u16": _op("u16 <- u16 u16", lambda a, b: a + b),
        "v_sub_u16": _op("u16 <- u16 u16", lambda a, b: a - b),
        "v_mul_lo_u16": _op("u16 <- u16 u16", lambda a, b: a * b),
        "v_lshlrev_b16": _op("u16 <- u16 u16", lambda a, b: b << (a & np.uint16(15))),
        "v_lshrrev_b16": _op("u16 <- u16 u16", lambda a, b: b >> (a & np.uint16(15))),
        "v_and_b16": _op("u16 <- u16 u16", lambda a, b: a & b),
    }


def _float_table() -> dict[str, VectorOp]:
    table: dict[str, VectorOp] = {}
    for kind in ("f32", "f16"):
        one, two, three = f"{kind} <- {kind}", f"{kind} <- {kind} {kind}", f"{kind} <- {kind} {kind} {kind}"
        table |= {
            f"v_add_{kind}": _op(two, wide(lambda a, b: a + b)),
            f"v_sub_{kind}": _op(two, wide(lambda a, b: a - b)),
            f"v_subrev_{kind}": _op(two, wide(lambda a, b: b - a)),
            f"v_mul_{kind}": _op(two, wide(lambda a, b: a * b)),
            f"v_min_{kind}": _op(two, minimum),
            f"v_max_{kind}": _op(two, maximum),
            f"v_fma_{kind}": _op(three, fused_multiply_add),
            f"v_fmac_{kind}": _op(two, fused_multiply_add, tied=True),
            f"v_max3_{kind}": _op(three, _of_three(maximum)),
            f"v_min3_{kind}": _op(three, _of_three(minimum)),
            f"v_med3_{kind}": _op(three, _median(minimum, maximum)),
            f"v_floor_{kind}": _op(one, np.floor),
            f"v_ceil_{kind}": _op(one, np.ceil),
            f"v_trunc_{kind}": _op(one, np.trunc),
            f"v_rndne_{kind}": _op(one, np.rint),
            f"v_fract_{kind}": _op(one, lambda a: a - np.floor(a)),
            f"v_exp_{kind}": _op(one, wide(np.exp2), "trans"),
            f"v_log_{kind}": _op(one, wide(np.log2), "trans"),
            f"v_rcp_{kind}": _op(one, wide(np.reciprocal), "trans"),
            f"v_rsq_{kind}": _op(one, wide(lambda a: 1 / np.sqrt(a)), "trans"),
            f"v_sqrt_{kind}": _op(one, wide(np.sqrt), "trans"),
            f"v_sin_{kind}": _op(one, wide(lambda a: np.sin(2 * np.pi * a)), "trans"),
            f"v_cos_{kind}": _op(one, wide(lambda a: np.cos(2 * np.pi * a)), "trans"),
            f"v_ldexp_{kind}": _op(f"{kind} <- {kind} i{32 if kind == 'f32' else 16}", np.ldexp),
        }
    table["v_minimum3_f32"] = _op("f32 <- f32 f32 f32", _of_three(minimum_or_nan))
    table["v_maximum3_f32"] = _op("f32 <- f32 f32 f32", _of_three(maximum_or_nan))
    table["v_add_f64"] = _op("f64 <- f64 f64", lambda a, b: a + b)
    table["v_mul_f64"] = _op("f64 <- f64 f64", lambda a, b: a * b)
    table["v_rcp_iflag_f32"] = table["v_rcp_f32"]
    return table


def _conversions() -> dict[str, VectorOp]:
    low, high = -(1 << 31), (1 << 31) - 1
    floats = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
    plain = (("f32", "f16"), ("f16", "f32"), ("f32", "u32"), ("f32", "i32"), ("f16", "u16"), ("f16", "i16"),
             ("f64", "f32"), ("f32", "f64"))  # fmt: skip
    table = {
        **{f"v_cvt_{to}_{kind}": _op(f"{to} <- {kind}", _as(floats[to])) for to, kind in plain},
        "v_cvt_u32_f32": _op("u32 <- f32", lambda a: to_integer(a, 0, (1 << 32) - 1).astype(np.uint32)),
        "v_cvt_i32_f32": _op("i32 <- f32", lambda a: to_integer(a, low, high).astype(np.int32)),
        "v_cvt_u16_f16": _op("u16 <- f16", lambda a: to_integer(a, 0, 65535).astype(np.uint16)),
        "v_cvt_i16_f16": _op("i16 <- f16", lambda a: to_integer(a, -32768, 32767).astype(np.int16)),
        "v_cvt_pk_i16_i32": _op("u32 <- i32 i32", lambda a, b: _pack(*(np.clip(x, -32768, 32767) for x in (a, b)))),
        "v_cvt_pk_u16_u32": _op("u32 <- u32 u32", lambda a, b: _pack(*(np.minimum(x, 65535) for x in (a, b)))),
        "v_cvt_pknorm_i16_f32": _op("u32 <- f32 f32", lambda a, b: _pack(_normalised(a), _normalised(b))),
        "v_cvt_pkrtz_f16_f32": _op("u32 <- f32 f32", _pack_towards_zero),
        "v_cvt_pk_f16_f32": _op("u32 <- f32 f32", lambda a, b: _pack(_half_bits(a), _half_bits(b))),
        "v_cvt_pk_bf16_f32": _op("u32 <- f32 f32", lambda a, b: _pack(float32_to_bfloat16(a), float32_to_bfloat16(b))),
    }
    for byte in range(4):
        shift = np.uint32(8 * byte)
        table[f"v_cvt_f32_ubyte{byte}"] = _op(
            "f32 <- u32", lambda a, shift=shift: (a >> shift & np.uint32(0xFF)).astype(np.float32)
        )
    return table


def _as(kind: Any) -> Callable[[Array], Array]:
    return lambda a: a.astype(kind)


def _half_bits(values: Array) -> Array:
    return values.astype(np.float16).view(np.uint16)


def _pack(low: Array, high: Array) -> Array:
    packed: Array = low.astype(np.int64) & 0xFFFF | (high.astype(np.int64) & 0xFFFF) << 16
    return packed.astype(np.uint32)


def _normalised(values: Array) -> Array:
    """[-1, 1] to -32767..32767, rounded to nearest even."""
    scaled: Array = np.nan_to_num(np.clip(values, -1, 1)).astype(np.float64) * 32767
    return np.rint(scaled)


def _pack_towards_zero(a: Array, b: Array) -> Array:
    low, high = half_towards_zero(a).view(np.uint16), half_towards_zero(b).view(np.uint16)
    return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)


def _comparisons() -> dict[str, VectorOp]:
    relations: dict[str, Callable[[Array, Array], Array]] = {
        "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
        "ge": np.greater_equal,
    }  # fmt: skip
    negated: dict[str, Callable[[Array, Array], Array]] = {
        "neq": np.not_equal,
        "nlt": lambda a, b: ~(a < b),
        "nle": lambda a, b: ~(a <= b),
        "ngt": lambda a, b: ~(a > b),
        "nge": lambda a, b: ~(a >= b),
        "lg": lambda a, b: (a < b) | (a > b),
        "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
        "u": lambda a, b: np.isnan(a) | np.isnan(b),
    }
    table = {}
    for kind in ("u32", "i32", "f32", "f16", "u16", "i16", "u64", "i64", "f64"):
        found = {name: relations[name] for name in relations if not (kind[0] == "f" and name == "ne")}
        for name, relation in (found | (negated if kind[0] == "f" else {})).items():
            for verb in ("cmp", "cmpx"):
                table[f"v_{verb}_{name}_{kind}"] = VectorOp(
                    ("m64",), (kind, kind), relation, writes_exec=verb == "cmpx"
                )
    return table


def _composite() -> dict[str, VectorOp]:
    table = {
        "v_div_scale_f32": _op("f32 m64 <- f32 f32 f32", divide_scale),
        "v_div_fmas_f32": VectorOp(("f32",), ("f32", "f32", "f32"), divide_fmas, reads_vcc=True),
        "v_div_fixup_f32": _op("f32 <- f32 f32 f32", divide_fixup),
    }
    for name, (signature, compute) in packed_operations().items():
        table[name] = replace(_op(signature, compute), registers_only=True)
    return table


TABLE = {**_integer_table(), **_float_table(), **_conversions(), **_comparisons(), **_composite()}
