"""Liveness: exact pressure and live ranges of the known cases; SSA by dominance; definitions under partial masks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optimizer.kernels.amdgpu.errors import ControlFlowError, OpcodeError, SsaError
from optimizer.kernels.amdgpu.exec_mask import full_exec
from optimizer.kernels.amdgpu.operands import VirtualReg
from optimizer.kernels.amdgpu.passes.expansion import expand_control
from optimizer.kernels.amdgpu.program_json import read_program
from optimizer.kernels.amdgpu.registers.liveness import Liveness, analyse
from optimizer.kernels.amdgpu.text import parse
from optimizer.kernels.amdgpu.validate import validate, validate_ssa
from optimizer.regalloc.intervals import LiveInterval, pressure, union

DOCUMENT = json.loads((Path(__file__).parents[4] / "fixtures/kernels/amdgpu_cases.json").read_text())
ALLOC = [case for case in DOCUMENT["cases"] if case["kind"] == "alloc"]


def closed_pressure(liveness: Liveness, file: str) -> int:
    """Most registers live at once where what an item reads for the last time is live with what it defines."""
    parts = [s for r, s in liveness.segments.items() if isinstance(r, VirtualReg) and r.file == file and s]
    closed = (union((start, end + end % 2) for start, end in part) for part in parts)
    return pressure(LiveInterval(n, part) for n, part in enumerate(closed))


@pytest.mark.parametrize("case", ALLOC, ids=lambda c: c["id"])
def test_pressure_and_live_ranges_are_the_known_ones(case: dict) -> None:  # type: ignore[type-arg]
    liveness = analyse(read_program(case["program"]))
    found = {f: {"half_open": liveness.pressure(f), "closed": closed_pressure(liveness, f)} for f in "vs"}
    assert found == case["expect"]["pressure"]
    for name, span in case["expect"].get("live_ranges", {}).items():
        assert list(liveness.live_range(parse(f"v_mov_b32 {name}, 0").virtual_registers[0])) == span


def test_components_of_a_range_live_apart() -> None:
    program = parse("""
        buffer_load_dwordx4 kv0..+4@2, v0, s[4:7], 0
        ds_write_b32 v0, kv0
        ds_write_b32 v0, kv3
        s_endpgm
    """)
    liveness = analyse(program)
    assert [liveness.segments[r] for r in program.virtual_registers] == [((1, 3),), ((1, 2),), ((1, 2),), ((1, 5),)]
    assert liveness.pressure("v") == 4


def test_a_value_used_in_a_loop_lives_through_all_of_it_and_a_counter_is_one_web() -> None:
    liveness = analyse(parse(LOOP))
    ks0, kv0, _ = liveness.program.virtual_registers
    assert liveness.live_range(kv0) == (0, 7)
    assert liveness.live_range(ks0) == (1, 7)


LOOP = """
    .redefinable ks0
    v_mov_b32 kv0, v0
    s_mov_b32 ks0, 0
    loop:
    v_add_u32 kv1, kv0, v0
    ds_write_b32 v0, kv1
    s_add_u32 ks0, ks0, 1
    s_cmp_lt_u32 ks0, 4
    s_cbranch_scc1 loop
    s_endpgm
"""
PERMUTED = """
    s_branch first
    second:
    ds_write_b32 v0, kv0
    s_endpgm
    first:
    v_mov_b32 kv0, 1
    s_branch second
"""


def test_blocks_may_stand_in_any_order() -> None:
    validate_ssa(parse(PERMUTED))
    assert analyse(parse(PERMUTED)).pressure("v") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("; text\nds_write_b32 v0, kv0", r"^line 2, instruction 0 \(ds_write_b32\): kv0 is used, but nothing defines"),
        ("v_add_u32 kv0, kv0, 1", "does not dominate"),
        (
            "v_mov_b32 kv0, 1\nv_mov_b32 kv0, 2",
            "line 2, instruction 1 \\(v_mov_b32\\): kv0 is defined by v_mov_b32 at line 1 and again",
        ),
        (
            "s_cbranch_scc1 over\n\nv_mov_b32 kv0, 1\nover:\nds_write_b32 v0, kv0\ns_endpgm",
            "line 5.*at line 3. does not",
        ),
        (
            "head:\ns_cbranch_scc1 out\nv_mov_b32 kv0, 1\ns_branch head\nout:\nds_write_b32 v0, kv0\ns_endpgm",
            "dominate",
        ),
        ("buffer_load_dwordx2 kv0..+2@2, v0, s[4:7], 0\nv_add_u32 kv2, kv1, kv2", "kv2 is used where"),
    ],
)
def test_uses_without_a_dominating_definition_are_refused(text: str, said: str) -> None:
    with pytest.raises(SsaError, match=said):
        validate_ssa(parse(text))


def test_without_text_there_are_no_lines() -> None:
    document = [{"name": "s_nop", "uses": ["#0"]}, {"name": "v_not_b32", "defs": ["kv0"], "uses": ["kv0"]}]
    program = read_program({"instructions": document})
    with pytest.raises(SsaError, match=r"^instruction 1 \(v_not_b32\): kv0 is used where its definition \(at 1\)"):
        validate_ssa(program)


def test_what_stands_for_a_line_has_that_line() -> None:
    text = "s_nop 0\n_loop_begin ks0, 4, outer\n_loop_end ks0, 1, outer\ns_endpgm"
    program = expand_control(parse(text))
    with pytest.raises(SsaError, match=r"line 2, instruction 2 \(s_cmp_lt_u32\): ks0 is used where .*\(at line 3\)"):
        validate(program)


def test_definitions_on_both_ways_may_meet_if_they_are_declared() -> None:
    text = (
        "s_cbranch_scc1 b\nv_mov_b32 kv0, 1\ns_branch end\nb:\nv_mov_b32 kv0, 2\nend:\nds_write_b32 v0, kv0\ns_endpgm"
    )
    validate_ssa(parse(".redefinable kv0\n" + text))
    with pytest.raises(SsaError, match="again"):
        validate_ssa(parse(text))


def test_an_accumulator_may_be_updated() -> None:
    mfma = "v_mfma_f32_16x16x16_f16 kv0..+4@2, v[2:3], v[4:5]"
    validate_ssa(parse(f"{mfma}, 0\n{mfma}, kv0..+4@2"))
    with pytest.raises(SsaError):
        validate_ssa(parse(f"{mfma}, 0\n{mfma}, 0"))


def test_labels_and_opcodes_are_checked() -> None:
    with pytest.raises(ControlFlowError, match="nowhere"):
        validate_ssa(parse("s_branch away"))
    with pytest.raises(ControlFlowError, match="and again"):
        validate_ssa(parse("a:\na:\ns_endpgm"))
    with pytest.raises(OpcodeError, match="s_addc_u32"):
        validate_ssa(read_program({"instructions": [{"name": "s_add_u64"}]}))


MASKED = """
    .redefinable kv1
    v_mov_b32 kv0, 7
    v_mov_b32 kv1, 1
    v_cmp_lt_u32 vcc, v0, kv0
    s_and_saveexec_b64 ks0..+2@2, vcc
    v_mov_b32 kv1, 2
    s_or_b64 exec, exec, ks0..+2@2
    v_mov_b32 kv2, 3
    v_add_u32 kv3, kv1, kv2
    ds_write_b32 v0, kv3
    s_endpgm
"""


def test_a_definition_under_a_partial_mask_keeps_the_other_lanes() -> None:
    program = parse(MASKED)
    liveness = analyse(program)
    assert full_exec(program, liveness.cfg) == (True, True, True, True, False, False, True, True, True, True)
    kv1 = program.virtual_registers[3]
    assert str(kv1) == "kv1"
    assert liveness.segments[kv1] == ((3, 15),)


def test_without_a_mask_a_second_definition_leaves_a_hole() -> None:
    program = parse(MASKED.replace("s_and_saveexec_b64 ks0..+2@2, vcc", "s_mov_b64 ks0..+2@2, vcc"))
    assert analyse(program).segments[program.virtual_registers[3]] == ((3, 4), (9, 15))


def test_what_is_live_behind_an_instruction() -> None:
    liveness = analyse(
        parse("v_mov_b32 kv0, 1\nds_read_b64 kv2..+2@2, v0\nv_add_u32 kv1, kv0, kv2\nds_write_b32 v0, kv1\ns_endpgm")
    )
    assert [list(map(str, liveness.live_at(place, "v"))) for place in range(4)] == [
        ["kv0"], ["kv0", "kv2", "kv3"], ["kv1"], [],
    ]  # fmt: skip
    assert liveness.live_at(1, "s") == ()
