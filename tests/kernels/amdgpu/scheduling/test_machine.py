"""The model of one wave: issue, units, results, waits."""

from __future__ import annotations

import pytest
from gfx942.cycles import Covered, FinishedMachine

from optimizer.kernels.amdgpu.scheduling.machine import Machine
from optimizer.kernels.amdgpu.text import parse_instruction

LOAD = "global_load_dword v1, v0, s[4:5]"
MATRIX = "v_mfma_f32_16x16x16_f16 v[{0}:{1}], v[40:41], v[42:43], v[{0}:{1}]"


def run[M: Machine](machine: M, *lines: str) -> M:
    machine.run(parse_instruction(line) for line in lines)
    return machine


@pytest.mark.parametrize(
    ("lines", "cycles"),
    [
        (["v_mov_b32 v1, 0", "s_mov_b32 s1, 0", "v_mov_b32 v2, 0"], 12),
        (["s_nop 4", "v_mov_b32 v1, 0"], 24),
        ([MATRIX.format(0, 3), MATRIX.format(4, 7)], 20),
        ([MATRIX.format(0, 3), "v_mov_b32 v20, 0", "v_mov_b32 v21, 0", MATRIX.format(4, 7)], 20),
        ([LOAD, "s_waitcnt vmcnt(0)", "v_mov_b32 v2, v1"], 648),
        ([LOAD, "global_load_dwordx4 v[4:7], v0, s[4:5]", "s_waitcnt vmcnt(1)", "v_mov_b32 v2, v1"], 648),
        (["global_load_dwordx4 v[4:7], v0, s[4:5]", LOAD, "s_waitcnt vmcnt(0)"], 676),
    ],
)
def test_cycles(lines: list[str], cycles: int) -> None:
    assert run(FinishedMachine(), *lines).clock == cycles


def test_what_waits_cost_and_how_far_they_are_from_their_loads() -> None:
    machine = run(
        FinishedMachine(), LOAD, "v_mov_b32 v5, 0", "v_mov_b32 v6, 0", "s_waitcnt vmcnt(0)", "v_mov_b32 v2, v1"
    )
    assert machine.waiting == {"vmcnt": 640 - 12, "lgkmcnt": 0}
    assert machine.covered == [Covered(instructions=2, cycles=12)]


def test_without_waits_the_model_inserts_those_that_are_due() -> None:
    waited = run(FinishedMachine(), LOAD, "s_waitcnt vmcnt(0)", "v_mov_b32 v2, v1", "v_mov_b32 v3, v1")
    assert run(Machine(), LOAD, "v_mov_b32 v2, v1", "v_mov_b32 v3, v1").clock == waited.clock


def test_while_a_scalar_load_is_outstanding_everything_is_waited_for() -> None:
    lines = ("s_load_dword s8, s[0:1], 0", *["v_mov_b32 v5, 0"] * 20, "s_load_dword s9, s[0:1], 4", "s_mov_b32 s3, s8")
    assert run(Machine(), *lines).clock == 21 * 4 + 200 + 8
