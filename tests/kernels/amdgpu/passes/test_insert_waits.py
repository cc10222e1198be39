"""s_waitcnt: where it stands and how weak it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optimizer.kernels.amdgpu.ir import Launch
from optimizer.kernels.amdgpu.passes.insert_waits import insert_waits
from optimizer.kernels.amdgpu.text import parse, text_of


def waits(text: str, waves: int = 4, loads_at_barriers: bool = True) -> list[str]:
    """The waits, each with the instruction that it stands before."""
    program = replace(parse(text), launch=Launch((64 * waves, 1, 1)))
    written = text_of(insert_waits(program, loads_at_barriers))
    lines = [line.strip() for line in written.splitlines() if not line.startswith(".")]
    return [
        f"{line.removeprefix('s_waitcnt ')} | {lines[n + 1].split()[0]}"
        for n, line in enumerate(lines)
        if line.startswith("s_waitcnt")
    ]


QUAD = "buffer_load_dwordx4 kv{0}..+4@4, kv60, s[4:7], 0 offset:{1}"
A, B = QUAD.format(0, 0), QUAD.format(4, 16)
READ = "ds_read_b32 v{0}, v0 offset:{1}"

CASES = {
    "one load, a component is used": (f"{A}\nv_mov_b32 kv9, kv2", ["vmcnt(0) | v_mov_b32"]),
    "two loads, two users": (
        f"{A}\n{B}\nv_mov_b32 kv9, kv2\nv_not_b32 kv9, kv5",
        ["vmcnt(1) | v_mov_b32", "vmcnt(0) | v_not_b32"],
    ),
    "the second is used first": (f"{A}\n{B}\nv_mov_b32 kv9, kv5\nv_not_b32 kv9, kv2", ["vmcnt(0) | v_mov_b32"]),
    "a second use waits no more": (f"{A}\nv_mov_b32 kv9, kv2\nv_not_b32 kv9, kv3", ["vmcnt(0) | v_mov_b32"]),
    "stores take tickets": (
        f"{A}\nbuffer_store_dword kv20, kv60, s[8:11], 0\nv_mov_b32 kv9, kv2",
        ["vmcnt(1) | v_mov_b32"],
    ),
    "store data must have arrived": (
        f"{A}\nbuffer_store_dwordx4 kv0..+4@4, kv60, s[8:11], 0",
        ["vmcnt(0) | buffer_store_dwordx4"],
    ),
    "stored data may be overwritten": ("global_store_dword v0, v1, s[4:5]\nv_mov_b32 v1, 0\nds_write_b32 v0, v1", []),
    "a result is not overwritten before it comes": (f"{A}\nv_mov_b32 kv2, 0", ["vmcnt(0) | v_mov_b32"]),
    "loads of one order may overwrite each other": (f"{A}\n{A}", []),
    "LDS reads may not, as LLVM has it": (
        "ds_read_b32 v1, v0\nds_read_b32 v1, v0 offset:4",
        ["lgkmcnt(0) | ds_read_b32"],
    ),
    "what a scalar load reads is not overwritten before": (
        "s_load_dword s8, s[4:5], 0\nglobal_store_dword v0, v1, s[4:5]",
        ["lgkmcnt(0) | global_store_dword"],
    ),
    "arguments of the kernel are not overwritten": (
        "s_load_dword s8, s[0:1], 0\nglobal_store_dword v0, v1, s[4:5]",
        [],
    ),
    "s[0:1] may have come to hold something else": (
        "loop:\ns_load_dword s8, s[0:1], 0\nglobal_store_dword v0, v1, s[4:5]\ns_mov_b32 s0, 0\ns_branch loop",
        ["lgkmcnt(0) | global_store_dword"],
    ),
    "loads of two orders may not": (
        "ds_read_b32 v1, v0\nglobal_load_dword v1, v0, s[4:5]",
        ["lgkmcnt(0) | global_load_dword"],
    ),
    "half of a register keeps the other": (
        "ds_read_u16_d16 v1, v0, v1\nds_read_u16_d16_hi v1, v0, v1 offset:2",
        ["lgkmcnt(0) | ds_read_u16_d16_hi"],
    ),
    "LDS comes in order": (
        "ds_read_b32 v1, v0\nds_read_b32 v2, v0\nv_mov_b32 v3, v1\nv_not_b32 v3, v2",
        ["lgkmcnt(1) | v_mov_b32", "lgkmcnt(0) | v_not_b32"],
    ),
    "scalar loads do not": (
        "s_load_dword s4, s[0:1], 0\ns_load_dword s5, s[0:1], 4\ns_mov_b32 s6, s4\ns_mov_b32 s7, s5",
        ["lgkmcnt(0) | s_mov_b32"],
    ),
    "nor does LDS among them": (
        "ds_read_b32 v1, v0\ns_load_dword s5, s[0:1], 4\nv_mov_b32 v3, v1\ns_mov_b32 s7, s5",
        ["lgkmcnt(0) | v_mov_b32"],
    ),
    "both counters in one": (
        "s_load_dword s5, s[0:1], 4\nglobal_load_dword v1, v0, s[6:7]\nv_add_u32 v2, s5, v1",
        ["vmcnt(0) lgkmcnt(0) | v_add_u32"],
    ),
    "scalar loads into vcc": (
        "s_load_dwordx2 vcc, s[0:1], 4\ns_cbranch_vccz end\nend:",
        ["lgkmcnt(0) | s_cbranch_vccz"],
    ),
    "a wait that is there is seen": (f"{A}\ns_waitcnt vmcnt(0)\nv_mov_b32 kv9, kv2", ["vmcnt(0) | v_mov_b32"]),
    "one that is too weak is strengthened": (
        f"{A}\n{B}\ns_waitcnt vmcnt(1)\nv_mov_b32 kv9, kv5",
        ["vmcnt(0) | v_mov_b32"],
    ),
    "one for the other counter is completed": (
        f"{A}\ns_waitcnt lgkmcnt(0)\nv_mov_b32 kv9, kv2",
        ["vmcnt(0) lgkmcnt(0) | v_mov_b32"],
    ),
    "a weak wait tells nothing of scalar loads": (
        "s_load_dword s4, s[0:1], 0\ns_load_dword s5, s[0:1], 4\ns_waitcnt lgkmcnt(1)\ns_nop 0\ns_mov_b32 s6, s4",
        ["lgkmcnt(1) | s_nop", "lgkmcnt(0) | s_mov_b32"],
    ),
    "lgkmcnt counts to 15": (
        "\n".join([*(READ.format(n, 4 * n) for n in range(1, 21)), "v_mov_b32 v30, v1"]),
        ["lgkmcnt(15) | v_mov_b32"],
    ),
    "vmcnt counts to 63": (
        "\n".join([*(f"global_load_dword v{n}, v0, s[4:5]" for n in range(1, 81)), "v_mov_b32 v90, v1"]),
        ["vmcnt(63) | v_mov_b32"],
    ),
    "what the cap frees is free": (
        "\n".join([*(READ.format(n, 4 * n) for n in range(1, 21)), "v_mov_b32 v30, v1", "v_mov_b32 v30, v4"]),
        ["lgkmcnt(15) | v_mov_b32"],
    ),
    "over a join the newest ticket counts": (
        f"{A}\ns_cbranch_scc1 past\n{B}\npast:\nv_mov_b32 kv9, kv2",
        ["vmcnt(0) | v_mov_b32"],
    ),
    "a wait on one way only is not enough": (
        f"{A}\ns_cbranch_scc1 past\ns_waitcnt vmcnt(0)\npast:\nv_mov_b32 kv9, kv2",
        ["vmcnt(0) | past:", "vmcnt(0) | v_mov_b32"],
    ),
    "over the back edge": (
        f"loop:\nv_mov_b32 kv9, kv2\n{A}\ns_cbranch_scc1 loop\ns_endpgm",
        ["vmcnt(0) | v_mov_b32"],
    ),
    "a pipelined loop leaves the next load outstanding": (
        f"{A}\nloop:\n{B}\nv_mov_b32 kv9, kv2\n{A}\nv_mov_b32 kv9, kv5\ns_cbranch_scc1 loop\ns_endpgm",
        ["vmcnt(1) | v_mov_b32", "vmcnt(1) | v_mov_b32"],
    ),
    "LDS is complete before others read it": (
        "ds_write_b32 v0, v1\ns_barrier\nds_read_b32 v2, v3\nv_mov_b32 v4, v2",
        ["lgkmcnt(0) | s_barrier", "lgkmcnt(0) | v_mov_b32"],
    ),
    "and read before others write it": (
        "ds_read_b32 v2, v3\ns_barrier\nds_write_b32 v0, v1",
        ["lgkmcnt(0) | s_barrier"],
    ),
    "reads do not disturb reads": ("ds_read_b32 v2, v3\ns_barrier\nds_read_b32 v4, v1", []),
    "only what comes before the next barrier counts": (
        "ds_read_b32 v2, v3\ns_barrier\ns_nop 0\ns_barrier\nds_write_b32 v0, v1\nds_read_b32 v4, v3",
        ["lgkmcnt(0) | s_barrier"],
    ),
    "around a loop": (
        "loop:\nds_write_b32 v0, v1\ns_barrier\nds_read_b32 v2, v3\ns_cbranch_scc1 loop\ns_endpgm",
        ["lgkmcnt(0) | s_barrier"],
    ),
    "values moved between lanes are nobody's business": (
        "ds_bpermute_b32 v2, v3, v1\ns_barrier\nds_write_b32 v0, v1",
        [],
    ),
    "scalar loads are complete before others overwrite their data": (
        "s_load_dword s8, s[4:5], 0\ns_barrier\nglobal_store_dword v0, v1, s[4:5]",
        ["lgkmcnt(0) | s_barrier"],
    ),
    "stores are complete before others read them": (
        "global_store_dword v0, v1, s[4:5]\ns_barrier\nglobal_load_dword v1, v0, s[4:5]",
        ["vmcnt(0) | s_barrier"],
    ),
    "loads into LDS are complete before LDS is read": (
        "buffer_load_dword_lds v0, s[4:7], 0\nds_read_b32 v1, v2",
        ["vmcnt(0) | ds_read_b32"],
    ),
    "a load into LDS comes after what was read there": (
        "ds_read_b32 v1, v2\nds_read_b32 v3, v4\nbuffer_load_dword_lds v0, s[4:7], 0",
        ["lgkmcnt(0) | buffer_load_dword_lds"],
    ),
    "and after what was written there": (
        "ds_write_b32 v1, v2\nds_bpermute_b32 v5, v6, v7\nbuffer_load_dword_lds v0, s[4:7], 0",
        ["lgkmcnt(1) | buffer_load_dword_lds"],
    ),
    "loads into LDS follow one another": (
        "buffer_load_dword_lds v0, s[4:7], 0\nbuffer_load_dword_lds v0, s[4:7], 0 offset:4",
        [],
    ),
    "and before others read it": (
        "buffer_load_dword_lds v0, s[4:7], 0\ns_barrier\nds_read_b32 v1, v2",
        ["vmcnt(0) | s_barrier"],
    ),
    "at the end nothing is waited for": (f"{A}\nds_write_b32 kv60, kv61\ns_endpgm", []),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_waits(text: str, expected: list[str]) -> None:
    assert waits(text) == expected


LOAD_OVER_BARRIER = "global_load_dword v1, v0, s[4:5]\ns_barrier\nv_mov_b32 v2, v1\nglobal_store_dword v0, v2, s[6:7]"


def test_loads_are_ordered_before_stores_of_others_unless_told_otherwise() -> None:
    assert waits(LOAD_OVER_BARRIER) == ["vmcnt(0) | s_barrier"]
    assert waits(LOAD_OVER_BARRIER, loads_at_barriers=False) == ["vmcnt(0) | v_mov_b32"]


def test_one_wave_is_always_in_order() -> None:
    assert waits("ds_write_b32 v0, v1\ns_barrier\nds_read_b32 v2, v3", waves=1) == []
