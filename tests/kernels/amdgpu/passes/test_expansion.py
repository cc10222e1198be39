"""Pseudo-instructions, loops and raw text as instructions; ends of programs; dead code; physical registers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from optimizer.errors import FormatError
from optimizer.kernels.amdgpu.errors import ControlFlowError, OpcodeError, OperandError
from optimizer.kernels.amdgpu.instruction_edits import substitute_registers
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.operands import VirtualReg
from optimizer.kernels.amdgpu.passes.combining import commute_literals, remove_dead_code
from optimizer.kernels.amdgpu.passes.expansion import end_program, expand_control, expand_pseudos
from optimizer.kernels.amdgpu.text import parse, text_of
from optimizer.kernels.amdgpu.validate import validate


def after(step: Callable[[Program], Program], text: str) -> list[str]:
    return [line.strip() for line in text_of(step(parse(text))).splitlines()[1:] if not line.startswith(".")]


DESCRIPTORS = [
    ("_srd_define ks4..+4@4, s[2:3], 1024", ["s2", "s3", "0x400", "0x27000"]),
    ("_srd_define ks4..+4@4, s[2:3], ks9, 0x20000", ["s2", "s3", "ks9", "0x20000"]),
    ("_srd_copy_base ks4..+4@4, s[2:3]", ["s2", "s3", "0x7ffffffd", "0x27000"]),
    (
        "_srd_copy_base ks4..+4@4, s[2:3]\n_srd_fill_size ks4..+4@4, 256\n_srd_fill_stride ks4..+4@4, 0x20000",
        ["s2", "s3", "0x100", "0x20000"],
    ),
]


@pytest.mark.parametrize(("text", "words"), DESCRIPTORS)
def test_descriptors_are_written_word_by_word(text: str, words: list[str]) -> None:
    assert after(expand_pseudos, text) == [f"s_mov_b32 ks{4 + n}, {word}" for n, word in enumerate(words)]


def test_a_base_is_loaded_from_the_arguments() -> None:
    assert after(expand_pseudos, "_srd_load_base ks4..+4@4, s[0:1], 8\n_srd_fill_size ks4..+4@4, 256") == [
        "s_load_dwordx2 ks4..+2@2, s[0:1], 8",
        "s_mov_b32 ks7, 0x27000",
        "s_mov_b32 ks6, 0x100",
    ]


def test_a_fill_behind_a_use_is_a_second_definition() -> None:
    text = "_srd_copy_base s[4:7], s[2:3]\nbuffer_load_dword v1, v0, s[4:7], 0\n_srd_fill_size s[4:7], 256"
    lines = after(expand_pseudos, text)
    assert lines[2] == "s_mov_b32 s6, 0x7ffffffd"
    assert lines[-1] == "s_mov_b32 s6, 0x100"


def test_a_copy_without_swizzle_needs_no_or() -> None:
    assert [line.split()[0] for line in after(expand_pseudos, "_g2s_srd_copy s[8:11], s[4:7]")] == [
        "s_mov_b32", "s_and_b32", "s_mov_b32", "s_mov_b32",
    ]  # fmt: skip


def test_accumulators_and_counters() -> None:
    assert after(expand_pseudos, "_mfma_acc a[0:3], v[4:5], v[6:7] bf16\n_loop_inc ks1, 4") == [
        "v_mfma_f32_16x16x16_bf16 a[0:3], v[4:5], v[6:7], a[0:3]",
        "s_add_u32 ks1, ks1, 4",
    ]
    assert expand_pseudos(parse("_loop_inc ks1, 4")).redefinable == {VirtualReg("s", 1)}


@pytest.mark.parametrize(
    "line",
    ["_init_acc_quad kv0..+2@2, 0", "_srd_copy_base ks4..+4@4, s2", "_mfma_acc v[0:3], v[4:7]", "_loop_inc ks1, 1, 2"],
)
def test_wrong_operands_are_refused(line: str) -> None:
    with pytest.raises(OperandError, match=line.split()[0]):
        expand_pseudos(parse(line))


LOOP = """
s_mov_b32 ks0, 0
_loop_begin ks0, 8
v_mov_b32 kv0, ks0
_loop_end ks0, 2
s_endpgm
"""


def loop() -> Program:
    body = [
        Instruction(i.name, i.defs, i.uses, target="loop_0") if i.name.startswith("_loop") else i
        for _, i in parse(LOOP).instructions
    ]
    return Program(tuple(body))


def test_loops_have_the_labels_of_the_design() -> None:
    program = expand_control(loop())
    validate(program)
    assert [line.strip() for line in text_of(program).splitlines()[2:]] == [
        "s_mov_b32 ks0, 0", "loop_0_header:", "s_cmp_lt_u32 ks0, 8", "s_cbranch_scc1 loop_0_body",
        "s_branch loop_0_exit", "loop_0_body:", "v_mov_b32 kv0, ks0", "loop_0_latch:", "s_add_u32 ks0, ks0, 2",
        "s_branch loop_0_header", "loop_0_exit:", "s_endpgm",
    ]  # fmt: skip


@pytest.mark.parametrize("drop", ["_loop_begin", "_loop_end"])
def test_loops_must_be_closed(drop: str) -> None:
    program = Program(tuple(i for _, i in loop().instructions if i.name != drop))
    with pytest.raises(ControlFlowError, match="loop_0"):
        expand_control(program)


def test_raw_text_is_read() -> None:
    raw = Program((Instruction("_raw_asm", comment="back:\n v_mov_b32 v1, 3 ; three\n s_branch back"),))
    assert expand_control(raw).body == parse("back:\nv_mov_b32 v1, 3 ; three\ns_branch back").body
    with pytest.raises(FormatError, match="raw text"):
        expand_control(Program((Instruction("_raw_asm", comment="v_mov_b32 v1, ?"),)))


def test_nothing_is_preloaded() -> None:
    with pytest.raises(OpcodeError, match="preloaded"):
        expand_control(Program((Instruction("_preload_branch"),)))


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ("v_mov_b32 v1, 0", 1),
        ("s_endpgm", 0),
        ("back:\ns_branch back", 0),
        ("s_cbranch_scc1 out\ns_endpgm\nout:", 1),
        ("back:\ns_cbranch_scc1 back", 1),
    ],
)
def test_a_program_that_would_run_off_its_end_is_ended(text: str, added: int) -> None:
    program = parse(text)
    assert len(end_program(program).body) == len(program.body) + added


DEAD = """
s_mov_b32 ks0, 0
v_mov_b32 kv0, 1
v_add_u32 kv1, kv0, kv0
global_load_dword kv2, v0, s[4:5]
v_mov_b32 kv3, 5
loop:
s_add_u32 ks0, ks0, 1
s_add_u32 ks1, ks0, 1
s_cmp_lt_u32 ks0, 8
s_cbranch_scc1 loop
s_add_u32 ks2, 1, 2
s_cselect_b32 ks3, 1, 2
v_mov_b32 kv4, ks3
s_mov_b64 exec, 1
ds_write_b32 v0, kv3
ds_write_b32 v0, kv4
s_endpgm
"""


def test_what_nothing_needs_goes() -> None:
    kept = after(remove_dead_code, DEAD)
    gone = [line for line in DEAD.split("\n") if line and line not in kept]
    assert gone == [
        "v_mov_b32 kv0, 1", "v_add_u32 kv1, kv0, kv0", "global_load_dword kv2, v0, s[4:5]", "s_add_u32 ks1, ks0, 1",
    ]  # fmt: skip


def test_a_counter_that_only_counts_itself_goes() -> None:
    text = "v_mov_b32 kv0, 0\nloop:\nv_add_u32 kv0, 1, kv0\ns_cbranch_scc1 loop\ns_endpgm"
    assert after(remove_dead_code, text) == ["loop:", "s_cbranch_scc1 loop", "s_endpgm"]


def test_under_a_partial_mask_the_first_definition_stays() -> None:
    text = "v_mov_b32 kv0, 0\ns_mov_b64 exec, 1\nv_mov_b32 kv0, 1\ns_mov_b64 exec, -1\nds_write_b32 v0, kv0\ns_endpgm"
    assert after(remove_dead_code, text) == text.split("\n")
    assert after(remove_dead_code, text.replace("s_mov_b64 exec", "s_mov_b64 s[4:5]"))[0] == "v_mov_b32 kv0, 1"


def test_moves_to_themselves_go_with_substitution() -> None:
    text = "v_mov_b32 kv1, kv0\nds_write_b64 v0, kv2..+2@2\nv_mov_b32 kv5, kv0"
    mapping = {VirtualReg("v", n): place for n, place in {0: 3, 1: 3, 2: 6, 5: 4}.items()}
    substituted = after(partial(substitute_registers, mapping=mapping), text)
    assert substituted == [
        "ds_write_b64 v0, v[6:7]",
        "v_mov_b32 v4, v3",
    ]


@pytest.mark.parametrize(("given", "said"), [({2: 6}, "kv1 has no"), ({0: 1, 1: 1, 2: 6, 3: 8}, "not consecutive")])
def test_incomplete_or_torn_mappings_are_refused(given: dict[int, int], said: str) -> None:
    mapping = {VirtualReg("v", n): place for n, place in given.items()}
    with pytest.raises(OperandError, match=said):
        substitute_registers(parse("v_mov_b32 kv1, kv0\nds_write_b64 v0, kv2..+2@2"), mapping)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("v_add_u32 v1, v2, 0x280", "v_add_u32 v1, 0x280, v2"),
        ("v_sub_u32 v1, v2, 0x280", "v_subrev_u32 v1, 0x280, v2"),
        ("v_subrev_f32 v1, v2, 0x40490fdb", "v_sub_f32 v1, 0x40490fdb, v2"),
        ("v_add_u32 v1, v2, 64", "v_add_u32 v1, v2, 64"),
        ("v_add_u32 v1, s2, 0x280", "v_add_u32 v1, s2, 0x280"),
        ("v_mul_lo_u32 v1, v2, 0x280", "v_mul_lo_u32 v1, v2, 0x280"),
        ("v_lshrrev_b32 v1, v2, 0x280", "v_lshrrev_b32 v1, v2, 0x280"),
    ],
)
def test_literals_go_where_there_is_room(given: str, expected: str) -> None:
    assert after(commute_literals, given) == [expected]
