"""LLVM as witness: what it refuses, and where it reads something else than was written."""

from __future__ import annotations

import gfx942_texts
import pytest
from gfx942 import llvm
from gfx942.llvm import DisassemblyError, find_llvm, require_llvm

from optimizer.errors import StateError
from optimizer.kernels.amdgpu.witness.errors import TextError

needs_llvm = pytest.mark.skipif(find_llvm() is None, reason="LLVM 19 is not installed")


def text_of(*instructions: str) -> str:
    return gfx942_texts.kernel("k", "\n".join(["v_mov_b32_e32 v1, 0", *instructions, "s_endpgm"]))


# What the assembler refuses: the third line of the kernel.
REFUSED = (
    "s_add_u64 s[2:3], s[2:3], s[4:5]",
    "v_mfma_f16_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]",
    "v_add_u32 v1, v1, 0x280",
    "v_lshl_add_u32 v1, v0, 4, 0x280",
    "v_add3_u32 v1, s2, s3, v0",
    "v_mul_lo_u32 v1, v0, 0x280",
    "buffer_load_dwordx2 v[3:4], v0, s[4:7], 0 offen",
    "ds_read_b32 v1, v0 offset:65536",
    "s_waitcnt lgkmcnt(16)",
)


@needs_llvm
@pytest.mark.parametrize("instruction", REFUSED)
def test_llvm_refuses(instruction: str) -> None:
    with pytest.raises(TextError, match="LLVM: ") as caught:
        require_llvm().assemble(text_of(instruction))

    assert caught.value.line == 9


@needs_llvm
def test_an_offset_that_the_assembler_cuts_off_is_found() -> None:
    with pytest.raises(DisassemblyError, match=r"line 9: `buffer_load_dword .* offset:4096` became `buffer_load_dword"):
        require_llvm().check(text_of("buffer_load_dword v1, v0, s[4:7], 0 offen offset:4096"))


# Spellings that the disassembler writes otherwise and that mean the same.
EQUIVALENT = (
    "v_mov_b32 v1, 0x3f800000",
    "v_mov_b32 v1, 0xffffffff",
    "v_mul_f32_e32 v1, 0.5, v0",
    "v_mul_f16_e32 v1, 0.5, v0",
    "v_fma_f32 v1, -v0, |v1|, 1.0",
    "buffer_load_dword v1, v0, s[4:7], 0 offen offset:0",
    "s_waitcnt vmcnt(0) & lgkmcnt(0)",
    "s_waitcnt lgkmcnt(0) vmcnt(63)",
    "s_waitcnt 0xc07f",
    "v_mfma_f32_16x16x16f16 v[0:3], v[4:5], v[6:7], 0",
    "v_mfma_f32_32x32x8bf16_1k a[0:15], v[4:5], v[6:7], a[0:15]",
    "s_movk_i32 s4, 0xffff",
    "s_mov_b64 exec, -1",
    "s_movk_i32 s4, -5",
    "s_load_dwordx8 s[8:15], s[0:1], s4 offset:0x10",
    "v_cmp_lt_u32_e64 s[4:5], v0, v1",
    "v_mov_b32_dpp v1, v0 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0",
    "ds_read2_b32 v[2:3], v0 offset0:0 offset1:1",
    "global_store_dword v0, v1, s[4:5] sc0 sc1 nt",
    "scratch_load_dword v1, off, s4 offset:4",
    "ds_swizzle_b32 v1, v0 offset:0x401f",
    "ds_swizzle_b32 v1, v0 offset:0x80b1",
    "ds_swizzle_b32 v1, v0 offset:0x1c1f",
    "ds_swizzle_b32 v1, v0 offset:0x0078",
    "ds_swizzle_b32 v1, v0 offset:0x1055",
)


@needs_llvm
@pytest.mark.parametrize("instruction", EQUIVALENT)
def test_equivalent_spellings(instruction: str) -> None:
    assert require_llvm().check(text_of(instruction)) == 3


@needs_llvm
def test_branches_lead_to_their_labels() -> None:
    text = text_of("again:", "s_cbranch_scc1 done", "s_nop 0", "s_branch again", "done:")

    assert require_llvm().check(text) == 5


@needs_llvm
@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("v_add_u32_e32 v1, v0, v1", "v_add_u32_e32 v1, v1, v0"),
        ("v_add_u32_e32 v1, v0, v1", "v_sub_u32_e32 v1, v0, v1"),
        ("v_add_u32_e32 v1, v0, v1", "v_add_u32_e64 v1, v0, v1"),
        ("v_mov_b32_e32 v1, 1", "v_mov_b32_e32 v1, 2"),
        ("v_mov_b32_e32 v1, 1", "v_mov_b32_e32 v1, 1.0"),
        ("ds_read_b32 v1, v0 offset:4", "ds_read_b32 v1, v0 offset:8"),
        ("s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(2)"),
        ("v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0", "v_mfma_f32_16x16x16_bf16 v[0:3], v[4:5], v[6:7], 0"),
        ("s_branch end", "s_branch 1"),
    ],
)
def test_a_different_encoding_is_found(written: str, read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = require_llvm()
    image = tools.assemble(text_of(read, "end:"))
    monkeypatch.setattr(llvm.Llvm, "assemble", lambda *_: image)

    with pytest.raises(DisassemblyError, match="line 9: "):
        tools.check(text_of(written, "end:"))


def test_where_llvm_is_missing_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm, "find_llvm", lambda: None)

    with pytest.raises(StateError, match=r"install Debian's llvm-19, or unpack it and set TTOPT_LLVM_DIR"):
        require_llvm()
