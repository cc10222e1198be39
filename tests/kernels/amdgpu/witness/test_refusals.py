"""Programs whose meaning the hardware does not define: each is refused, with kind, line and reason."""

from __future__ import annotations

import gfx942_texts
import numpy as np
import pytest
from gfx942.llvm import find_llvm, require_llvm
from launches import run_body

from optimizer.errors import UnknownNameError
from optimizer.kernels.amdgpu.witness.errors import ExecutionError, TextError
from optimizer.kernels.amdgpu.witness.interpreter import run_kernel

ZEROS = np.zeros(256, np.uint32)
ADDRESS = "v_lshlrev_b32_e32 v1, 2, v0\n"
LOAD = ADDRESS + "global_load_dword v2, v1, s[4:5]\n"
# name, body, kernel options, kind, a part of the message
BODIES = (
    ("read of a register never written", "v_add_u32_e32 v1, v2, v0", {}, "undefined-register", "v2, never written"),
    ("read of an SGPR never written", "s_add_u32 s9, s8, 1", {}, "undefined-register", "s8, never written"),
    ("read of scc never written", "s_cselect_b32 s9, 1, 2", {}, "undefined-register", "scc"),
    (
        "lanes that a masked write left out",
        "s_mov_b64 exec, 15\nv_mov_b32_e32 v1, 1\ns_mov_b64 exec, -1\nv_mov_b32_e32 v2, v1",
        {},
        "undefined-register",
        "lane 4",
    ),
    ("workgroup id that is not enabled", "s_mov_b32 s9, s3", {}, "undefined-register", "s3"),
    ("VGPR beyond the descriptor", "v_mov_b32_e32 v9, 0", {"vgprs": 9}, "register-limit", "v9"),
    ("SGPR beyond the descriptor", "s_mov_b32 s30, 0", {"sgprs": 30}, "register-limit", "s30"),
    ("AGPR without any", "v_accvgpr_write_b32 a0, v0", {}, "register-limit", "a0"),
    ("vcc not reserved", "v_cmp_eq_u32_e32 vcc, 0, v0", {"extra": "  .amdhsa_reserve_vcc 0"}, "register-limit", "vcc"),
    ("odd VGPR pair", ADDRESS + "global_load_dwordx2 v[3:4], v1, s[4:5]", {}, "alignment", "v3"),
    ("odd SGPR pair", "s_load_dwordx2 s[9:10], s[0:1], 0x0", {}, "alignment", "s9"),
    ("SGPR quad not at a multiple of 4", "s_load_dwordx4 s[10:13], s[0:1], 0x0", {}, "alignment", "s10"),
    ("buffer offset 4096", "buffer_load_dword v1, off, s[8:11], 0 offset:4096", {}, "offset-range", "4096"),
    ("LDS offset 65536", ADDRESS + "ds_read_b32 v2, v1 offset:65536", {"lds": 256}, "offset-range", "65536"),
    ("global offset -4097", ADDRESS + "global_load_dword v2, v1, s[4:5] offset:-4097", {}, "offset-range", "-4097"),
    ("LDS beyond the kernel's", ADDRESS + "ds_write_b32 v1, v0", {"lds": 252}, "lds-bounds", "252 bytes"),
    ("LDS without any", ADDRESS + "ds_write_b32 v1, v0", {}, "lds-bounds", "0 bytes"),
    ("LDS read before any write", ADDRESS + "ds_read_b32 v2, v1", {"lds": 256}, "undefined-memory", "LDS byte 0"),
    ("LDS read at odd bytes", "v_mov_b32_e32 v1, 2\nds_write_b32 v1, v0", {"lds": 256}, "alignment", "0x2"),
    (
        "global address outside",
        "v_mov_b32_e32 v1, -4\nglobal_load_dword v2, v1, s[4:5]",
        {},
        "memory-fault",
        "in no buffer",
    ),
    (
        "address without carry into the high half",
        "s_add_u32 s6, s4, 0x200\nv_mov_b32_e32 v2, s6\nv_mov_b32_e32 v3, s5\nglobal_load_dword v4, v[2:3], off",
        {},
        "memory-fault",
        "in no buffer",
    ),
    (
        "store to the kernel's arguments",
        ADDRESS + "s_mov_b64 exec, 1\nglobal_store_dword v1, v0, s[0:1]",
        {},
        "memory-fault",
        "read-only",
    ),
    ("two lanes at one address", "v_mov_b32_e32 v1, 0\nglobal_store_dword v1, v0, s[4:5]", {}, "race", "two lanes"),
    ("scratch that is not enabled", "scratch_store_dword off, v0, off", {}, "descriptor", "private_segment"),
    (
        "scratch beyond the segment",
        "scratch_store_dword off, v0, off offset:8",
        {"scratch": 8},
        "scratch-bounds",
        "of 8",
    ),
    ("scratch read before any write", "scratch_load_dword v1, off, off", {"scratch": 8}, "undefined-memory", "scratch"),
    ("loop without end", "forever:\ns_branch forever", {}, "no-end", "still running"),
    (
        "load overwritten by a move",
        LOAD + "v_mov_b32_e32 v2, 0",
        {},
        "missing-wait",
        "overwrites v2",
    ),
    (
        "load read by a store",
        LOAD + "s_nop 0\nglobal_store_dword v1, v2, s[4:5]",
        {},
        "missing-wait",
        "vmcnt(0)",
    ),
    (
        "count too high for the older of two loads",
        LOAD + "global_load_dword v3, v1, s[4:5]\ns_waitcnt vmcnt(1)\nv_add_u32_e32 v4, v2, v3",
        {},
        "missing-wait",
        "reads v3",
    ),
    (
        "count above zero with scalar loads",
        "s_load_dword s10, s[0:1], 0x0\ns_load_dword s11, s[0:1], 0x4\ns_waitcnt lgkmcnt(1)\ns_mov_b32 s12, s10",
        {},
        "missing-wait",
        "lgkmcnt(0)",
    ),
    (
        "LDS count above zero with a scalar load",
        ADDRESS + "ds_write_b32 v1, v0\nds_read_b32 v2, v1\n"
        "s_load_dword s10, s[0:1], 0x0\ns_waitcnt lgkmcnt(1)\nv_mov_b32_e32 v3, v2",
        {"lds": 256},
        "missing-wait",
        "lgkmcnt(0)",
    ),
    (
        "store before the memory clause of its load ends",
        LOAD + "global_store_dword v1, v0, s[4:5]",
        {},
        "hazard",
        "XNACK",
    ),
)


@pytest.mark.parametrize(
    ("body", "options", "kind", "part"), [case[1:] for case in BODIES], ids=[case[0] for case in BODIES]
)
def test_undefined_execution(body: str, options: dict[str, object], kind: str, part: str) -> None:
    with pytest.raises(ExecutionError, match=r"line \d+ `") as caught:
        run_body(body, {"zeros": ZEROS}, **options)

    assert caught.value.kind == kind
    assert part in str(caught.value)


TEXTS = (
    ("unknown mnemonic", "v_add_u33 v1, v0, v0", "v_add_u32"),
    ("opcode that gfx942 lacks", "s_add_u64 s[8:9], s[8:9], s[8:9]", "does not know"),
    ("register that does not exist", "v_mov_b32 v256, 0", "v0 to v255"),
    ("unknown label", "s_branch nowhere", "nowhere"),
    ("modifier that means nothing here", "v_add_u32 v1, v0, v0 offset:4", "offset"),
    ("vmcnt(64)", "s_waitcnt vmcnt(64)", "63"),
    ("lgkmcnt(16)", "s_waitcnt lgkmcnt(16)", "15"),
    ("too few operands", "v_add_u32 v1, v0", "takes 3"),
    ("tuple of the wrong size", "global_load_dwordx2 v4, v0, s[4:5]", "2 registers"),
    ("number that is too large", "s_mov_b32 s9, 0x100000000", "32 bits"),
)


@pytest.mark.parametrize(("body", "part"), [case[1:] for case in TEXTS], ids=[case[0] for case in TEXTS])
def test_unreadable_text(body: str, part: str) -> None:
    with pytest.raises(TextError) as caught:
        run_body(body, {"zeros": ZEROS})

    assert part in str(caught.value)
    assert caught.value.line == 10


def run_waves(body: str, lds: int = 1024) -> None:
    text = gfx942_texts.kernel("waves", body + "\ns_endpgm", vgprs=16, sgprs=16, lds=lds)
    run_kernel(text, "waves", [1], [128], {})


SECOND_WAVE = "v_readfirstlane_b32 s4, v0\ns_cmp_lg_u32 s4, 0\n"
NEIGHBOUR = "v_lshlrev_b32_e32 v1, 2, v0\nv_xor_b32_e32 v2, 0x100, v1\n"


def test_a_barrier_that_one_wave_misses() -> None:
    with pytest.raises(ExecutionError, match="barrier: waits for waves that have ended"):
        run_waves(SECOND_WAVE + "s_cbranch_scc1 over\ns_barrier\nover:")


def test_waves_at_different_barriers() -> None:
    with pytest.raises(ExecutionError, match=r"different barriers, lines \[11, 13\]"):
        run_waves(SECOND_WAVE + "s_cbranch_scc1 other\ns_barrier\ns_branch end\nother: s_barrier\nend:")


def test_lds_of_another_wave_without_a_barrier() -> None:
    with pytest.raises(ExecutionError, match=r"race: .* written at line 10 by another wave|undefined-memory"):
        run_waves(NEIGHBOUR + "ds_write_b32 v1, v0\ns_waitcnt lgkmcnt(0)\nds_read_b32 v3, v2")


def test_lds_of_another_wave_after_a_barrier_that_precedes_the_wait() -> None:
    with pytest.raises(ExecutionError, match=r"race: .* written at line 10 by another wave"):
        run_waves(NEIGHBOUR + "ds_write_b32 v1, v0\ns_barrier\ns_waitcnt lgkmcnt(0)\nds_read_b32 v3, v2")


def test_lds_overwritten_while_another_wave_may_read_it() -> None:
    body = NEIGHBOUR + "ds_write_b32 v1, v0\ns_waitcnt lgkmcnt(0)\ns_barrier\n" + SECOND_WAVE
    reader, writer = "ds_read_b32 v3, v2\ns_waitcnt lgkmcnt(0)\ns_branch end\n", "writer: ds_write_b32 v1, v0\nend:"

    with pytest.raises(ExecutionError, match=r"race: writes LDS byte 256, read at line"):
        run_waves(body + "s_cbranch_scc1 writer\n" + reader + writer)


def test_workgroups_that_write_one_place() -> None:
    body = "v_mov_b32_e32 v1, 0\nv_mov_b32_e32 v2, s2\ns_load_dwordx2 s[4:5], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\n"
    text = gfx942_texts.kernel("groups", body + "global_store_dword v1, v2, s[4:5]\ns_endpgm", kernarg=8)

    with pytest.raises(ExecutionError, match=r"race: writes target byte 0"):
        run_kernel(text, "groups", [2], [64], {"target": np.zeros(1, np.uint32)})


def test_the_end_is_missing() -> None:
    text = gfx942_texts.kernel("open", "v_mov_b32_e32 v1, 0")

    with pytest.raises(ExecutionError, match=r"no-end: .* s_endpgm is missing"):
        run_kernel(text, "open", [1], [64], {})


def test_arguments_beyond_the_segment() -> None:
    with pytest.raises(ExecutionError, match=r"descriptor: .amdhsa_kernarg_size 4: the arguments need 8 bytes"):
        run_body("s_nop 0", {"zeros": ZEROS}, kernarg=4)


def test_a_kernel_that_is_not_there() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown kernel 'kopy', did you mean 'copy'"):
        run_kernel(gfx942_texts.COPY, "kopy", [1], [64], {})


def test_a_descriptor_without_its_registers() -> None:
    text = gfx942_texts.COPY.replace("  .amdhsa_next_free_vgpr 8\n", "")

    with pytest.raises(TextError, match="amdhsa_next_free_vgpr is missing"):
        run_kernel(text, "copy", [1], [64], {})


def test_clauses_are_free_where_memory_is_not_replayed() -> None:
    text = gfx942_texts.kernel(
        "clause",
        "s_load_dwordx2 s[4:5], s[0:1], 0x0\nv_lshlrev_b32_e32 v1, 2, v0\ns_waitcnt lgkmcnt(0)\n"
        "global_load_dword v2, v1, s[4:5]\nglobal_store_dword v1, v0, s[4:5]\ns_endpgm",
        kernarg=8,
    ).replace('gfx942"', 'gfx942:xnack-"')

    run = run_kernel(text, "clause", [1], [64], {"zeros": ZEROS})

    assert run.buffers["zeros"][:64].tolist() == list(range(64))


METADATA = """
.amdgpu_metadata
---
amdhsa.version: [ 1, 2 ]
amdhsa.kernels:
  - .name: !str "copy"
    .symbol: copy.kd
    .kernarg_segment_size: 24
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 13
    .vgpr_count: 8
    .max_flat_workgroup_size: 64
    .args:
      - { .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .offset: 16, .size: 4, .value_kind: by_value }
...
.end_amdgpu_metadata
"""
DISAGREEMENTS = (
    (".symbol: copy.kd", ".symbol: copy", "copy.kd"),
    ("segment_size: 24", "segment_size: 20", "needs 24"),
    ("group_segment_fixed_size: 0", "group_segment_fixed_size: 64", "needs 0"),
    ("wavefront_size: 64", "wavefront_size: 32", "needs 64"),
    (".vgpr_count: 8", ".vgpr_count: 7", "8 registers"),
    ("workgroup_size: 64", "workgroup_size: 32", "a workgroup of 64 was launched"),
    (".offset: 16, .size: 4", ".offset: 20, .size: 4", "passed 4 bytes at 16"),
    ("      - { .offset: 16, .size: 4, .value_kind: by_value }\n", "", "2 arguments, 3 were passed"),
)


def copy_with(metadata: str) -> np.ndarray:
    numbers = np.arange(256, dtype=np.float32)
    arguments = {"source": numbers, "target": np.zeros_like(numbers), "bytes": np.uint32(numbers.nbytes)}
    return run_kernel(gfx942_texts.COPY + metadata, "copy", [1], [64], arguments).buffers["target"]


def test_metadata_that_agrees() -> None:
    assert copy_with(METADATA)[255] == 255


@pytest.mark.skipif(find_llvm() is None, reason="LLVM 19 is not installed")
def test_llvm_accepts_the_metadata() -> None:
    assert require_llvm().check(gfx942_texts.COPY + METADATA) == 15


@pytest.mark.parametrize(
    ("old", "new", "part"), DISAGREEMENTS, ids=[case[1].strip() or "missing" for case in DISAGREEMENTS]
)
def test_metadata_that_disagrees(old: str, new: str, part: str) -> None:
    with pytest.raises(ExecutionError, match=r"descriptor: metadata of 'copy'") as caught:
        copy_with(METADATA.replace(old, new))

    assert part in str(caught.value)


def test_metadata_that_is_no_yaml() -> None:
    with pytest.raises(TextError, match="metadata is no YAML"):
        copy_with(METADATA.replace("[ 1, 2 ]", "[ 1, 2"))
