"""Producer and consumer pairs for the hazard tests: as gfx942 text and as LLVM's machine instructions (MIR)."""

from __future__ import annotations

from dataclasses import dataclass


def _tuple(first: int, count: int, file: str = "vgpr") -> str:
    return "_".join(f"${file}{n}" if i == 0 else f"{file}{n}" for i, n in enumerate(range(first, first + count)))


_MODE = "implicit $mode, implicit $exec"


def _mfma(opcode: str, result: str, a: str, b: str, c: str, early: bool = True) -> str:
    clobber = "early-clobber " if early else ""
    return f"{clobber}{result} = V_MFMA_{opcode}_vgprcd_e64 {a}, {b}, {c}, 0, 0, 0, {_MODE}"


V, S = _tuple, lambda first, count: _tuple(first, count, "sgpr")
A8 = _tuple(8, 4, "agpr")
F16_16 = _mfma("F32_16X16X16F16", V(8, 4), V(4, 2), V(6, 2), V(8, 4), early=False)
F16_32 = _mfma("F32_32X32X8F16", V(16, 16), V(4, 2), V(6, 2), V(16, 16))
F16_4 = _mfma("F32_4X4X4F16", V(8, 4), V(4, 2), V(6, 2), V(8, 4), early=False)
F32_16 = _mfma("F32_16X16X4F32", V(8, 4), "$vgpr4", "$vgpr5", V(8, 4), early=False)
F32_32 = _mfma("F32_32X32X2F32", V(16, 16), "$vgpr4", "$vgpr5", V(16, 16))
T16, T32 = (
    "v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[6:7], v[8:11]",
    "v_mfma_f32_32x32x8_f16 v[16:31], v[4:5], v[6:7], v[16:31]",
)
T4 = "v_mfma_f32_4x4x4_16b_f16 v[8:11], v[4:5], v[6:7], v[8:11]"
T16F, T32F = "v_mfma_f32_16x16x4_f32 v[8:11], v4, v5, v[8:11]", "v_mfma_f32_32x32x2_f32 v[16:31], v4, v5, v[16:31]"
MOV4 = ("v_mov_b32_e32 v4, 1.0", "$vgpr4 = V_MOV_B32_e32 1065353216, implicit $exec")
FIRST = ("v_readfirstlane_b32 s6, v0", "$sgpr6 = V_READFIRSTLANE_B32 $vgpr0, implicit $exec")
CMP = ("v_cmp_lt_u32_e32 vcc, v0, v1", "V_CMP_LT_U32_e32 $vgpr0, $vgpr1, implicit-def $vcc, implicit $exec")
CMPX = (
    "v_cmpx_ge_u32_e32 vcc, v0, v0",
    "V_CMPX_GE_U32_e32 $vgpr0, $vgpr0, implicit-def $exec, implicit-def $vcc, implicit $exec",
)
STORE_X4 = (
    "global_store_dwordx4 v[12:13], v[8:11], off",
    f"GLOBAL_STORE_DWORDX4 {V(12, 2)}, {V(8, 4)}, 0, 0, implicit $exec",
)
BUFFER = (
    "buffer_load_dword v1, v0, s[4:7], 0 offen",
    f"$vgpr1 = BUFFER_LOAD_DWORD_OFFEN $vgpr0, {S(4, 4)}, 0, 0, 0, 0, implicit $exec",
)


@dataclass(frozen=True)
class HazardCase:
    """`text` and `mir` are (producer, consumer); the consumer needs `states` wait states after the producer."""

    name: str
    text: tuple[str, str]
    mir: tuple[str, str]
    states: int


def _case(name: str, producer: tuple[str, str], consumer: tuple[str, str], states: int) -> HazardCase:
    return HazardCase(name, (producer[0], consumer[0]), (producer[1], consumer[1]), states)


def _move(target: int, source: int) -> tuple[str, str]:
    return f"v_mov_b32_e32 v{target}, v{source}", f"$vgpr{target} = V_MOV_B32_e32 $vgpr{source}, implicit $exec"


_LOAD8 = ("global_load_dword v8, v[12:13], off", f"$vgpr8 = GLOBAL_LOAD_DWORD {V(12, 2)}, 0, 0, implicit $exec")
_DS8 = ("ds_write_b32 v0, v8", "DS_WRITE_B32_gfx9 $vgpr0, $vgpr8, 0, 0, implicit $exec")
_STORE8 = ("global_store_dword v[12:13], v8, off", f"GLOBAL_STORE_DWORD {V(12, 2)}, $vgpr8, 0, 0, implicit $exec")
_AB8 = (
    "v_mfma_f32_16x16x16_f16 v[32:35], v[8:9], v[6:7], v[36:39]",
    _mfma("F32_16X16X16F16", V(32, 4), V(8, 2), V(6, 2), V(36, 4), early=False),
)
_C10 = (
    "v_mfma_f32_16x16x16_f16 v[32:35], v[4:5], v[6:7], v[10:13]",
    _mfma("F32_16X16X16F16", V(32, 4), V(4, 2), V(6, 2), V(10, 4), early=False),
)
_C10F = (
    "v_mfma_f32_16x16x4_f32 v[32:35], v4, v5, v[10:13]",
    _mfma("F32_16X16X4F32", V(32, 4), "$vgpr4", "$vgpr5", V(10, 4), early=False),
)
_C8_APART = (
    "v_mfma_f32_16x16x16_f16 v[32:35], v[4:5], v[6:7], v[8:11]",
    _mfma("F32_16X16X16F16", V(32, 4), V(4, 2), V(6, 2), V(8, 4), early=False),
)
_WRITE_C_ONLY = (
    "v_mfma_f32_16x16x16_f16 v[32:35], v[4:5], v[6:7], v[8:11]",
    _mfma("F32_16X16X16F16", V(32, 4), V(4, 2), V(6, 2), V(8, 4), early=False),
)
_DPP = (
    "v_mov_b32_dpp v1, v4 row_shr:1 row_mask:0xf bank_mask:0xf",
    "$vgpr1 = V_MOV_B32_dpp $vgpr1, $vgpr4, 273, 15, 15, 0, implicit $exec",
)
_EXP = ("v_exp_f32_e32 v4, v0", f"$vgpr4 = V_EXP_F32_e32 $vgpr0, {_MODE}")
_READ6 = ("v_add_u32_e32 v1, s6, v0", "$vgpr1 = V_ADD_U32_e32 $sgpr6, $vgpr0, implicit $exec")
_CNDMASK = (
    "v_cndmask_b32_e32 v1, v0, v4, vcc",
    "$vgpr1 = V_CNDMASK_B32_e32 $vgpr0, $vgpr4, implicit $vcc, implicit $exec",
)
_FMAS = (
    "v_div_fmas_f32 v1, v0, v4, v5",
    "$vgpr1 = V_DIV_FMAS_F32_e64 0, $vgpr0, 0, $vgpr4, 0, $vgpr5, 0, 0, implicit $mode, implicit $vcc, implicit $exec",
)
_READLANE = ("v_readlane_b32 s7, v1, s6", "$sgpr7 = V_READLANE_B32 $vgpr1, $sgpr6")
_WRITELANE = ("v_writelane_b32 v1, 7, s6", "$vgpr1 = V_WRITELANE_B32 7, $sgpr6, $vgpr1")
_M0 = ("s_mov_b32 m0, 0", "$m0 = S_MOV_B32 0")
_TO_LDS = (
    "buffer_load_dword v0, s[4:7], 0 offen lds",
    f"BUFFER_LOAD_DWORD_LDS_OFFEN $vgpr0, {S(4, 4)}, 0, 0, 0, 0, implicit $exec, implicit $m0",
)
_STORE_B4 = (
    "buffer_store_dwordx4 v[8:11], v0, s[4:7], 0 offen",
    f"BUFFER_STORE_DWORDX4_OFFEN {V(8, 4)}, $vgpr0, {S(4, 4)}, 0, 0, 0, 0, implicit $exec",
)
_STORE_B4S = (
    "buffer_store_dwordx4 v[8:11], v0, s[4:7], s8 offen",
    f"BUFFER_STORE_DWORDX4_OFFEN {V(8, 4)}, $vgpr0, {S(4, 4)}, $sgpr8, 0, 0, 0, implicit $exec",
)
_STORE_X2 = (
    "global_store_dwordx2 v[12:13], v[8:9], off",
    f"GLOBAL_STORE_DWORDX2 {V(12, 2)}, {V(8, 2)}, 0, 0, implicit $exec",
)
_A8_C8 = (
    "v_mfma_f32_16x16x16_f16 v[8:11], v[8:9], v[6:7], v[8:11]",
    _mfma("F32_16X16X16F16", V(8, 4), V(8, 2), V(6, 2), V(8, 4), early=False),
)
_B16_C16 = (
    "v_mfma_f32_32x32x8_f16 v[16:31], v[4:5], v[16:17], v[16:31]",
    _mfma("F32_32X32X8F16", V(16, 16), V(4, 2), V(16, 2), V(16, 16)),
)
_PACKED = (
    "v_pk_add_u16 v1, v4, v5",
    "$vgpr1 = V_PK_ADD_U16 8, $vgpr4, 8, $vgpr5, 0, 0, 0, 0, 0, implicit $exec",
)
_LOAD_AT1 = (
    "global_load_dword v9, v1, s[4:5]",
    f"$vgpr9 = GLOBAL_LOAD_DWORD_SADDR {S(4, 2)}, $vgpr1, 0, 0, implicit $exec",
)

CASES = (
    _case("valu_to_readfirstlane", _move(0, 4), FIRST, 1),
    _case("valu_to_other_readfirstlane", _move(1, 4), FIRST, 0),
    _case("valu_to_mfma_a", MOV4, (T16, F16_16), 2),
    _case("valu_to_mfma_c", _move(8, 4), (T16, F16_16), 2),
    _case("valu_exec_to_mfma", CMPX, (T16, F16_16), 4),
    _case("readfirstlane_to_valu", FIRST, _READ6, 2),
    _case("readfirstlane_to_vmem", FIRST, BUFFER, 5),
    _case("readfirstlane_to_lane_select", FIRST, _READLANE, 4),
    _case("readfirstlane_to_writelane_select", FIRST, _WRITELANE, 4),
    _case("vcmp_to_cndmask", CMP, _CNDMASK, 2),
    _case("vcmp_to_div_fmas", CMP, _FMAS, 4),
    _case("vcmpx_to_readfirstlane", CMPX, FIRST, 4),
    _case("trans_to_valu", _EXP, _move(1, 4), 1),
    _case("trans_to_trans", _EXP, ("v_rcp_f32_e32 v1, v4", f"$vgpr1 = V_RCP_F32_e32 $vgpr4, {_MODE}"), 0),
    _case("valu_to_dpp", MOV4, _DPP, 2),
    _case("valu_exec_to_dpp", CMPX, _DPP, 5),
    _case("mfma4_to_valu", (T4, F16_4), _move(1, 8), 5),
    _case("mfma16_to_valu", (T16, F16_16), _move(1, 8), 7),
    _case("mfma32_to_valu", (T32, F16_32), _move(1, 16), 11),
    _case("mfma16_f32_to_valu", (T16F, F32_16), _move(1, 8), 10),
    _case("mfma32_f32_to_valu", (T32F, F32_32), _move(1, 16), 18),
    _case("mfma16_to_store", (T16, F16_16), _STORE8, 7),
    _case("mfma16_to_lds_write", (T16, F16_16), _DS8, 7),
    _case("mfma16_to_valu_overwrite", (T16, F16_16), _move(8, 4), 7),
    _case("mfma16_to_load_overwrite", (T16, F16_16), _LOAD8, 7),
    _case("mfma16_c_to_valu_overwrite", _WRITE_C_ONLY, _move(8, 4), 3),
    _case("mfma16_to_same_c", (T16, F16_16), (T16, F16_16), 0),
    _case("mfma4_to_same_c", (T4, F16_4), (T4, F16_4), 2),
    _case("mfma16_to_c_elsewhere", (T16, F16_16), _C8_APART, 0),
    _case("mfma16_to_overlapping_c", (T16, F16_16), _C10, 5),
    _case("mfma16_f32_to_overlapping_c_xdl", (T16F, F32_16), _C10, 0),
    _case("mfma16_f32_to_overlapping_c", (T16F, F32_16), _C10F, 8),
    _case("mfma16_to_a_and_same_c", (T16, F16_16), _A8_C8, 7),
    _case("mfma32_f32_to_b_and_same_c", (T32F, F32_32), _B16_C16, 18),
    _case("packed_to_valu", _PACKED, _move(2, 1), 1),
    _case("packed_to_load_address", _PACKED, _LOAD_AT1, 0),
    _case("valu_to_dpp_kept_lanes", _move(1, 4), _DPP, 2),
    _case("mfma16_to_ab", (T16, F16_16), _AB8, 7),
    _case("mfma16_f32_to_ab", (T16F, F32_16), _AB8, 10),
    _case("wide_store_to_valu", STORE_X4, _move(9, 4), 2),
    _case("wide_buffer_store_to_valu", _STORE_B4, _move(9, 4), 2),
    _case("wide_buffer_store_with_soffset_to_valu", _STORE_B4S, _move(9, 4), 0),
    _case("narrow_store_to_valu", _STORE_X2, _move(9, 4), 0),
    _case("salu_m0_to_lds_dma", _M0, _TO_LDS, 1),
    _case("salu_to_valu", ("s_mov_b32 s6, 0", "$sgpr6 = S_MOV_B32 0"), _READ6, 0),
)

# More instructions, only to be paired with all others. Packed ones are left out: LLVM 19 asks one state after them,
# because its test for a result in the upper half shares its bit with the op_sel_hi that packed operations have set.
EXTRA = (
    ("v_accvgpr_write_b32 a8, v8", "$agpr8 = V_ACCVGPR_WRITE_B32_e64 $vgpr8, implicit $exec"),
    ("v_accvgpr_read_b32 v8, a8", "$vgpr8 = V_ACCVGPR_READ_B32_e64 $agpr8, implicit $exec"),
    (
        "v_mfma_f32_16x16x16_f16 a[8:11], v[4:5], v[6:7], a[8:11]",
        f"{A8} = V_MFMA_F32_16X16X16F16_e64 {V(4, 2)}, {V(6, 2)}, {A8}, 0, 0, 0, {_MODE}",
    ),
    (
        "v_mfma_i32_16x16x32_i8 v[8:11], v[4:5], v[6:7], v[8:11]",
        _mfma("I32_16X16X32I8", V(8, 4), V(4, 2), V(6, 2), V(8, 4), early=False),
    ),
    (
        "v_mfma_f32_16x16x16_bf16 v[8:11], v[4:5], v[6:7], 0",
        _mfma("F32_16X16X16BF16_1K", V(8, 4), V(4, 2), V(6, 2), "0", early=False),
    ),
    ("s_load_dwordx2 s[6:7], s[0:1], 0x0", f"{S(6, 2)} = S_LOAD_DWORDX2_IMM {S(0, 2)}, 0, 0"),
    ("s_load_dword s0, s[6:7], 0x0", f"$sgpr0 = S_LOAD_DWORD_IMM {S(6, 2)}, 0, 0"),
    ("ds_read_b64 v[8:9], v4", f"{V(8, 2)} = DS_READ_B64_gfx9 $vgpr4, 0, 0, implicit $exec"),
    ("ds_read_b32 v4, v8", "$vgpr4 = DS_READ_B32_gfx9 $vgpr8, 0, 0, implicit $exec"),
    ("v_cmp_lt_u32_e64 s[6:7], v0, v4", f"{S(6, 2)} = V_CMP_LT_U32_e64 $vgpr0, $vgpr4, implicit $exec"),
    ("s_and_b64 exec, exec, vcc", "$exec = S_AND_B64 $exec, $vcc, implicit-def $scc"),
    ("v_fma_f32 v8, v4, v5, v9", f"$vgpr8 = nofpexcept V_FMA_F32_e64 0, $vgpr4, 0, $vgpr5, 0, $vgpr9, 0, 0, {_MODE}"),
    ("v_lshl_add_u32 v4, v0, 4, s6", "$vgpr4 = V_LSHL_ADD_U32_e64 $vgpr0, 4, $sgpr6, implicit $exec"),
    ("v_sqrt_f32_e32 v8, v8", f"$vgpr8 = V_SQRT_F32_e32 $vgpr8, {_MODE}"),
    (
        "global_load_dwordx4 v[8:11], v4, s[6:7]",
        f"{V(8, 4)} = GLOBAL_LOAD_DWORDX4_SADDR {S(6, 2)}, $vgpr4, 0, 0, implicit $exec",
    ),
)
