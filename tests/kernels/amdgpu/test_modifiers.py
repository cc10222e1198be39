"""Words behind operands: what is taken, what is refused, and what it means to registers."""

from __future__ import annotations

import numpy as np
import pytest
from gfx942.llvm import find_llvm, require_llvm

from optimizer.kernels.amdgpu.errors import ControlFlowError, OperandError
from optimizer.kernels.amdgpu.pipeline import AssemblyOptions, build
from optimizer.kernels.amdgpu.text import parse, text_of
from optimizer.kernels.amdgpu.witness.interpreter import run_kernel

GOOD = (
    "global_load_dword v1, v0, s[4:5] sc0 sc1 nt", "global_atomic_add v0, v1, s[4:5] nt", "v_add_u32 v1, v0, v2 clamp",
    "v_fma_f32 v1, v0, v2, v3 clamp", "v_mov_b32 v1, v0 quad_perm:[1,0,3,2] bound_ctrl:0",
    "v_add_co_u32 v1, vcc, v0, v2 row_shr:15 row_mask:0xa bank_mask:3", "v_fmac_f32 v1, v0, v2, v1 row_newbcast:3",
    "buffer_load_dword_lds v0, s[4:7], 0 offen nt",
)  # fmt: skip
BAD = (
    "v_mov_b32 v1, v0 foo", "v_add_u32 v1, v0, v2 op_sel:[1,0,0]", "ds_read_b32 v1, v0 nt", "s_mov_b32 s1, s0 clamp",
    "global_atomic_add v0, v1, s[4:5] sc0", "v_mov_b32 v1, v0 row_shr:16", "v_mov_b32 v1, v0 row_mask:0xf",
    "v_mov_b32 v1, s0 row_mirror", "v_add_u32 v1, 3, v2 row_mirror", "v_lshl_add_u32 v1, v0, v2, v3 row_mirror",
    "v_mov_b32 v1, v0 row_mirror row_mirror", "v_mov_b64 v[2:3], v[4:5] row_mirror",
    "v_bfe_u32 v1, v0, v2, v3 clamp",
)  # fmt: skip


@pytest.mark.parametrize("line", GOOD)
def test_modifiers_of_gfx942_are_taken(line: str) -> None:
    program = parse(f".kernel k\n.workgroup 64 1 1\ns_mov_b32 m0, 0\n{line}\ns_endpgm\n", encodable=True)
    assert parse(text_of(program)) == program
    text = build(program).text
    if find_llvm() is not None:
        require_llvm().check(text)


@pytest.mark.parametrize("line", BAD)
def test_others_are_refused_with_their_line(line: str) -> None:
    with pytest.raises(OperandError, match="line 2"):
        parse(f".kernel k\n{line}\ns_endpgm\n", encodable=True)


def test_clamp_leaves_no_room_for_a_literal() -> None:
    with pytest.raises(OperandError, match="short encoding"):
        build(parse("v_add_u32 v1, 0x1234, v2 clamp\n"))


KEPT = """.kernel k
.workgroup 64 1 1
.workgroup_ids 0
.argument y 8 pointer
.redefinable kv2
    s_load_dwordx2 ks0..+2@2, s[0:1], 0
    v_lshlrev_b32 kv1, 2, v0
    v_mov_b32 kv2, 7
    v_add_u32 kv3, 1, v0
    v_add_u32 kv4, kv3, kv3
    v_mov_b32 kv2, kv4 row_shr:1
    global_store_dword kv1, kv2, ks0..+2@2
    s_endpgm
"""


@pytest.mark.parametrize("dead_code", [False, True])
def test_lanes_without_a_source_keep_what_the_register_held(dead_code: bool) -> None:
    text = build(parse(KEPT), AssemblyOptions(remove_dead_code=dead_code)).text
    found = run_kernel(text, "k", [1], [64], {"y": np.zeros(64, np.uint32)}).buffers["y"]
    lane = np.arange(64)
    np.testing.assert_array_equal(found, np.where(lane % 16 == 0, 7, 2 * lane))


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        (".kernel 1x\ns_endpgm\n", OperandError, "name"),
        (".kernel k\nvcc:\ns_branch vcc\n", ControlFlowError, "label"),
        (".kernel k\nk:\ns_branch k\n", ControlFlowError, "kernel itself"),
        (".kernel k\n.workgroup -1 -64 1\ns_endpgm\n", OperandError, "workgroup"),
        (".kernel k\n.lds_bytes -4\ns_endpgm\n", OperandError, "LDS"),
        (".kernel k\nv_mov_b32 v256, 0\n", OperandError, "no v256"),
        (".kernel k\ns_mov_b64 s[102:103], 0\n", OperandError, "no s103"),
        (".kernel k\n_init_acc_quad kv0..+4@2\n", OperandError, "_init_acc_quad"),
    ],
)
def test_what_the_assembler_would_refuse_is_refused_before(text: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        build(parse(text))


def test_no_more_registers_are_taken_than_there_are() -> None:
    moves = "".join(f"v_mov_b32 kv{n}, v0\n" for n in range(260))
    uses = "".join(f"ds_write_b32 v0, kv{n}\n" for n in range(260))
    with pytest.raises(Exception, match="256 VGPRs"):
        build(parse(f".kernel k\n.max_vgprs 300\n.lds_bytes 4096\n{moves}{uses}s_endpgm\n"))


@pytest.mark.parametrize(
    "text",
    [
        "_loop_begin ks0, 8, outer\n_loop_end ks0, 1, outer\n",
        "_raw_asm ; v_mov_b32 v1, 0\\ns_nop 0 \\\\ 1\n",
    ],
)
def test_pseudo_instructions_are_read_back(text: str) -> None:
    program = parse(text)
    assert parse(text_of(program)) == program
    assert "\n" not in text_of(program).removesuffix("\n").splitlines()[-1]
