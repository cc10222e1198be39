"""Branches on vccz behind writes of half of vcc."""

from __future__ import annotations

import pytest

from optimizer.kernels.amdgpu.passes.mitigate_hazards import refresh_vccz
from optimizer.kernels.amdgpu.pipeline import build
from optimizer.kernels.amdgpu.text import parse, text_of
from optimizer.kernels.amdgpu.witness.errors import ExecutionError
from optimizer.kernels.amdgpu.witness.interpreter import run_kernel

REFRESH = "s_mov_b64 vcc, vcc"
BRANCH = "s_cbranch_vccz end\nend:\ns_endpgm\n"


@pytest.mark.parametrize(
    ("text", "moves"),
    [
        ("s_mov_b64 vcc, 0\n", 0),
        ("s_mov_b32 vcc_lo, 0\n", 1),
        ("s_mov_b32 vcc_lo, 0\ns_mov_b32 vcc_hi, 0\n", 1),
        ("s_mov_b32 vcc_lo, 0\nv_cmp_eq_u32 vcc, v0, v0\n", 0),
        ("s_mov_b64 vcc, 0\ns_cbranch_scc1 over\ns_mov_b32 vcc_hi, 0\nover:\n", 1),
        (
            "loop:\ns_cbranch_vccnz loop\ns_mov_b32 vcc_hi, 0\ns_cbranch_scc1 loop\ns_mov_b64 vcc, 0\n",
            1,
        ),
    ],
)
def test_vcc_is_written_as_a_whole_where_a_way_leads_from_half_of_it(text: str, moves: int) -> None:
    assert text_of(refresh_vccz(parse(text + BRANCH))).count(REFRESH) == moves


def test_the_interpreter_refuses_a_branch_on_an_old_vccz() -> None:
    program = parse(
        f".kernel k\n.workgroup 64 1 1\n.workgroup_ids 0\ns_mov_b32 vcc_lo, 0\ns_mov_b32 vcc_hi, 0\n{BRANCH}"
    )
    text = build(program).text
    assert REFRESH in text
    assert run_kernel(text, "k", [1], [64], {}).statistics.instructions == 5
    without = "".join(line for line in text.splitlines(keepends=True) if REFRESH not in line)
    with pytest.raises(ExecutionError, match="vccz"):
        run_kernel(without, "k", [1], [64], {})
