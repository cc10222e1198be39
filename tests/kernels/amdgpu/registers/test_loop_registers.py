"""Loops keep their registers without any being reserved: counters are values that live all around."""

from __future__ import annotations

from optimizer.kernels.amdgpu.operands import VirtualReg
from optimizer.kernels.amdgpu.passes.expansion import expand_control
from optimizer.kernels.amdgpu.registers.allocate import allocate
from optimizer.kernels.amdgpu.registers.check_allocation import violations
from optimizer.kernels.amdgpu.text import parse

LOOPS = """
    s_mov_b32 ks0, 0
    s_mov_b32 ks1, 8
    _loop_begin ks0, ks1, outer
    s_mov_b32 ks2, 0
    _loop_begin ks2, 4, inner
    s_mov_b32 ks3, 5
    v_mov_b32 kv0, ks3
    ds_write_b32 v0, kv0
    _loop_end ks2, 1, inner
    _loop_end ks0, 2, outer
    s_endpgm
"""
COUNTERS = [VirtualReg("s", n) for n in (0, 1, 2)]


def test_counters_and_bounds_share_with_nothing_and_reserve_nothing() -> None:
    program = expand_control(parse(LOOPS))
    allocation = allocate(program)
    homes = [allocation.mapping[r] for r in (*COUNTERS, VirtualReg("s", 3))]
    assert violations(program, allocation.mapping) == []
    assert len(set(homes)) == 4
    assert allocation.peak_sgprs == 4


def test_a_loop_register_that_the_program_names_is_kept() -> None:
    named = LOOPS.replace("ks0", "s24").replace("ks1", "s25").replace("ks2", "s27")
    values = "\n".join(f"s_mov_b32 ks{n}, {n}" for n in range(10, 40))
    stored = "\n".join(f"v_mov_b32 kv{n}, ks{n}\nds_write_b32 v0, kv{n}" for n in range(10, 40))
    body = expand_control(parse(named.replace("_loop_begin s27", f"{values}\n_loop_begin s27").replace(
        "_loop_end s24", f"{stored}\n_loop_end s24"
    )))  # fmt: skip
    allocation = allocate(body)
    assert violations(body, allocation.mapping) == []
    taken = {n for r, n in allocation.mapping.items() if r.file == "s"}
    assert taken & {24, 25, 27} == set()
    assert min(taken) < 24 < max(taken)
