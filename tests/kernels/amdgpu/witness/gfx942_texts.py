"""Hand-written gfx942 kernels for the tests of the witnesses: text independent of any emitter."""

from __future__ import annotations


def kernel(
    name: str,
    body: str,
    *,
    vgprs: int = 32,
    agprs: int = 0,
    sgprs: int = 32,
    lds: int = 0,
    kernarg: int = 32,
    scratch: int = 0,
    workgroup_ids: str = "x",
    denormals: int = 3,
    extra: str = "",
) -> str:
    """A complete source file: target, code, kernel descriptor."""
    offset = max(4, -(-vgprs // 4) * 4)
    ids = "\n".join(f"  .amdhsa_system_sgpr_workgroup_id_{letter} {int(letter in workgroup_ids)}" for letter in "xyz")
    return f"""\
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
.protected {name}
.globl {name}
.p2align 8
.type {name},@function
{name}:
{body.strip(chr(10))}
.section .rodata,"a",@progbits
.p2align 6, 0x0
.amdhsa_kernel {name}
  .amdhsa_group_segment_fixed_size {lds}
  .amdhsa_private_segment_fixed_size {scratch}
  .amdhsa_enable_private_segment {int(scratch > 0)}
  .amdhsa_kernarg_size {kernarg}
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
{ids}
  .amdhsa_system_vgpr_workitem_id 0
  .amdhsa_next_free_vgpr {offset + agprs if agprs else vgprs}
  .amdhsa_accum_offset {offset}
  .amdhsa_next_free_sgpr {sgprs}
  .amdhsa_float_denorm_mode_32 {denormals}
{extra}
.end_amdhsa_kernel
"""


# out[i] = in[i] for the 64 * 4 floats of every workgroup; buffers are described by V# with their size in bytes.
COPY = kernel(
    "copy",
    """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_load_dword s12, s[0:1], 0x10
  s_lshl_b32 s3, s2, 10
  v_lshl_add_u32 v1, v0, 4, s3
  s_waitcnt lgkmcnt(0)
  s_mov_b32 s8, s6
  s_mov_b32 s9, s7
  s_mov_b32 s10, s12
  s_mov_b32 s11, 0x20000
  s_mov_b32 s6, s12
  s_mov_b32 s7, 0x20000
  buffer_load_dwordx4 v[4:7], v1, s[4:7], 0 offen
  s_waitcnt vmcnt(0)
  buffer_store_dwordx4 v[4:7], v1, s[8:11], 0 offen
  s_endpgm
""",
    vgprs=8,
    sgprs=13,
    kernarg=24,
)

# out[workgroup] = sum of 256 floats: every wave sums its 64 by halves in LDS, wave 0 adds the four sums.
REDUCE = kernel(
    "reduce",
    """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_lshl_b32 s3, s2, 10
  v_lshl_add_u32 v1, v0, 2, s3
  v_lshlrev_b32_e32 v2, 2, v0
  s_waitcnt lgkmcnt(0)
  global_load_dword v3, v1, s[4:5]
  s_waitcnt vmcnt(0)
  ds_write_b32 v2, v3
  s_waitcnt lgkmcnt(0)
  s_barrier
  s_movk_i32 s8, 128
reduce_loop:
  v_cmp_gt_u32_e32 vcc, s8, v0
  s_and_saveexec_b64 s[10:11], vcc
  s_cbranch_execz reduce_skip
  v_lshl_add_u32 v4, s8, 2, v2
  ds_read_b32 v5, v2
  ds_read_b32 v6, v4
  s_waitcnt lgkmcnt(0)
  v_add_f32_e32 v5, v5, v6
  ds_write_b32 v2, v5
reduce_skip:
  s_mov_b64 exec, s[10:11]
  s_waitcnt lgkmcnt(0)
  s_barrier
  s_lshr_b32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 reduce_loop
  v_cmp_eq_u32_e32 vcc, 0, v0
  s_and_saveexec_b64 s[10:11], vcc
  s_cbranch_execz reduce_end
  ds_read_b32 v5, v2
  v_mov_b32_e32 v6, 0
  s_lshl_b32 s3, s2, 2
  s_add_u32 s6, s6, s3
  s_addc_u32 s7, s7, 0
  s_waitcnt lgkmcnt(0)
  global_store_dword v6, v5, s[6:7]
reduce_end:
  s_endpgm
""",
    vgprs=8,
    sgprs=12,
    lds=1024,
    kernarg=16,
)

# D = A B^T for 16 x 16 halves, one wave: lane l loads 4 consecutive k of row l mod 16 of A and of B.
MFMA_TILE = kernel(
    "mfma_tile",
    """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_load_dwordx2 s[8:9], s[0:1], 0x10
  v_and_b32_e32 v1, 15, v0
  v_lshrrev_b32_e32 v2, 4, v0
  v_lshlrev_b32_e32 v3, 3, v2
  v_lshl_or_b32 v3, v1, 5, v3
  s_waitcnt lgkmcnt(0)
  global_load_dwordx2 v[4:5], v3, s[4:5]
  global_load_dwordx2 v[6:7], v3, s[6:7]
  s_waitcnt vmcnt(0)
  v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[6:7], 0
  v_lshlrev_b32_e32 v2, 8, v2
  v_lshl_or_b32 v2, v1, 2, v2
  s_nop 4
  global_store_dword v2, v8, s[8:9]
  global_store_dword v2, v9, s[8:9] offset:64
  global_store_dword v2, v10, s[8:9] offset:128
  global_store_dword v2, v11, s[8:9] offset:192
  s_endpgm
""",
    vgprs=12,
    sgprs=10,
    kernarg=24,
)

# C(32 x 32) = A(32 x K) B(32 x K)^T in halves, 4 waves, one 16 x 16 tile each, 16 k per step staged in LDS:
# a wave brings its quarter of the A and B panels (16 bytes a lane, lanes 0..31), then reads its fragments.
GEMM = kernel(
    "gemm",
    """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_load_dwordx2 s[8:9], s[0:1], 0x10
  s_load_dword s10, s[0:1], 0x18
  v_lshrrev_b32_e32 v1, 6, v0
  v_and_b32_e32 v2, 63, v0
  v_and_b32_e32 v3, 15, v2
  v_lshrrev_b32_e32 v4, 4, v2
  v_lshrrev_b32_e32 v5, 1, v1
  v_and_b32_e32 v6, 1, v1
  v_lshl_or_b32 v7, v5, 4, v3
  v_lshl_or_b32 v8, v6, 4, v3
  v_lshlrev_b32_e32 v9, 3, v4
  v_lshl_or_b32 v10, v7, 5, v9
  v_lshl_or_b32 v11, v8, 5, v9
  v_lshrrev_b32_e32 v12, 3, v0
  v_and_b32_e32 v13, 7, v0
  v_lshlrev_b32_e32 v14, 2, v13
  v_lshl_or_b32 v15, v12, 5, v14
  v_mov_b32_e32 v20, 0
  v_mov_b32_e32 v21, 0
  v_mov_b32_e32 v22, 0
  v_mov_b32_e32 v23, 0
  s_waitcnt lgkmcnt(0)
  s_lshl_b32 s11, s10, 1
  v_mad_u64_u32 v[16:17], s[14:15], v12, s11, 0
  v_add_u32_e32 v16, v16, v14
  s_mov_b32 s12, 0
gemm_loop:
  global_load_dword v24, v16, s[4:5]
  global_load_dword v25, v16, s[6:7]
  s_waitcnt vmcnt(1)
  ds_write_b32 v15, v24
  s_waitcnt vmcnt(0)
  ds_write_b32 v15, v25 offset:1024
  s_waitcnt lgkmcnt(0)
  s_barrier
  ds_read_b64 v[26:27], v10
  ds_read_b64 v[28:29], v11 offset:1024
  v_add_u32_e32 v16, 32, v16
  s_waitcnt lgkmcnt(0)
  v_mfma_f32_16x16x16_f16 v[20:23], v[26:27], v[28:29], v[20:23]
  s_barrier
  s_add_u32 s12, s12, 16
  s_cmp_lt_u32 s12, s10
  s_cbranch_scc1 gemm_loop
  v_lshlrev_b32_e32 v30, 2, v4
  v_lshl_or_b32 v30, v5, 4, v30
  v_lshlrev_b32_e32 v30, 7, v30
  v_lshl_or_b32 v30, v8, 2, v30
  global_store_dword v30, v20, s[8:9]
  global_store_dword v30, v21, s[8:9] offset:128
  global_store_dword v30, v22, s[8:9] offset:256
  global_store_dword v30, v23, s[8:9] offset:384
  s_endpgm
""",
    vgprs=32,
    sgprs=16,
    lds=2048,
    kernarg=28,
)
