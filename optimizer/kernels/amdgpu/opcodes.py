"""The instructions of gfx942 and gfx950 that the back end knows: one table, and what only gfx950 has.

A row is a format, a signature `defs = uses` and the mnemonics that have both. Operands, a number behind the letter is
how many registers they take:

    v  VGPR                        a  AGPR                       d  VGPR or AGPR (data of memory, MFMA)
    s  SGPR, or a special register of that width                 m  lane mask: vcc or an SGPR pair
    S  scalar source: SGPR, special register or constant         x  vector source: VGPR, SGPR, special or constant
    c  MFMA addend: VGPRs, AGPRs or an inline constant           i  number in the instruction itself
    n  VGPR or inline constant                                   r  SGPR or inline constant (soffset)
    A  buffer address: VGPR or off                               G  global address: VGPR pair, or VGPR with an SGPR base
    b  base: SGPRs or off                                         w  s_waitcnt's counters, any number
    o  offset field, may be absent                               l  lane: SGPR or inline constant
    *  anything (pseudo-instructions)

`v!0`: tied to definition number 0, the assembler does not write it. `@`: the first two operands may be swapped. Behind
`|` come implicit effects: `scc`, `vcc`, `exec`, `m0` read, `=scc`, `=exec` written. Sources: LLVM's AMDGPU back end
(gfx942 is its GFX9 with MAI and the gfx940 features) and "AMD Instinct MI300 Instruction Set Architecture"; llvm-mc
assembles every row in the tests.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType

from optimizer.kernels.amdgpu.errors import OpcodeError


class Category(Enum):
    """Who executes it."""

    VALU = "valu"
    SALU = "salu"
    VMEM = "vmem"
    SMEM = "smem"
    LDS = "lds"
    MFMA = "mfma"
    BRANCH = "branch"
    CONTROL = "control"
    """s_nop, s_waitcnt, s_barrier, s_endpgm, ..."""
    PSEUDO = "pseudo"


@dataclass(frozen=True, slots=True)
class OperandSpec:
    """One place in a signature."""

    kind: str
    width: int
    tied: int | None = None
    """Definition that must be in the same registers."""


@dataclass(frozen=True, slots=True)
class Opcode:
    """Everything the back end knows of one mnemonic."""

    name: str
    format: str
    """Encoding: VOP1, VOP2, VOPC, VOP3, VOP3P, MAI, SOP1, SOP2, SOPC, SOPK, SOPP, SMEM, DS, MUBUF, GLOBAL, SCRATCH."""
    category: Category
    defs: tuple[OperandSpec, ...]
    uses: tuple[OperandSpec, ...]
    reads: frozenset[str] = frozenset()
    """Special registers read without being written as operands."""
    writes: frozenset[str] = frozenset()
    counter: str | None = None
    """What it ticks until it is complete: vmcnt or lgkmcnt. Stores tick too."""
    offset_range: range = range(0)
    """Legal values of the offset field (of the immediate offset of SMEM)."""
    immediate_range: range = range(-32768, 65536)
    """Legal values of `i` operands."""
    commutative: bool = False
    literal_uses: tuple[int, ...] = ()
    """Uses of which one may be a literal constant."""
    early_clobber: bool = False
    """Definitions may not overlap uses, unless they are the very same registers."""
    passes: int = 0
    """MFMA: passes of 4 cycles."""
    transcendental: bool = False
    stores: bool = False
    mnemonic: str = ""
    """As the assembler spells it, where that is not the name."""
    targets: tuple[str, ...] = ()
    """Processors that have it."""

    @property
    def is_pseudo(self) -> bool:
        return self.category is Category.PSEUDO

    @property
    def is_branch(self) -> bool:
        return self.category is Category.BRANCH

    @property
    def is_conditional(self) -> bool:
        return self.is_branch and self.name != "s_branch"

    @property
    def ends_program(self) -> bool:
        return self.name == "s_endpgm"

    @property
    def is_vector(self) -> bool:
        """Whether it works lane by lane under exec."""
        return self.category in (Category.VALU, Category.VMEM, Category.LDS) and self.name not in IGNORES_EXEC

    @property
    def tied(self) -> tuple[tuple[int, int], ...]:
        """(use, definition) pairs that share registers."""
        return tuple((n, use.tied) for n, use in enumerate(self.uses) if use.tied is not None)

    @property
    def has_offset(self) -> bool:
        return any(use.kind == "o" for use in self.uses)


TARGETS = ("gfx942", "gfx950")
IGNORES_EXEC = frozenset(("v_readfirstlane_b32", "v_readlane_b32", "v_writelane_b32"))
TRANSCENDENTAL = frozenset(("v_exp", "v_log", "v_rcp", "v_rcp_iflag", "v_rsq", "v_sqrt", "v_sin", "v_cos"))

_MUBUF = range(4096)
_DS = range(65536)
_FLAT = range(-4096, 4096)
_SMEM = range(-(1 << 20), 1 << 20)

_FORMATS: Mapping[str, tuple[Category, str | None, range]] = {
    **dict.fromkeys(("VOP1", "VOP2", "VOPC", "VOP3", "VOP3P"), (Category.VALU, None, range(0))),
    "MAI": (Category.MFMA, None, range(0)),
    **dict.fromkeys(("SOP1", "SOP2", "SOPC", "SOPK"), (Category.SALU, None, range(0))),
    "SOPP": (Category.CONTROL, None, range(0)),
    "BRANCH": (Category.BRANCH, None, range(0)),
    "SMEM": (Category.SMEM, "lgkmcnt", _SMEM),
    "DS": (Category.LDS, "lgkmcnt", _DS),
    "MUBUF": (Category.VMEM, "vmcnt", _MUBUF),
    "GLOBAL": (Category.VMEM, "vmcnt", _FLAT),
    "SCRATCH": (Category.VMEM, "vmcnt", _FLAT),
    "PSEUDO": (Category.PSEUDO, None, range(0)),
}

_COMPARISONS = " ".join(f"v_cmp_{c}_{t}" for t in ("u32", "i32") for c in ("lt", "eq", "le", "gt", "ne", "ge"))
_FLOAT_COMPARISONS = " ".join(
    f"v_cmp_{c}_{t}" for t in ("f32", "f16") for c in ("lt", "eq", "le", "gt", "lg", "ge", "o", "u", "neq", "nlt")
)
_WIDE_COMPARISONS = " ".join(f"v_cmp_{c}_{t}" for t in ("u64", "i64") for c in ("lt", "eq", "le", "gt", "ne", "ge"))
_SCALAR_COMPARISONS = " ".join(f"s_cmp_{c}_{t}" for t in ("u32", "i32") for c in ("eq", "lg", "gt", "ge", "lt", "le"))

_TABLE: tuple[tuple[str, str, str], ...] = (
    # -- vector moves, conversions, one operand --------------------------------------------------------------
    ("VOP1", "v = x", "v_mov_b32 v_not_b32 v_bfrev_b32 v_ffbh_u32 v_ffbl_b32 v_cvt_f32_f16 v_cvt_f16_f32"),
    ("VOP1", "v = x", "v_cvt_f32_u32 v_cvt_f32_i32 v_cvt_u32_f32 v_cvt_i32_f32 v_cvt_f32_ubyte0 v_exp_f32 v_log_f32"),
    ("VOP1", "v = x", "v_rcp_f32 v_rcp_iflag_f32 v_rsq_f32 v_sqrt_f32 v_sin_f32 v_cos_f32 v_floor_f32 v_ceil_f32"),
    ("VOP1", "v = x", "v_trunc_f32 v_rndne_f32 v_fract_f32 v_exp_f16 v_log_f16 v_rcp_f16 v_rsq_f16 v_sqrt_f16"),
    ("VOP1", "v = x", "v_floor_f16 v_ceil_f16 v_trunc_f16 v_rndne_f16 v_cvt_f16_u16 v_cvt_f16_i16 v_cvt_u16_f16"),
    ("VOP1", "v = x", "v_cvt_i16_f16"),
    ("VOP1", "v2 = x2", "v_mov_b64"),
    ("VOP1", "s = v", "v_readfirstlane_b32"),
    ("VOP1", "a = a", "v_accvgpr_mov_b32"),
    ("VOP3P", "v = a", "v_accvgpr_read_b32"),
    ("VOP3P", "a = n", "v_accvgpr_write_b32"),
    # -- vector, two operands (@: commutative) ---------------------------------------------------------------
    ("VOP2", "v = x, x @", "v_add_u32 v_and_b32 v_or_b32 v_xor_b32 v_xnor_b32 v_max_i32 v_min_i32 v_max_u32 v_min_u32"),
    ("VOP2", "v = x, x @", "v_mul_u32_u24 v_mul_i32_i24 v_mul_hi_u32_u24 v_mul_hi_i32_i24 v_add_f32 v_mul_f32"),
    ("VOP2", "v = x, x @", "v_max_f32 v_min_f32 v_add_f16 v_mul_f16 v_max_f16 v_min_f16 v_add_u16 v_mul_lo_u16"),
    ("VOP2", "v = x, x", "v_sub_u32 v_subrev_u32 v_lshlrev_b32 v_lshrrev_b32 v_ashrrev_i32 v_sub_f32 v_subrev_f32"),
    ("VOP2", "v = x, x", "v_sub_f16 v_subrev_f16 v_ldexp_f16 v_lshlrev_b16 v_lshrrev_b16 v_sub_u16"),
    ("VOP2", "v = x, x, v!0", "v_fmac_f32"),
    ("VOP2", "v = x, x, m", "v_cndmask_b32"),
    ("VOP2", "v, m = x, x @", "v_add_co_u32"),
    ("VOP2", "v, m = x, x", "v_sub_co_u32 v_subrev_co_u32"),
    ("VOP2", "v, m = x, x, m @", "v_addc_co_u32"),
    ("VOP2", "v, m = x, x, m", "v_subb_co_u32"),
    ("VOPC", "m = x, x", _COMPARISONS),
    ("VOPC", "m = x, x", _FLOAT_COMPARISONS),
    ("VOPC", "m = x2, x2", _WIDE_COMPARISONS),
    # -- vector, three operands or 64 bits ---------------------------------------------------------------------
    ("VOP3", "v = x, x, x", "v_lshl_add_u32 v_lshl_or_b32 v_add_lshl_u32 v_or3_b32 v_and_or_b32 v_add3_u32 v_xad_u32"),
    ("VOP3", "v = x, x, x", "v_bfe_u32 v_bfe_i32 v_bfi_b32 v_alignbit_b32 v_alignbyte_b32 v_perm_b32 v_fma_f32"),
    ("VOP3", "v = x, x, x", "v_fma_f16 v_mad_u32_u24 v_mad_i32_i24 v_med3_f32 v_max3_f32 v_min3_f32 v_max3_u32"),
    ("VOP3", "v = x, x, x", "v_min3_u32 v_med3_u32 v_max3_i32 v_min3_i32 v_med3_i32 v_div_fixup_f32"),
    ("VOP3", "v = x, x @", "v_mul_lo_u32 v_mul_hi_u32 v_mul_hi_i32"),
    ("VOP3", "v = x, x", "v_mbcnt_lo_u32_b32 v_mbcnt_hi_u32_b32 v_bcnt_u32_b32 v_cvt_pkrtz_f16_f32 v_pack_b32_f16"),
    ("VOP3", "v = x, x", "v_ldexp_f32 v_bfm_b32 v_cvt_pknorm_i16_f32 v_cvt_pk_u16_u32 v_cvt_pk_i16_i32"),
    ("VOP3", "v2, m = x, x, x2", "v_mad_u64_u32 v_mad_i64_i32"),
    ("VOP3", "v2 = x, x2", "v_lshlrev_b64 v_lshrrev_b64 v_ashrrev_i64"),
    ("VOP3", "v2 = x2, x, x2", "v_lshl_add_u64"),
    ("VOP3", "s = v, l", "v_readlane_b32"),
    ("VOP3", "v = r, l, v!0", "v_writelane_b32"),
    ("VOP3P", "v = x, x @", "v_pk_add_f16 v_pk_mul_f16 v_pk_max_f16 v_pk_min_f16 v_pk_add_u16 v_pk_mul_lo_u16"),
    ("VOP3P", "v = x, x, x", "v_pk_fma_f16"),
    ("VOP3P", "v2 = x2, x2 @", "v_pk_add_f32 v_pk_mul_f32"),
    ("VOP3P", "v2 = x2, x2", "v_pk_mov_b32"),
    ("VOP3P", "v2 = x2, x2, x2", "v_pk_fma_f32"),
    # -- matrix ------------------------------------------------------------------------------------------------
    ("MAI", "d4 = d2, d2, c4", "v_mfma_f32_16x16x16_f16 v_mfma_f32_16x16x16_bf16"),
    ("MAI", "d16 = d2, d2, c16", "v_mfma_f32_32x32x8_f16 v_mfma_f32_32x32x8_bf16"),
    ("MAI", "d4 = d, d, c4", "v_mfma_f32_16x16x4_f32"),
    ("MAI", "d16 = d, d, c16", "v_mfma_f32_32x32x2_f32"),
    # -- scalar --------------------------------------------------------------------------------------------------
    ("SOP1", "s = S", "s_mov_b32 s_brev_b32 s_ff1_i32_b32 s_flbit_i32_b32 s_sext_i32_i8 s_sext_i32_i16"),
    ("SOP1", "s2 = S2", "s_mov_b64 s_brev_b64"),
    ("SOP1", "s = S | =scc", "s_not_b32 s_bcnt1_i32_b32 s_abs_i32"),
    ("SOP1", "s2 = S2 | =scc", "s_not_b64"),
    ("SOP1", "s = S2 | =scc", "s_bcnt1_i32_b64"),
    ("SOP1", "s = S2", "s_ff1_i32_b64"),
    ("SOP1", "s = S, s!0 | scc", "s_cmov_b32"),
    ("SOP1", "s2 = S2, s2!0 | scc", "s_cmov_b64"),
    ("SOP1", "s2 = S2 | exec =exec =scc", "s_and_saveexec_b64 s_or_saveexec_b64 s_xor_saveexec_b64"),
    ("SOP1", "s2 = S2 | exec =exec =scc", "s_andn2_saveexec_b64"),
    ("SOP2", "s = S, S | =scc @", "s_add_u32 s_add_i32 s_and_b32 s_or_b32 s_xor_b32 s_nand_b32 s_nor_b32 s_xnor_b32"),
    ("SOP2", "s = S, S | =scc @", "s_min_u32 s_max_u32 s_min_i32 s_max_i32 s_absdiff_i32"),
    ("SOP2", "s = S, S | =scc", "s_sub_u32 s_sub_i32 s_andn2_b32 s_orn2_b32 s_lshl_b32 s_lshr_b32 s_ashr_i32"),
    ("SOP2", "s = S, S | =scc", "s_bfe_u32 s_bfe_i32 s_lshl1_add_u32 s_lshl2_add_u32 s_lshl3_add_u32 s_lshl4_add_u32"),
    ("SOP2", "s = S, S | scc =scc @", "s_addc_u32"),
    ("SOP2", "s = S, S | scc =scc", "s_subb_u32"),
    ("SOP2", "s = S, S @", "s_mul_i32 s_mul_hi_u32 s_mul_hi_i32"),
    ("SOP2", "s = S, S", "s_bfm_b32 s_pack_ll_b32_b16 s_pack_lh_b32_b16 s_pack_hh_b32_b16"),
    ("SOP2", "s = S, S | scc", "s_cselect_b32"),
    ("SOP2", "s2 = S2, S2 | scc", "s_cselect_b64"),
    ("SOP2", "s2 = S2, S2 | =scc @", "s_and_b64 s_or_b64 s_xor_b64 s_nand_b64 s_nor_b64 s_xnor_b64"),
    ("SOP2", "s2 = S2, S2 | =scc", "s_andn2_b64 s_orn2_b64"),
    ("SOP2", "s2 = S2, S | =scc", "s_lshl_b64 s_lshr_b64 s_ashr_i64"),
    ("SOPC", "= S, S | =scc", _SCALAR_COMPARISONS),
    ("SOPC", "= S, S | =scc", "s_bitcmp0_b32 s_bitcmp1_b32"),
    ("SOPC", "= S2, S2 | =scc", "s_cmp_eq_u64 s_cmp_lg_u64"),
    ("SOPK", "s = i", "s_movk_i32"),
    ("SOPK", "s = i, s!0 | =scc", "s_addk_i32"),
    ("SOPK", "s = i, s!0", "s_mulk_i32"),
    # -- control -------------------------------------------------------------------------------------------------
    ("SOPP", "= i", "s_nop s_sleep s_setprio"),
    ("SOPP", "= w", "s_waitcnt"),
    ("SOPP", "=", "s_barrier s_endpgm"),
    ("BRANCH", "=", "s_branch"),
    ("BRANCH", "= | scc", "s_cbranch_scc0 s_cbranch_scc1"),
    ("BRANCH", "= | vcc", "s_cbranch_vccz s_cbranch_vccnz"),
    ("BRANCH", "= | exec", "s_cbranch_execz s_cbranch_execnz"),
    # -- memory --------------------------------------------------------------------------------------------------
    ("SMEM", "s = s2, S", "s_load_dword"),
    ("SMEM", "s2 = s2, S", "s_load_dwordx2"),
    ("SMEM", "s4 = s2, S", "s_load_dwordx4"),
    ("SMEM", "s8 = s2, S", "s_load_dwordx8"),
    ("SMEM", "s16 = s2, S", "s_load_dwordx16"),
    ("SMEM", "s2 =", "s_memtime"),
    ("DS", "d = v, o", "ds_read_b32 ds_read_u16 ds_read_i16 ds_read_u8 ds_read_i8 ds_swizzle_b32"),
    ("DS", "d = v, d!0, o", "ds_read_u16_d16 ds_read_u16_d16_hi"),
    ("DS", "d2 = v, o", "ds_read_b64"),
    ("DS", "d3 = v, o", "ds_read_b96"),
    ("DS", "d4 = v, o", "ds_read_b128"),
    ("DS", "= v, d, o", "ds_write_b32 ds_write_b16 ds_write_b16_d16_hi ds_write_b8 ds_add_u32 ds_add_f32 ds_max_u32"),
    ("DS", "= v, d2, o", "ds_write_b64"),
    ("DS", "= v, d3, o", "ds_write_b96"),
    ("DS", "= v, d4, o", "ds_write_b128"),
    ("DS", "d = v, d, o", "ds_bpermute_b32 ds_permute_b32"),
    ("MUBUF", "d = A, s4, r, o", "buffer_load_dword buffer_load_ubyte buffer_load_sbyte buffer_load_ushort"),
    ("MUBUF", "d = A, s4, r, o", "buffer_load_sshort"),
    ("MUBUF", "d = A, s4, r, d!0, o", "buffer_load_short_d16 buffer_load_short_d16_hi"),
    ("MUBUF", "d2 = A, s4, r, o", "buffer_load_dwordx2"),
    ("MUBUF", "d3 = A, s4, r, o", "buffer_load_dwordx3"),
    ("MUBUF", "d4 = A, s4, r, o", "buffer_load_dwordx4"),
    ("MUBUF", "= A, s4, r, o | m0", "buffer_load_dword_lds"),
    ("MUBUF", "= d, A, s4, r, o", "buffer_store_dword buffer_store_byte buffer_store_short buffer_store_short_d16_hi"),
    ("MUBUF", "= d2, A, s4, r, o", "buffer_store_dwordx2"),
    ("MUBUF", "= d3, A, s4, r, o", "buffer_store_dwordx3"),
    ("MUBUF", "= d4, A, s4, r, o", "buffer_store_dwordx4"),
    ("GLOBAL", "d = G, b2, o", "global_load_dword global_load_ubyte global_load_sbyte global_load_ushort"),
    ("GLOBAL", "d = G, b2, o", "global_load_sshort"),
    ("GLOBAL", "d = G, b2, d!0, o", "global_load_short_d16 global_load_short_d16_hi"),
    ("GLOBAL", "d2 = G, b2, o", "global_load_dwordx2"),
    ("GLOBAL", "d3 = G, b2, o", "global_load_dwordx3"),
    ("GLOBAL", "d4 = G, b2, o", "global_load_dwordx4"),
    ("GLOBAL", "= G, d, b2, o", "global_store_dword global_store_byte global_store_short global_store_short_d16_hi"),
    ("GLOBAL", "= G, d2, b2, o", "global_store_dwordx2"),
    ("GLOBAL", "= G, d3, b2, o", "global_store_dwordx3"),
    ("GLOBAL", "= G, d4, b2, o", "global_store_dwordx4"),
    ("GLOBAL", "= G, d, b2, o", "global_atomic_add global_atomic_add_f32"),
    ("SCRATCH", "d = A, b, o", "scratch_load_dword"),
    ("SCRATCH", "= A, d, b, o", "scratch_store_dword"),
    # -- expanded by passes ----------------------------------------------------------------------------------------
    ("PSEUDO", "v4 = i", "_init_acc_quad"),
    ("PSEUDO", "v4 = *", "_mfma_acc"),
    ("PSEUDO", "s4 = *", "_srd_define _srd_load_base _srd_copy_base _srd_fill_size _srd_fill_stride"),
    ("PSEUDO", "s4 = * | =scc", "_g2s_srd_copy"),
    ("PSEUDO", "s = * | =scc", "_loop_inc"),
    ("PSEUDO", "= *", "_loop_begin _loop_end _preload_branch _comment _raw_asm"),
)  # fmt: skip

_GFX950_TABLE: tuple[tuple[str, str, str], ...] = (
    ("MAI", "d4 = d4, d4, c4", "v_mfma_f32_16x16x32_f16 v_mfma_f32_16x16x32_bf16"),
    ("MAI", "d16 = d4, d4, c16", "v_mfma_f32_32x32x16_f16 v_mfma_f32_32x32x16_bf16"),
    ("VOP3", "v = x, x", "v_cvt_pk_bf16_f32 v_cvt_pk_f16_f32"),
    ("VOP3", "v = x, x, x", "v_minimum3_f32 v_maximum3_f32"),
    ("DS", "d2 = v, o", "ds_read_b64_tr_b16"),
    ("MUBUF", "= A, s4, r, o | m0", "buffer_load_dwordx3_lds buffer_load_dwordx4_lds"),
)
"""What gfx950 has and gfx942 has not; all that gfx942 has here gfx950 has, too."""

REDEFINING_PSEUDOS = frozenset(("_mfma_acc", "_loop_inc", "_srd_fill_size", "_srd_fill_stride"))
"""Pseudo-instructions that update what they define."""
_PASSES = {"16x16x16": 4, "16x16x32": 4, "32x32x8": 8, "32x32x16": 8, "16x16x4": 8, "32x32x2": 16}
_IMMEDIATES = {"s_nop": range(16), "s_sleep": range(128), "s_setprio": range(4)}

HINTS: Mapping[str, str] = MappingProxyType({
    "v_mfma_f16_16x16x16_f16": "v_mfma_f32_16x16x16_f16: MFMA accumulates in f32",
    "v_mfma_f16_32x32x8_f16": "v_mfma_f32_32x32x8_f16: MFMA accumulates in f32",
    "v_mfma_f32_16x16x16f16": "v_mfma_f32_16x16x16_f16",
    "v_mfma_f32_32x32x8f16": "v_mfma_f32_32x32x8_f16",
    "v_mfma_f32_16x16x16bf16_1k": "v_mfma_f32_16x16x16_bf16",
    "v_mfma_f32_32x32x8bf16_1k": "v_mfma_f32_32x32x8_bf16",
    "v_mfma_f32_16x16x32_f16": "two v_mfma_f32_16x16x16_f16: K = 32 is gfx950",
    "v_mfma_f32_16x16x32_bf16": "two v_mfma_f32_16x16x16_bf16: K = 32 is gfx950",
    "v_mfma_f32_32x32x16_f16": "two v_mfma_f32_32x32x8_f16: K = 16 is gfx950",
    "v_mfma_f32_32x32x16_bf16": "two v_mfma_f32_32x32x8_bf16: K = 16 is gfx950",
    "v_minimum3_f32": "v_min3_f32, which differs in what it makes of NaN",
    "v_maximum3_f32": "v_max3_f32, which differs in what it makes of NaN",
    "s_add_u64": "s_add_u32 and s_addc_u32",
    "s_sub_u64": "s_sub_u32 and s_subb_u32",
    "s_mul_u64": "s_mul_i32 and s_mul_hi_u32",
    "v_add_u64": "v_lshl_add_u64 with shift 0, or v_add_co_u32 and v_addc_co_u32",
    "v_add_nc_u32": "v_add_u32",
    "v_sub_nc_u32": "v_sub_u32",
    "v_add_i32": "v_add_u32",
    "v_mac_f32": "v_fmac_f32",
    "v_mad_f32": "v_fma_f32",
    "v_lshl_b32": "v_lshlrev_b32 (shift amount first)",
    "v_lshr_b32": "v_lshrrev_b32 (shift amount first)",
    "v_cvt_pk_bf16_f32": "rounding with v_bfe_u32 and v_add3_u32, then v_perm_b32: the conversion is gfx950",
    "v_cvt_pk_f16_f32": "v_cvt_pkrtz_f16_f32, or two v_cvt_f16_f32 and v_pack_b32_f16",
    "v_add_bf16": "v_lshlrev_b32 by 16 and v_add_f32: there is no bf16 arithmetic outside MFMA",
    "v_mul_bf16": "v_lshlrev_b32 by 16 and v_mul_f32: there is no bf16 arithmetic outside MFMA",
    "buffer_load_dwordx3_lds": "three buffer_load_dword_lds: wider copies to LDS are gfx950",
    "buffer_load_dwordx4_lds": "four buffer_load_dword_lds: wider copies to LDS are gfx950",
    "ds_read_b64_tr_b16": "ds_read_u16_d16 and v_perm_b32: transposing reads are gfx950",
    "ds_load_b32": "ds_read_b32",
    "ds_load_b64": "ds_read_b64",
    "ds_load_b128": "ds_read_b128",
    "ds_store_b32": "ds_write_b32",
    "ds_store_b64": "ds_write_b64",
    "ds_store_b128": "ds_write_b128",
    "s_wait_loadcnt": "s_waitcnt vmcnt(n)",
    "s_waitcnt_vscnt": "s_waitcnt vmcnt(n): stores count there too",
    "s_load_b32": "s_load_dword",
    "s_load_b64": "s_load_dwordx2",
    "s_load_b128": "s_load_dwordx4",
    "s_cmp_lt_u64": "s_sub_u32 and s_subb_u32, then scc",
    "s_cbranch_execz_b64": "s_cbranch_execz",
})  # fmt: skip
"""What does not exist on gfx942, and what does its work."""


def _operands(text: str) -> tuple[OperandSpec, ...]:
    specs = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        letters, _, tie = part.partition("!")
        specs.append(OperandSpec(letters[0], int(letters[1:] or 1), int(tie) if tie else None))
    return tuple(specs)


def _opcode(name: str, format_: str, signature: str, targets: tuple[str, ...]) -> Opcode:
    category, counter, offsets = _FORMATS[format_]
    body, _, effects = signature.removesuffix("@").partition("|")
    defs, _, uses = body.partition("=")
    specs = _operands(uses)
    words = effects.split()
    opcode = Opcode(
        name,
        format_,
        category,
        _operands(defs),
        specs,
        frozenset(w for w in words if not w.startswith("=")),
        frozenset(w[1:] for w in words if w.startswith("=")),
        counter,
        offsets,
        _IMMEDIATES.get(name, range(-32768, 65536)),
        commutative=signature.endswith("@"),
        literal_uses=_literal_uses(format_, specs),
        mnemonic=name,
        targets=targets,
    )
    if name.endswith("_lds"):
        return replace(opcode, mnemonic=name.removesuffix("_lds"))
    if category is Category.MFMA:
        passes = next(n for shape, n in _PASSES.items() if f"_{shape}_" in name)
        return replace(opcode, passes=passes, early_clobber=opcode.defs[0].width > 4)
    if counter is not None:
        stores = "_store" in name or "_write" in name or "atomic" in name or name.startswith(("ds_add", "ds_max"))
        return replace(opcode, stores=stores, early_clobber=_xnack(opcode))
    transcendental = name.rpartition("_")[0] in TRANSCENDENTAL
    return replace(opcode, transcendental=transcendental, early_clobber=category is Category.PSEUDO)


def _xnack(opcode: Opcode) -> bool:
    """A scalar load of several registers is replayed after a page fault: its address must have survived."""
    return opcode.category is Category.SMEM and bool(opcode.uses) and opcode.defs[0].width > 1


def _literal_uses(format_: str, uses: tuple[OperandSpec, ...]) -> tuple[int, ...]:
    if format_ in ("VOP1", "VOP2", "VOPC"):
        return (0,) if uses[0].kind == "x" else ()
    return tuple(n for n, u in enumerate(uses) if u.kind == "S") if format_ in ("SOP1", "SOP2", "SOPC") else ()


OPCODES: Mapping[str, Opcode] = MappingProxyType({
    name: _opcode(name, format_, signature, targets)
    for table, targets in ((_TABLE, TARGETS), (_GFX950_TABLE, ("gfx950",)))
    for format_, signature, names in table
    for name in names.split()
})  # fmt: skip


def opcode(name: str, place: str | None = None) -> Opcode:
    """The row of a mnemonic on any target. OpcodeError says what gfx942 has instead, or which names come near."""
    found = OPCODES.get(name)
    if found is not None:
        return found
    hint = HINTS.get(name.lower())
    if hint is not None:
        raise OpcodeError(f"gfx942 has no '{name}'; use {hint}", node=place, limit="gfx942")
    if name.lower() in OPCODES:
        raise OpcodeError(f"mnemonics are written in lower case: '{name.lower()}'", node=place)
    near = difflib.get_close_matches(name.lower(), OPCODES, n=5, cutoff=0.6)
    raise OpcodeError(f"no opcode '{name}' is known for gfx942", node=place, limit="gfx942", alternatives=near)
