"""Memory instructions of every kind, and the state that a kernel finds at entry."""

from __future__ import annotations

import gfx942_texts
import numpy as np
import pytest
from launches import run_body

from optimizer.kernels.amdgpu.witness.errors import ExecutionError
from optimizer.kernels.amdgpu.witness.interpreter import run_kernel

SOURCE = np.arange(1000, 1256, dtype=np.uint32)
# A V# in s[20:23] for the first argument; its size in bytes is filled in.
RESOURCE = "s_mov_b32 s20, s4\ns_or_b32 s21, s5, {stride} << 16\ns_mov_b32 s22, {records}\ns_mov_b32 s23, 0x20000\n"


def resource(records: int, stride: int = 0) -> str:
    return RESOURCE.replace("{stride} << 16", str(stride << 16)).format(records=records)


def stored(body: str, register: str = "v8", **options: object) -> list[int]:
    """What `body` leaves in `register`, from the array SOURCE in s[4:5]."""
    end = f"\ns_nop 4\nv_lshlrev_b32_e32 v1, 2, v0\nglobal_store_dword v1, {register}, s[6:7]"
    run = run_body(body + end, {"source": SOURCE, "target": np.zeros(64, np.uint32)}, **options)
    return [int(value) for value in run.buffers["target"]]


def test_buffer_reads_beyond_the_records_are_zero_and_per_dword() -> None:
    body = resource(records=40) + (
        "v_lshlrev_b32_e32 v1, 4, v0\nbuffer_load_dwordx4 v[8:11], v1, s[20:23], 0 offen\ns_waitcnt vmcnt(0)"
    )

    assert stored(body, "v9") == [1001, 1005, 1009 if 36 + 4 <= 40 else 0, *[0] * 61]
    assert stored(body, "v10") == [1002, 1006, *[0] * 62]


def test_buffer_stores_beyond_the_records_are_dropped() -> None:
    body = resource(records=12) + "v_lshlrev_b32_e32 v1, 2, v0\nbuffer_store_dword v0, v1, s[20:23], 0 offen offset:4"

    run = run_body(body, {"target": SOURCE})

    assert run.buffers["target"][:4].tolist() == [1000, 0, 1, 1003]


def test_buffer_scalar_offset_counts_for_the_range() -> None:
    body = resource(records=16) + (
        "s_movk_i32 s24, 8\nv_lshlrev_b32_e32 v1, 2, v0\n"
        "buffer_load_dword v8, v1, s[20:23], s24 offen\ns_waitcnt vmcnt(0)"
    )

    assert stored(body)[:3] == [1002, 1003, 0]


def test_buffer_index_counts_records_of_the_stride() -> None:
    body = resource(records=3, stride=8) + "buffer_load_dword v8, v0, s[20:23], 0 idxen offset:4\ns_waitcnt vmcnt(0)"

    assert stored(body)[:4] == [1001, 1003, 1005, 0]


BYTES = "v_lshlrev_b32_e32 v1, 2, v0\nv_mov_b32_e32 v8, -1\n"
NARROW = (
    ("global_load_ubyte v8, v1, s[4:5]", SOURCE & 0xFF),
    ("global_load_sbyte v8, v1, s[4:5]", (SOURCE & 0xFF).astype(np.int8).astype(np.int32).view(np.uint32)),
    ("global_load_ushort v8, v1, s[4:5] offset:4", np.roll(SOURCE, -1)),
    ("global_load_short_d16 v8, v1, s[4:5]", SOURCE | 0xFFFF0000),
    ("global_load_short_d16_hi v8, v1, s[4:5]", (SOURCE << 16) | 0xFFFF),
)


@pytest.mark.parametrize(("load", "expected"), NARROW, ids=[case[0] for case in NARROW])
def test_narrow_loads(load: str, expected: np.ndarray) -> None:
    assert stored(f"{BYTES}{load}\ns_waitcnt vmcnt(0)") == expected[:64].tolist()


def test_address_in_a_vgpr_pair_crosses_four_gigabytes() -> None:
    target = np.zeros(1 << 10, np.uint32)
    body = (
        "v_lshlrev_b32_e32 v1, 4, v0\nv_mov_b32_e32 v3, s5\nv_add_co_u32_e32 v2, vcc, s4, v1\ns_nop 1\n"
        "v_addc_co_u32_e32 v3, vcc, 0, v3, vcc\nglobal_store_dword v[2:3], v0, off offset:8"
    )

    run = run_body(body, {"target": target})

    assert run.buffers["target"][2:256:4].tolist() == list(range(64))


def test_flat_access_needs_both_counters() -> None:
    body = (
        "v_lshlrev_b32_e32 v1, 2, v0\nv_mov_b32_e32 v3, s5\nv_add_co_u32_e32 v2, vcc, s4, v1\ns_nop 1\n"
        "v_addc_co_u32_e32 v3, vcc, 0, v3, vcc\nflat_load_dword v8, v[2:3]\ns_waitcnt vmcnt(0) lgkmcnt(0)"
    )

    assert stored(body) == SOURCE[:64].tolist()


LDS = (
    "v_lshlrev_b32_e32 v1, 4, v0\nv_mov_b32_e32 v4, v0\nv_add_u32_e32 v5, 64, v0\n"
    "v_lshlrev_b32_e32 v6, 1, v0\nv_not_b32_e32 v7, v0\n"
)
SHARED = (
    ("ds_write_b128 v1, v[4:7]\nds_read_b32 v8, v1 offset:4", lambda i: i + 64),
    ("ds_write_b96 v1, v[4:6]\nds_read_b96 v[10:12], v1\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v8, v12", lambda i: 2 * i),
    ("ds_write2_b32 v1, v4, v5 offset0:1 offset1:3\nds_read_b32 v8, v1 offset:12", lambda i: i + 64),
    ("ds_write_b64 v1, v[4:5]\nds_read2_b32 v[8:9], v1 offset0:1 offset1:0", lambda i: i + 64),
    (
        "ds_write_b64 v1, v[4:5]\nds_write_b64 v1, v[6:7] offset:8\nds_read2_b64 v[8:11], v1 offset0:1 offset1:0",
        lambda i: 2 * i,
    ),
    ("ds_write2st64_b32 v4, v4, v5 offset1:1\nds_read2st64_b32 v[8:9], v4 offset0:1", None),
    ("ds_write_b32 v1, v7\nds_read_u16 v8, v1 offset:2", lambda i: ~i >> 16 & 0xFFFF),
    ("ds_write_b32 v1, v7\nds_read_i16 v8, v1", lambda i: ~i),
    ("ds_write_b16 v1, v7\nds_write_b16_d16_hi v1, v7 offset:2\nds_read_b32 v8, v1", lambda i: ~i),
    ("ds_write_b8 v1, v4\nds_read_u8 v8, v1", lambda i: i),
    ("ds_write_b32 v1, v4\nv_mov_b32_e32 v8, -1\nds_read_u16_d16_hi v8, v1", lambda i: i << 16 | 0xFFFF),
)


@pytest.mark.parametrize(("access", "expected"), SHARED, ids=[case[0].replace("\n", "; ") for case in SHARED])
def test_lds_access(access: str, expected: object) -> None:
    if expected is None:
        access = "v_lshlrev_b32_e32 v4, 2, v0\n" + access
        access, expected = access.replace("v4, v4, v5", "v4, v0, v5"), lambda i: i + 64

    assert stored(f"{LDS}{access}\ns_waitcnt lgkmcnt(0)", lds=1024) == [expected(i) & 0xFFFFFFFF for i in range(64)]  # type: ignore[operator]


ATOMICS = (
    ("ds_add_u32 v2, v0", 2016),
    ("ds_max_u32 v2, v0", 63),
    ("v_cvt_f32_u32_e32 v3, v0\nds_add_f32 v2, v3\nds_add_f32 v2, v3", int(np.float32(4032).view(np.uint32))),
)


@pytest.mark.parametrize(("update", "expected"), ATOMICS, ids=[case[0].replace("\n", "; ") for case in ATOMICS])
def test_lds_atomics_of_all_lanes(update: str, expected: int) -> None:
    body = f"v_mov_b32_e32 v2, 0\nds_write_b32 v2, v2\n{update}\nds_read_b32 v8, v2\ns_waitcnt lgkmcnt(0)"

    assert stored(body, lds=4) == [expected] * 64


def test_global_atomics_of_several_workgroups_are_no_race() -> None:
    body = "s_load_dwordx2 s[4:5], s[0:1], 0x0\nv_mov_b32_e32 v1, 0\ns_waitcnt lgkmcnt(0)\n"
    text = gfx942_texts.kernel("sum", body + "global_atomic_add v1, v0, s[4:5] offset:4\ns_endpgm", kernarg=8)

    run = run_kernel(text, "sum", [3], [128], {"total": np.zeros(2, np.uint32)})

    assert run.buffers["total"].tolist() == [0, 3 * 127 * 64]


def test_load_into_lds() -> None:
    body = resource(records=1024) + (
        "s_movk_i32 m0, 256\nv_lshlrev_b32_e32 v1, 2, v0\nbuffer_load_dword v1, s[20:23], 0 offen offset:16 lds\n"
        "s_waitcnt vmcnt(0)\nds_read_b32 v8, v1 offset:272\ns_waitcnt lgkmcnt(0)"
    )

    assert stored(body, lds=1024) == SOURCE[4:68].tolist()


TO_LDS = "buffer_load_dword v1, s[20:23], 0 offen lds\n"
UNORDERED = {
    "read while it is loaded": f"{TO_LDS}ds_read_b32 v8, v1\n",
    "written while it is loaded": f"{TO_LDS}ds_write_b32 v1, v0\n",
    "updated while it is loaded": f"{TO_LDS}ds_add_u32 v1, v0\n",
    "loaded while it is read": f"ds_read_b64 v[8:9], v1 offset:248\n{TO_LDS}",
    "loaded while it is written": f"ds_write2_b32 v1, v0, v0 offset1:64\n{TO_LDS}",
}


@pytest.mark.parametrize("accesses", UNORDERED.values(), ids=UNORDERED)
def test_loads_into_lds_are_not_ordered_with_lds_operations(accesses: str) -> None:
    start = resource(records=1024) + (
        "s_mov_b32 m0, 0\nv_lshlrev_b32_e32 v1, 2, v0\nds_write2_b32 v1, v0, v0 offset1:64\ns_waitcnt lgkmcnt(0)\n"
    )
    end = "v_mov_b32_e32 v8, 0"
    first, second = accesses.splitlines()
    waited = f"{first}\ns_waitcnt vmcnt(0) lgkmcnt(0)\n{second}\ns_waitcnt vmcnt(0) lgkmcnt(0)\n"
    assert stored(start + waited + end, lds=1024) == [0] * 64
    with pytest.raises(ExecutionError, match=r"missing-wait.*may still touch"):
        stored(start + accesses + "s_waitcnt vmcnt(0) lgkmcnt(0)\n" + end, lds=1024)


def test_scratch_keeps_what_a_lane_stored() -> None:
    body = (
        "v_mov_b32_e32 v4, v0\nv_add_u32_e32 v5, 7, v0\nv_mov_b32_e32 v2, 4\ns_mov_b32 s20, 4\n"
        "scratch_store_dwordx2 off, v[4:5], off offset:8\nscratch_store_dword v2, v4, off\n"
        "scratch_load_dword v8, off, s20 offset:8\ns_waitcnt vmcnt(0)"
    )

    assert stored(body, scratch=16) == [lane + 7 for lane in range(64)]


def test_agprs_hold_loaded_data() -> None:
    body = (
        "v_lshlrev_b32_e32 v1, 2, v0\nglobal_load_dword a3, v1, s[4:5]\ns_waitcnt vmcnt(0)\nv_accvgpr_read_b32 v8, a3"
    )

    assert stored(body, agprs=4) == SOURCE[:64].tolist()


def test_arguments_lie_at_multiples_of_their_size() -> None:
    body = "s_load_dword s4, s[0:1], 0x0\ns_load_dwordx2 s[6:7], s[0:1], 0x8\ns_load_dword s5, s[0:1], 0x10\n"
    body += "v_mov_b32_e32 v1, 0\ns_waitcnt lgkmcnt(0)\ns_add_u32 s4, s4, s5\nv_mov_b32_e32 v2, s4\n"
    text = gfx942_texts.kernel("arguments", body + "global_store_dword v1, v2, s[6:7]\ns_endpgm", kernarg=20)
    arguments = {"a": np.int32(40), "target": np.zeros(1, np.int32), "b": np.uint32(2)}

    run = run_kernel(text, "arguments", [1], [64], arguments)

    assert run.buffers["target"].tolist() == [42]


def test_every_thread_of_a_three_dimensional_grid() -> None:
    body = """
      s_load_dwordx2 s[6:7], s[0:1], 0x0
      v_and_b32_e32 v1, 0x3ff, v0
      v_bfe_u32 v2, v0, 10, 10
      v_bfe_u32 v3, v0, 20, 10
      s_mul_i32 s5, s4, 3
      s_add_u32 s5, s5, s3
      s_lshl_b32 s5, s5, 1
      s_add_u32 s5, s5, s2
      s_mul_i32 s5, s5, 105
      v_mul_u32_u24_e32 v3, 35, v3
      v_mul_u32_u24_e32 v2, 5, v2
      v_add3_u32 v1, v1, v2, v3
      v_add_u32_e32 v2, s5, v1
      v_lshlrev_b32_e32 v1, 2, v2
      s_waitcnt lgkmcnt(0)
      global_store_dword v1, v2, s[6:7]
      s_endpgm
    """
    text = gfx942_texts.kernel("threads", body, workgroup_ids="xyz", kernarg=8)
    text = text.replace(".amdhsa_system_vgpr_workitem_id 0", ".amdhsa_system_vgpr_workitem_id 2")

    run = run_kernel(text, "threads", [2, 3, 4], [5, 7, 3], {"target": np.zeros(24 * 105, np.uint32)})

    assert run.buffers["target"].tolist() == list(range(24 * 105))
    assert run.statistics.waves == 24 * 2
