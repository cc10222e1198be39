"""Values of loops that lanes leave one after the other: nothing may be put on them while lanes that left hold them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optimizer.kernels.amdgpu.pipeline import AssemblyOptions, build
from optimizer.kernels.amdgpu.registers.liveness import analyse
from optimizer.kernels.amdgpu.text import parse
from optimizer.kernels.amdgpu.witness.interpreter import run_kernel

BEFORE = """
    .kernel rounds
    .workgroup 64 1 1
    .workgroup_ids 0
    .argument out 8 pointer
    .redefinable kv0 kv4 kv7
    s_load_dwordx2 ks0..+2@2, s[0:1], 0
    s_mov_b64 ks2..+2@2, exec
    v_mov_b32 kv0, 0
    v_mov_b32 kv4, 0
    v_and_b32 kv5, 3, v0
    v_lshlrev_b32 kv6, 2, v0
    v_mov_b64 kv10..+2@2, 0
"""
BEHIND = """
    s_mov_b64 exec, ks2..+2@2
    global_store_dword kv6, kv2, ks0..+2@2
    global_store_dword kv6, kv4, ks0..+2@2 offset:256
    s_endpgm
"""
"""What lanes 0..63 hold in kv2: 10 more than the number of the last round that they took part in, lane modulo 4."""
LEAVE = "v_cmp_le_u32 vcc, kv0, kv5\ns_and_b64 exec, exec, vcc\n"
DEFINE = "v_add_u32 kv2, 10, kv0\nv_add_u32 kv0, 1, kv0\n"
AGAIN = "s_cbranch_execnz loop\n"
LOOPS = {
    "left before the definition": f"""
        loop:
        v_add_u32 kv1, 100, kv0
        v_add_u32 kv4, kv4, kv1
        {LEAVE}{DEFINE}{AGAIN}""",
    "a matrix product": f"""
        loop:
        v_mfma_f32_16x16x16_f16 kv20..+4@2, kv10..+2@2, kv10..+2@2, 1.0
        v_add_u32 kv4, kv4, kv20
        v_add_u32 kv4, kv4, kv21
        v_add_u32 kv4, kv4, kv22
        v_add_u32 kv4, kv4, kv23
        {DEFINE}{LEAVE}{AGAIN}""",
    "all lanes for a while": f"""
        loop:
        s_or_saveexec_b64 ks4..+2@2, -1
        v_mov_b32 kv1, 100
        s_mov_b64 exec, ks4..+2@2
        v_add_u32 kv4, kv4, kv1
        {DEFINE}{LEAVE}{AGAIN}""",
    "a lane that is written": f"""
        loop:
        v_mov_b32 kv7, 5
        v_writelane_b32 kv7, 50, 0, kv7
        v_add_u32 kv4, kv4, kv7
        {DEFINE}{LEAVE}{AGAIN}""",
}


def kernel(loop: str) -> str:
    return BEFORE + loop + BEHIND


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_lanes_that_left_keep_their_last_value(loop: str) -> None:
    text = build(parse(kernel(loop))).text
    run = run_kernel(text, "rounds", [1], [64], {"out": np.zeros(128, np.uint32)})
    np.testing.assert_array_equal(run.buffers["out"][:64], 10 + np.arange(64) % 4)


@pytest.mark.parametrize("agprs", [256, 0], ids=["AGPRs", "scratch"])
def test_spilled_values_do_too(agprs: int) -> None:
    program = replace(parse(kernel(LOOPS["left before the definition"])), max_vgprs=5, max_agprs=agprs)
    assembly = build(program, AssemblyOptions(allow_spill=True))
    assert len(assembly.warnings) > 1
    run = run_kernel(assembly.text, "rounds", [1], [64], {"out": np.zeros(128, np.uint32)})
    np.testing.assert_array_equal(run.buffers["out"][:64], 10 + np.arange(64) % 4)


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_such_a_value_is_live_all_around_the_loop(loop: str) -> None:
    program = parse(kernel(loop))
    liveness = analyse(program)
    (value,) = (r for r in program.virtual_registers if str(r) == "kv2")
    start = next(p for p, item in enumerate(program.body) if item.name == "loop")
    end = next(p for p, item in enumerate(program.body) if item.name == "global_store_dword")
    assert all(
        any(s <= point < e for s, e in liveness.segments[value])
        for p in range(start, end)
        for point in (2 * liveness.rank[p], 2 * liveness.rank[p] + 1)
    )


@pytest.mark.parametrize(
    "changed",
    [
        ("s_mov_b64 exec, ks2..+2@2\n", ""),
        ("s_and_b64 exec, exec, vcc\n", "\n"),
        ("global_store_dword kv6, kv2, ks0..+2@2\n", "\n"),
    ],
    ids=["read by the lanes of the last round", "no lane leaves", "read by none"],
)
def test_other_values_leave_a_hole(changed: tuple[str, str]) -> None:
    program = parse(kernel(LOOPS["left before the definition"]).replace(*changed))
    liveness = analyse(program)
    start = next(p for p, item in enumerate(program.body) if item.name == "loop")
    (value,) = (r for r in program.virtual_registers if str(r) == "kv2")
    assert not any(s <= 2 * liveness.rank[start] + 1 < e for s, e in liveness.segments[value])
