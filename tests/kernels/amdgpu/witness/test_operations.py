"""Single vector and scalar operations on 64 lanes, against Python's integers and numpy's floats."""

# Every expectation takes the three sources, used or not.
# ruff: noqa: ARG005

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gfx942_texts
import numpy as np
import pytest
from gfx942.llvm import find_llvm, require_llvm
from launches import Array, run_body, run_lanes

RANDOM = np.random.default_rng(3)
EDGES = np.array([0, 1, 2, 31, 32, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF, 0x10000, 0x800000, 0xFFFFFF], np.uint32)


def words() -> Array:
    values = RANDOM.integers(0, 1 << 32, 64, dtype=np.uint32)
    values[:24:2] = EDGES
    return RANDOM.permutation(values)


A, B, C = words(), words(), words()
MASK = 0xFFFFFFFF


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def pair(low: int, high: int) -> int:
    return low & 0xFFFF | (high & 0xFFFF) << 16


def low24(value: int) -> int:
    return value & 0xFFFFFF


# instruction with sources v2, v4, v6 -> what it makes of the three numbers of a lane
INTEGERS: tuple[tuple[str, Callable[[int, int, int], int]], ...] = (
    ("v_add_u32_e32 v8, v2, v4", lambda a, b, c: a + b),
    ("v_sub_u32_e32 v8, v2, v4", lambda a, b, c: a - b),
    ("v_subrev_u32_e32 v8, v2, v4", lambda a, b, c: b - a),
    ("v_add3_u32 v8, v2, v4, v6", lambda a, b, c: a + b + c),
    ("v_lshl_add_u32 v8, v2, v4, v6", lambda a, b, c: (a << (b & 31)) + c),
    ("v_add_lshl_u32 v8, v2, v4, v6", lambda a, b, c: (a + b) << (c & 31)),
    ("v_lshl_or_b32 v8, v2, v4, v6", lambda a, b, c: (a << (b & 31)) | c),
    ("v_and_or_b32 v8, v2, v4, v6", lambda a, b, c: (a & b) | c),
    ("v_or3_b32 v8, v2, v4, v6", lambda a, b, c: a | b | c),
    ("v_xad_u32 v8, v2, v4, v6", lambda a, b, c: (a ^ b) + c),
    ("v_bfi_b32 v8, v2, v4, v6", lambda a, b, c: (a & b) | (~a & c)),
    ("v_bfe_u32 v8, v2, v4, v6", lambda a, b, c: (a >> (b & 31)) & ((1 << (c & 31)) - 1)),
    (
        "v_bfe_i32 v8, v2, v4, v6",
        lambda a, b, c: signed((a >> (b & 31)) & ((1 << (c & 31)) - 1), c & 31) if c & 31 else 0,
    ),
    ("v_alignbit_b32 v8, v2, v4, v6", lambda a, b, c: (a << 32 | b) >> (c & 31)),
    ("v_perm_b32 v8, v2, v4, v6", lambda a, b, c: permuted(a << 32 | b, c)),
    ("v_alignbyte_b32 v8, v2, v4, v6", lambda a, b, c: (a << 32 | b) >> 8 * (c & 3)),
    ("v_min3_i32 v8, v2, v4, v6", lambda a, b, c: min(signed(a), signed(b), signed(c))),
    ("v_max3_i32 v8, v2, v4, v6", lambda a, b, c: max(signed(a), signed(b), signed(c))),
    ("v_mul_hi_u32_u24_e32 v8, v2, v4", lambda a, b, c: low24(a) * low24(b) >> 32),
    ("v_mul_hi_i32_i24_e32 v8, v2, v4", lambda a, b, c: signed(a, 24) * signed(b, 24) >> 32),
    ("v_cvt_pk_i16_i32 v8, v2, v4", lambda a, b, c: pair(*(max(-32768, min(32767, signed(x))) for x in (a, b)))),
    ("v_cvt_pk_u16_u32 v8, v2, v4", lambda a, b, c: pair(min(a, 65535), min(b, 65535))),
    ("v_pk_add_u16 v8, v2, v4", lambda a, b, c: pair(a + b, (a >> 16) + (b >> 16))),
    ("v_pk_mul_lo_u16 v8, v2, v4", lambda a, b, c: pair(a * b, (a >> 16) * (b >> 16))),
    ("v_lshlrev_b32_e32 v8, v2, v4", lambda a, b, c: b << (a & 31)),
    ("v_lshrrev_b32_e32 v8, v2, v4", lambda a, b, c: b >> (a & 31)),
    ("v_ashrrev_i32_e32 v8, v2, v4", lambda a, b, c: signed(b) >> (a & 31)),
    ("v_mul_lo_u32 v8, v2, v4", lambda a, b, c: a * b),
    ("v_mul_hi_u32 v8, v2, v4", lambda a, b, c: a * b >> 32),
    ("v_mul_hi_i32 v8, v2, v4", lambda a, b, c: signed(a) * signed(b) >> 32),
    ("v_mul_u32_u24_e32 v8, v2, v4", lambda a, b, c: low24(a) * low24(b)),
    ("v_mad_u32_u24 v8, v2, v4, v6", lambda a, b, c: low24(a) * low24(b) + c),
    ("v_mad_i32_i24 v8, v2, v4, v6", lambda a, b, c: signed(a, 24) * signed(b, 24) + c),
    ("v_min_i32_e32 v8, v2, v4", lambda a, b, c: min(signed(a), signed(b))),
    ("v_max_u32_e32 v8, v2, v4", lambda a, b, c: max(a, b)),
    ("v_med3_i32 v8, v2, v4, v6", lambda a, b, c: sorted([signed(a), signed(b), signed(c)])[1]),
    ("v_bfrev_b32_e32 v8, v2", lambda a, b, c: int(f"{a:032b}"[::-1], 2)),
    ("v_ffbh_u32_e32 v8, v2", lambda a, b, c: 32 - a.bit_length() if a else MASK),
    ("v_ffbl_b32_e32 v8, v2", lambda a, b, c: (a & -a).bit_length() - 1 if a else MASK),
    ("v_bcnt_u32_b32 v8, v2, v4", lambda a, b, c: a.bit_count() + b),
    (
        "v_cmp_lt_i32_e32 vcc, v2, v4\ns_nop 1\nv_cndmask_b32_e32 v8, v4, v6, vcc",
        lambda a, b, c: c if signed(a) < signed(b) else b,
    ),
    (
        "v_add_co_u32_e32 v9, vcc, v2, v4\ns_nop 1\nv_addc_co_u32_e32 v8, vcc, v2, v6, vcc",
        lambda a, b, c: a + c + (a + b >> 32),
    ),
    (
        "v_sub_co_u32_e32 v9, vcc, v2, v4\ns_nop 1\nv_subb_co_u32_e32 v8, vcc, v2, v6, vcc",
        lambda a, b, c: a - c - (a < b),
    ),
    ("v_pack_b32_f16 v8, v2, v4", lambda a, b, c: a & 0xFFFF | (b & 0xFFFF) << 16),
    ("v_xor_b32_e32 v8, -1, v2", lambda a, b, c: ~a),
    ("v_add_u16_e32 v8, v2, v4", lambda a, b, c: a + b & 0xFFFF),
)


def permuted(joined: int, selector: int) -> int:
    result = 0
    for position in range(4):
        select = selector >> 8 * position & 255
        if select < 8:
            byte = joined >> 8 * select & 255
        elif select < 12:
            byte = 255 * (joined >> (16 * (select - 8) + 15) & 1)
        else:
            byte = 0 if select == 12 else 255
        result |= byte << 8 * position
    return result


@pytest.mark.parametrize(("text", "expected"), INTEGERS, ids=[case[0].replace("\n", "; ") for case in INTEGERS])
def test_integer_operation(text: str, expected: Callable[[int, int, int], int]) -> None:
    result = run_lanes(text, [A, B, C])

    wanted = [expected(int(a), int(b), int(c)) & MASK for a, b, c in zip(A, B, C, strict=True)]
    assert result[:, 0].tolist() == wanted


# The same for 64-bit results in v[8:9].
WIDE: tuple[tuple[str, Callable[[int, int, int], int]], ...] = (
    (
        "v_mov_b32_e32 v7, -1\nv_mad_i64_i32 v[8:9], s[20:21], v2, v4, v[6:7]",
        lambda a, b, c: signed(a) * signed(b) + c - (1 << 32),
    ),
    ("v_mov_b32_e32 v3, 1\nv_mov_b32_e32 v5, 2\nv_pk_mov_b32 v[8:9], v[2:3], v[4:5]", lambda a, b, c: b << 32 | a),
    ("v_mov_b32_e32 v7, 0\nv_mad_u64_u32 v[8:9], s[20:21], v2, v4, v[6:7]", lambda a, b, c: a * b + c),
    ("v_mov_b32_e32 v7, v4\nv_lshlrev_b64 v[8:9], v2, v[6:7]", lambda a, b, c: (b << 32 | c) << (a & 63)),
    ("v_mov_b32_e32 v7, v4\nv_ashrrev_i64 v[8:9], v2, v[6:7]", lambda a, b, c: signed(b << 32 | c, 64) >> (a & 63)),
    ("v_mov_b32_e32 v7, v4\nv_lshl_add_u64 v[8:9], v[6:7], 3, v[6:7]", lambda a, b, c: 9 * (b << 32 | c)),
)


@pytest.mark.parametrize(("text", "expected"), WIDE, ids=[case[0].replace("\n", "; ") for case in WIDE])
def test_wide_integer_operation(text: str, expected: Callable[[int, int, int], int]) -> None:
    result = run_lanes(text, [A, B, C], words=2)

    wanted = [expected(int(a), int(b), int(c)) & (1 << 64) - 1 for a, b, c in zip(A, B, C, strict=True)]
    assert np.ascontiguousarray(result).view(np.uint64)[:, 0].tolist() == wanted


X, Y, Z = (RANDOM.standard_normal(64).astype(np.float32) * np.float32(10) for _ in range(3))
F64 = np.float64


# Operations on float32 rounded once from the exact result.
FLOATS: tuple[tuple[str, Callable[[Array, Array, Array], Array]], ...] = (
    ("v_add_f32_e32 v8, v2, v4", lambda x, y, z: x + y),
    ("v_subrev_f32_e32 v8, v2, v4", lambda x, y, z: y - x),
    ("v_mul_f32_e32 v8, v2, v4", lambda x, y, z: x * y),
    ("v_add_f32_e64 v8, -v2, |v4|", lambda x, y, z: -x + np.abs(y)),
    ("v_mul_f32_e32 v8, 2.0, v2", lambda x, y, z: 2 * x),
    ("v_mul_f32_e32 v8, 0x40490fdb, v2", lambda x, y, z: x * F64(np.float32(np.pi))),
    ("v_fma_f32 v8, v2, v4, -v6", lambda x, y, z: x * y - z),
    ("v_mov_b32_e32 v8, v6\nv_fmac_f32_e32 v8, v2, v4", lambda x, y, z: x * y + z),
    ("v_max_f32_e32 v8, v2, v4", lambda x, y, z: np.maximum(x, y)),
    ("v_med3_f32 v8, v2, v4, v6", lambda x, y, z: np.median([x, y, z], axis=0)),
    ("v_max_f32_e64 v8, v2, v2 clamp", lambda x, y, z: np.clip(x, 0, 1)),
    ("v_floor_f32_e32 v8, v2", lambda x, y, z: np.floor(x)),
    ("v_rndne_f32_e32 v8, v2", lambda x, y, z: np.rint(x)),
    ("v_exp_f32_e32 v8, v2", lambda x, y, z: np.exp2(x)),
    ("v_mul_f32_e32 v8, v2, v2\nv_log_f32_e32 v8, v8", lambda x, y, z: np.log2((x * x).astype(np.float32).astype(F64))),
    ("v_rcp_f32_e32 v8, v2", lambda x, y, z: 1 / x),
    (
        "v_mul_f32_e32 v8, v2, v2\nv_rsq_f32_e32 v8, v8",
        lambda x, y, z: 1 / np.sqrt((x * x).astype(np.float32).astype(F64)),
    ),
    ("v_sqrt_f32_e64 v8, |v2|", lambda x, y, z: np.sqrt(np.abs(x))),
    ("v_cvt_i32_f32_e32 v8, v2\nv_cvt_f32_i32_e32 v8, v8", lambda x, y, z: np.trunc(x)),
    ("v_cvt_f16_f32_e32 v8, v2\nv_cvt_f32_f16_e32 v8, v8", lambda x, y, z: x.astype(np.float16).astype(F64)),
)


@pytest.mark.parametrize(("text", "expected"), FLOATS, ids=[case[0].replace("\n", "; ") for case in FLOATS])
def test_float_operation(text: str, expected: Callable[[Array, Array, Array], Array]) -> None:
    result = run_lanes(text, [X, Y, Z]).view(np.float32)[:, 0]

    wanted = expected(X.astype(F64), Y.astype(F64), Z.astype(F64)).astype(np.float32)
    np.testing.assert_array_equal(result, wanted)


def test_division_in_the_three_steps_is_rounded_correctly() -> None:
    numerator = (RANDOM.standard_normal(64) * 10.0 ** RANDOM.integers(-37, 37, 64)).astype(np.float32)
    denominator = (RANDOM.standard_normal(64) * 10.0 ** RANDOM.integers(-37, 37, 64)).astype(np.float32)
    numerator[:4], denominator[:4] = [0, 1, np.inf, -1], [3, 0, 2, np.inf]

    quotient = run_lanes(
        """
        v_div_scale_f32 v10, s[20:21], v4, v4, v2
        v_div_scale_f32 v11, vcc, v2, v4, v2
        v_rcp_f32_e32 v12, v10
        s_nop 0
        v_fma_f32 v13, -v10, v12, 1.0
        v_fmac_f32_e32 v12, v13, v12
        v_mul_f32_e32 v13, v11, v12
        v_fma_f32 v14, -v10, v13, v11
        v_fmac_f32_e32 v13, v14, v12
        v_fma_f32 v14, -v10, v13, v11
        v_div_fmas_f32 v14, v14, v12, v13
        v_div_fixup_f32 v8, v14, v4, v2
        """,
        [numerator, denominator],
    ).view(np.float32)[:, 0]

    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(quotient, numerator / denominator)


def test_float16_operations_clear_the_upper_half() -> None:
    halves = [RANDOM.standard_normal(64).astype(np.float16) for _ in range(3)]
    dirty = [half.view(np.uint16).astype(np.uint32) | np.uint32(0xABCD0000) for half in halves]

    result = run_lanes("v_fma_f16 v8, v2, v4, v6\nv_mul_f16_e32 v8, v8, v2", dirty)[:, 0]

    exact = [half.astype(F64) for half in halves]
    fused = (exact[0] * exact[1] + exact[2]).astype(np.float16)
    wanted = (fused.astype(F64) * exact[0]).astype(np.float16)
    assert result.tolist() == wanted.view(np.uint16).tolist()


def test_packed_float16() -> None:
    pairs = [RANDOM.standard_normal((64, 2)).astype(np.float16) for _ in range(3)]

    result = run_lanes("v_pk_fma_f16 v8, v2, v4, v6", pairs).view(np.float16)

    exact = [pair.astype(F64) for pair in pairs]
    np.testing.assert_array_equal(result, (exact[0] * exact[1] + exact[2]).astype(np.float16))


def test_packed_float32() -> None:
    pairs = [RANDOM.standard_normal((64, 2)).astype(np.float32) for _ in range(2)]

    result = run_lanes("v_pk_mul_f32 v[8:9], v[2:3], v[4:5]", pairs, words=2).view(np.float32)

    np.testing.assert_array_equal(result, pairs[0] * pairs[1])


def test_conversions_saturate() -> None:
    values = np.full(64, 1.5, np.float32)
    values[:6] = [np.nan, np.inf, -np.inf, 3e9, -3e9, -1.5]

    integers = run_lanes("v_cvt_i32_f32_e32 v8, v2", [values])[:6, 0].view(np.int32).tolist()
    naturals = run_lanes("v_cvt_u32_f32_e32 v8, v2", [values])[:6, 0].tolist()

    assert integers == [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), -1]
    assert naturals == [0, 2**32 - 1, 0, 3000000000, 0, 0]


def test_denormals_are_flushed_where_the_descriptor_says_so() -> None:
    tiny = np.full(64, 1e-39, np.float32)

    kept = run_lanes("v_add_f32_e32 v8, v2, v2", [tiny], denormals=3).view(np.float32)
    flushed = run_lanes("v_add_f32_e32 v8, v2, v2", [tiny], denormals=0).view(np.float32)

    assert (kept[0, 0], flushed[0, 0]) == (np.float32(2e-39), 0)


LANE = np.arange(64, dtype=np.uint32)
# Movement of lanes: (text, lane that lane i reads, or None for a fixed number)
MOVES: tuple[tuple[str, Any], ...] = (
    ("v_mov_b32_dpp v8, v2 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf", LANE ^ 1),
    ("v_mov_b32_dpp v8, v2 row_ror:4 row_mask:0xf bank_mask:0xf", (LANE & 48) | (LANE - 4 & 15)),
    ("v_mov_b32_dpp v8, v2 row_mirror row_mask:0xf bank_mask:0xf", LANE ^ 15),
    ("v_mov_b32_dpp v8, v2 row_half_mirror row_mask:0xf bank_mask:0xf", LANE ^ 7),
    (
        "v_xor_b32_e32 v9, 8, v0\nv_lshlrev_b32_e32 v9, 2, v9\nds_bpermute_b32 v8, v9, v2\ns_waitcnt lgkmcnt(0)",
        LANE ^ 8,
    ),
    ("v_xor_b32_e32 v9, 8, v0\nv_lshlrev_b32_e32 v9, 2, v9\nds_permute_b32 v8, v9, v2\ns_waitcnt lgkmcnt(0)", LANE ^ 8),
    ("ds_swizzle_b32 v8, v2 offset:0x401f\ns_waitcnt lgkmcnt(0)", LANE ^ 16),
    (
        "v_readlane_b32 s20, v2, 37\nv_mov_b32_e32 v8, v2\ns_nop 0\nv_writelane_b32 v8, s20, 5",
        np.where(LANE == 5, 37, LANE),
    ),
    ("v_readfirstlane_b32 s20, v2\ns_nop 1\nv_mov_b32_e32 v8, s20", 0 * LANE),
)


@pytest.mark.parametrize(("text", "source"), MOVES, ids=[case[0].replace("\n", "; ") for case in MOVES])
def test_lanes_move(text: str, source: Array) -> None:
    result = run_lanes("s_nop 4\n" + text, [A])

    assert result[:, 0].tolist() == A[source].tolist()


def test_dpp_shift_leaves_lanes_without_a_source() -> None:
    text = "v_mov_b32_e32 v8, 7\ns_nop 1\nv_mov_b32_dpp v8, v2 row_shr:1 row_mask:0xf bank_mask:0xf"

    kept = run_lanes(text, [A])[:, 0]
    zeroed = run_lanes(text + " bound_ctrl:0", [A])[:, 0]

    assert kept.tolist() == [int(A[lane - 1]) if lane % 16 else 7 for lane in range(64)]
    assert zeroed.tolist() == [int(A[lane - 1]) if lane % 16 else 0 for lane in range(64)]


def test_lane_numbers_by_mask_counts() -> None:
    result = run_lanes("v_mbcnt_lo_u32_b32 v8, -1, 0\nv_mbcnt_hi_u32_b32 v8, -1, v8", [A])

    assert result[:, 0].tolist() == list(range(64))


P, Q = 0x89ABCDEF, 0x00000005
# Scalar operations on s20 = P, s21 = Q, s[22:23] = P << 32 | Q into s24 (and s25).
SCALARS = (
    ("s_add_u32 s24, s20, s20", 2 * P),
    ("s_add_u32 s24, s20, s20\ns_addc_u32 s24, s21, 0", Q + 1),
    ("s_sub_u32 s24, s21, s20\ns_subb_u32 s24, s21, 0", Q - 1),
    ("s_mul_i32 s24, s20, s21", P * Q),
    ("s_mul_hi_u32 s24, s20, s21", P * Q >> 32),
    ("s_lshl_b32 s24, s20, s21", P << 5),
    ("s_ashr_i32 s24, s20, s21", signed(P) >> 5),
    ("s_bfe_u32 s24, s20, 0x80004", P >> 4 & 0xFF),
    ("s_bfe_i32 s24, s20, 0x80018", signed(P >> 24, 8)),
    ("s_bfm_b32 s24, s21, 3", 31 << 3),
    ("s_lshl3_add_u32 s24, s20, s21", 8 * P + Q),
    ("s_pack_ll_b32_b16 s24, s20, s21", P & 0xFFFF | Q << 16),
    ("s_andn2_b32 s24, s20, s21", P & ~Q),
    ("s_movk_i32 s24, -5", -5),
    ("s_mov_b32 s24, s20\ns_addk_i32 s24, -5", P - 5),
    ("s_mov_b32 s24, s20\ns_mulk_i32 s24, 3", 3 * P),
    ("s_cmp_lt_i32 s20, s21\ns_cselect_b32 s24, 1, 2", 1),
    ("s_cmp_lt_u32 s20, s21\ns_cselect_b32 s24, 1, 2", 2),
    ("s_cmp_eq_u64 s[22:23], s[22:23]\ns_cselect_b32 s24, 1, 2", 1),
    ("s_cmpk_gt_u32 s20, 0xffff\ns_cselect_b32 s24, 1, 2", 1),
    ("s_bitcmp1_b32 s20, 0\ns_cselect_b32 s24, 1, 2", 1),
    ("s_ff1_i32_b32 s24, s20", 0),
    ("s_flbit_i32_b32 s24, s21", 29),
    ("s_bcnt1_i32_b64 s24, s[22:23]", P.bit_count() + Q.bit_count()),
    ("s_brev_b32 s24, s21", 0xA0000000),
    ("s_sext_i32_i16 s24, s20", signed(P, 16)),
    ("s_abs_i32 s24, s20", abs(signed(P))),
    ("s_not_b32 s24, s20", ~P),
    ("s_min_i32 s24, s20, s21", P),
    ("s_max_u32 s24, s20, s21", P),
    ("s_lshr_b64 s[24:25], s[22:23], 4", (P << 32 | Q) >> 4),
    (
        "s_and_saveexec_b64 s[26:27], s[22:23]\ns_mov_b64 s[24:25], exec\ns_mov_b64 exec, s[26:27]",
        Q,
    ),
)


@pytest.mark.parametrize(("text", "expected"), SCALARS, ids=[case[0].replace("\n", "; ") for case in SCALARS])
def test_scalar_operation(text: str, expected: int) -> None:
    entry = f"s_mov_b32 s20, {P}\ns_movk_i32 s21, {Q}\ns_mov_b32 s22, s21\ns_mov_b32 s23, s20\n"
    store = "\nv_mov_b32_e32 v2, s24\nv_mov_b32_e32 v1, 0\nglobal_store_dword v1, v2, s[4:5]"

    run = run_body(entry + text + store, {"target": np.zeros(1, np.uint32)})

    assert int(run.buffers["target"][0]) == expected & MASK


@pytest.mark.skipif(find_llvm() is None, reason="LLVM 19 is not installed")
def test_llvm_reads_every_operation_as_written() -> None:
    texts = [case[0] for case in (*INTEGERS, *WIDE, *FLOATS, *MOVES, *SCALARS)]
    body = "\n".join(texts)

    assert require_llvm().check(gfx942_texts.kernel("k", body + "\ns_endpgm")) == body.count("\n") + 2
