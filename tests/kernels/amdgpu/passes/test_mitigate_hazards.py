"""Wait states: as many as LLVM inserts; over block boundaries and back edges; through comments."""

from __future__ import annotations

from random import Random

import pytest
from gfx942.llvm import find_llvm, require_llvm
from hazard_cases import CASES, EXTRA, HazardCase

from optimizer.errors import InputError
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.operands import Immediate
from optimizer.kernels.amdgpu.passes.mitigate_hazards import mitigate_hazards, required_nops
from optimizer.kernels.amdgpu.text import instruction_text, parse, parse_instruction, text_of
from optimizer.kernels.amdgpu.validate import check_operands

MIR = dict(EXTRA) | {text: mir for case in CASES for text, mir in zip(case.text, case.mir, strict=True)}


def known(text: str) -> Instruction | None:
    """The instruction in this IR; None for what the back end does not write."""
    try:
        found = parse_instruction(text.replace("_e32", "").replace("_e64", ""))
        if found.name == "v_writelane_b32":
            found = found.with_operands(found.defs, (*found.uses, found.defs[0]))
        check_operands(found, "here")
    except InputError:
        return None
    return found


INSTRUCTIONS = {text: found for text in MIR if (found := known(text)) is not None}


def states(program: Program) -> int:
    return sum(required_nops(program).values())


def test_most_of_the_witness_s_instructions_are_known() -> None:
    assert len(INSTRUCTIONS) > 0.7 * len(MIR)


@pytest.mark.parametrize(
    "case", [case for case in CASES if set(case.text) <= set(INSTRUCTIONS)], ids=lambda case: case.name
)
def test_pairs(case: HazardCase) -> None:
    assert states(Program(tuple(INSTRUCTIONS[text] for text in case.text))) == case.states


STORED, INPUT = "global_store_dwordx4 v[20:21], {}, off", "{} v[0:{}], v[0:1], v[18:19], 0"
ADDEND = "v_mfma_f32_16x16x16_f16 v[0:3], v[6:7], v[4:5], v[0:3]"
MATRIX = [
    ("v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0", STORED.format("v[0:3]"), 7, 8),
    ("v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0", INPUT.format("v_mfma_f32_16x16x16_f16", 3), 7, 8),
    ("v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0", ADDEND, 0, 0),
    ("v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], 0", STORED.format("v[0:3]"), 11, 12),
    ("v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], 0", INPUT.format("v_mfma_f32_16x16x16_f16", 3), 11, 12),
    ("v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, 0", STORED.format("v[0:3]"), 10, 10),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "gfx942", "gfx950"), MATRIX)
def test_results_of_the_matrix_core_take_one_state_more_on_gfx950(
    first: str, second: str, gfx942: int, gfx950: int
) -> None:
    """The numbers are those of LLVM 22's code generator for either."""
    program = Program((parse_instruction(first), parse_instruction(second)))
    assert sum(required_nops(program, "gfx942").values()) == gfx942
    assert sum(required_nops(program, "gfx950").values()) == gfx950


@pytest.mark.parametrize(
    ("first", "states"),
    [
        ("v_mfma_f32_16x16x32_bf16 v[0:3], v[4:7], v[8:11], 0", 8),
        ("v_mfma_f32_32x32x16_f16 v[0:15], v[16:19], v[22:25], 0", 12),
    ],
)
def test_wide_products_take_as_long_as_the_narrow_ones(first: str, states: int) -> None:
    program = Program((parse_instruction(first), parse_instruction(STORED.format("v[0:3]"))))
    assert sum(required_nops(program, "gfx950").values()) == states


@pytest.mark.skipif(find_llvm() is None, reason="llvm-19 is not installed (apt-get install llvm-19)")
def test_random_sequences_get_as_many_states_as_llvm_inserts() -> None:
    random = Random(11)
    sequences = {f"sequence_{n}": random.choices(list(INSTRUCTIONS), k=10) for n in range(400)}

    asked = require_llvm().wait_states({
        name: "\n".join([*(MIR[text] for text in chosen), "S_ENDPGM 0"]) for name, chosen in sequences.items()
    })  # fmt: skip

    ours = {name: states(Program(tuple(INSTRUCTIONS[t] for t in chosen))) for name, chosen in sequences.items()}
    assert {name: (ours[name], asked[name]) for name in ours if ours[name] != asked[name]} == {}
    assert sum(ours.values()) > 400


def after(text: str) -> list[str]:
    program = mitigate_hazards(parse(text))
    return [line.strip() for line in text_of(program).splitlines()[1:]]


MFMA = "v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[6:7], v[8:11]"


@pytest.mark.parametrize("between", ["label:", "s_cbranch_scc1 label\nlabel:", "label:\nother:"])
def test_block_boundaries_hide_nothing(between: str) -> None:
    branches = between.count("s_cbranch")
    assert after(f"{MFMA}\n{between}\nv_mov_b32 v1, v8")[-2] == f"s_nop {6 - branches}"


def test_a_comment_hides_nothing() -> None:
    program = Program((
        parse_instruction("v_mov_b32 v1, 5"),
        Instruction("_comment", comment="the first lane"),
        parse_instruction("v_readfirstlane_b32 s8, v1"),
    ))  # fmt: skip
    body = mitigate_hazards(program).body
    assert body[2] == Instruction("s_nop", (), (Immediate(0),))
    assert len(body) == 4


def test_the_back_edge_counts() -> None:
    text = f"loop:\nv_mov_b32 v1, v8\n{MFMA}\ns_cbranch_scc1 loop\ns_endpgm"
    assert after(text) == ["loop:", "s_nop 5", *text.splitlines()[1:]]


def test_the_nearest_producer_of_all_ways_counts() -> None:
    text = f"s_cbranch_scc0 past\n{MFMA}\ns_nop 3\npast:\nv_mov_b32 v1, v8\ns_endpgm"
    assert after(text)[-4:-2] == ["past:", "s_nop 2"]


def test_nops_that_are_there_count_and_are_prolonged() -> None:
    assert after(f"{MFMA}\ns_nop 3\nv_mov_b32 v1, v8") == [MFMA, "s_nop 6", "v_mov_b32 v1, v8"]
    assert after(f"{MFMA}\ns_nop 6\nv_mov_b32 v1, v8") == [MFMA, "s_nop 6", "v_mov_b32 v1, v8"]


def test_one_nop_is_sixteen_states_at_most() -> None:
    long = "v_mfma_f32_32x32x2_f32 v[16:31], v4, v5, v[16:31]"
    assert after(f"{long}\nv_mov_b32 v1, v16")[1:-1] == ["s_nop 15", "s_nop 1"]


def test_waits_and_independent_work_are_wait_states() -> None:
    text = f"{MFMA}\ns_waitcnt vmcnt(0)\nv_mov_b32 v1, 0\nv_mov_b32 v2, v8"
    assert after(text)[3] == "s_nop 4"


CLAUSES = [
    ("global_load_dword v1, v0, s[4:5]\nglobal_store_dword v0, v2, s[6:7]", 1),
    ("global_load_dword v1, v0, s[4:5]\ns_nop 0\nglobal_store_dword v0, v2, s[6:7]", 0),
    ("global_load_dword v1, v0, s[4:5]\nglobal_load_dword v0, v2, s[4:5]", 1),
    ("global_load_dword v1, v0, s[4:5]\nglobal_load_dword v2, v0, s[4:5]", 0),
    ("s_load_dword s4, s[0:1], 0\ns_load_dword s0, s[2:3], 0", 1),
    ("s_load_dword s4, s[0:1], 0\ns_load_dword s5, s[0:1], 4", 0),
    ("s_load_dword s4, s[0:1], 0\nlabel:\ns_load_dword s5, s[4:5], 4", 1),
    ("s_load_dword s4, s[0:1], 0\nglobal_load_dword v1, v0, s[4:5]", 0),
]


@pytest.mark.parametrize(("text", "expected"), CLAUSES)
def test_clauses_that_may_be_replayed(text: str, expected: int) -> None:
    assert states(parse(text)) == expected


def test_long_programs_are_quick() -> None:
    lines = [f"v_add_u32 v{n % 200 + 1}, v{n % 7 + 1}, v0" for n in range(3000)]
    program = parse("\n".join(["loop:", *lines, "s_cbranch_scc1 loop", "s_endpgm"]))
    assert [instruction_text(i) for _, i in mitigate_hazards(program).instructions if i.name == "s_nop"] == []
