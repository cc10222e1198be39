"""Tied operands: what an instruction updates is copied where it lives on, and only there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_programs import Wishes, random_program
from tracing import stores

from optimizer.cli import main
from optimizer.kernels.amdgpu.errors import OperandError
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.opcodes import OPCODES
from optimizer.kernels.amdgpu.operands import VirtualReg, width
from optimizer.kernels.amdgpu.pipeline import build
from optimizer.kernels.amdgpu.registers.allocate import AllocationOptions, allocate
from optimizer.kernels.amdgpu.registers.check_allocation import violations
from optimizer.kernels.amdgpu.registers.tied_copies import tied_copies
from optimizer.kernels.amdgpu.text import instruction_text, parse
from optimizer.kernels.amdgpu.witness.interpreter import run_kernel

LIVES_ON = """
    v_mov_b32 kv0, 1
    v_fmac_f32 kv1, v0, v0, kv0
    ds_write_b32 v0, kv0
    ds_write_b32 v0, kv1
    s_endpgm
"""


def names(program: Program) -> list[str]:
    return [item.name for _, item in program.instructions]


def test_what_lives_on_is_copied() -> None:
    allocation = allocate(parse(LIVES_ON))
    assert names(allocation.program)[:3] == ["v_mov_b32", "v_mov_b32", "v_fmac_f32"]
    assert allocation.copies == 1
    assert violations(allocation.program, allocation.mapping) == []


def test_what_is_read_for_the_last_time_is_not() -> None:
    program = parse(LIVES_ON.replace("ds_write_b32 v0, kv0\n", ""))
    allocation = allocate(program)
    assert (allocation.program, allocation.copies) == (program, 0)
    assert allocation.mapping[VirtualReg("v", 0)] == allocation.mapping[VirtualReg("v", 1)]


def test_the_checker_sees_a_tied_operand_elsewhere() -> None:
    apart = {VirtualReg("v", 0): 1, VirtualReg("v", 1): 2}
    (found,) = violations(parse(LIVES_ON), apart)
    assert str(found) == "item 1: v_fmac_f32 updates v2, but its operand is in v1"


@pytest.mark.parametrize(
    ("line", "copied"),
    [
        ("v_fmac_f32 kv9, v0, v0, kv1", ["v_mov_b32 kv9, kv1"]),
        ("v_writelane_b32 kv9, s2, 5, kv1", ["v_mov_b32 kv9, kv1"]),
        ("ds_read_u16_d16 kv9, v0, kv1", ["v_mov_b32 kv9, kv1"]),
        ("ds_read_u16_d16 ka9, v0, ka1", ["v_accvgpr_mov_b32 ka9, ka1"]),
        ("ds_read_u16_d16 ka9, v0, kv1", ["v_accvgpr_write_b32 ka9, kv1"]),
        ("global_load_short_d16_hi kv9, v[2:3], off, kv1", ["v_mov_b32 kv9, kv1"]),
        ("s_addk_i32 ks9, 7, ks1", ["s_mov_b32 ks9, ks1"]),
        ("s_addk_i32 m0, 7, ks1", ["s_mov_b32 m0, ks1"]),
        ("v_fmac_f32 v9, v0, kv1, kv1", ["v_mov_b32 v9, kv1"]),
        ("v_fmac_f32 v9, v0, v9, kv1", ["v_mov_b32 kv2, kv1", "v_mov_b32 v9, kv2"]),
    ],
)
def test_every_file_has_its_copy(line: str, copied: list[str]) -> None:
    program = parse(f"""
        v_mov_b32 v9, 0
        v_mov_b32 kv1, 3
        v_accvgpr_write_b32 ka1, 4
        s_mov_b32 ks1, 5
        {line}
        ds_write_b32 v0, kv1
        ds_write_b32 v0, ka1
        v_mov_b32 kv0, ks1
        ds_write_b32 v0, kv0
        s_endpgm
    """)
    allocation = allocate(program)
    added = [instruction_text(i) for _, i in allocation.program.instructions if i not in program.body]
    assert [text for text in added if "_mov_" in text or "_write_" in text] == copied
    assert violations(allocation.program, allocation.mapping) == []
    build(program)


PAIR = """
    s_mov_b64 ks0..+2@2, 5
    s_cmp_eq_u32 s2, 0
    s_cmov_b64 {}, 9, ks0..+2@2
    s_and_b64 vcc, ks0..+2@2, {}
    v_cndmask_b32 kv0, v0, v0, vcc
    ds_write_b32 v0, kv0
    s_endpgm
"""


@pytest.mark.parametrize(
    ("target", "copied"),
    [
        ("ks2..+2@2", ["s_mov_b32 ks2, ks0", "s_mov_b32 ks3, ks1"]),
        ("vcc", ["s_mov_b64 vcc, ks0..+2@2"]),
        ("s[8:9]", ["s_mov_b32 s8, ks0", "s_mov_b32 s9, ks1"]),
    ],
)
def test_a_pair_is_copied(target: str, copied: list[str]) -> None:
    program = parse(PAIR.format(target, target))
    allocation = allocate(program)
    assert [instruction_text(i) for _, i in allocation.program.instructions if i not in program.body][:-1] == copied
    assert violations(allocation.program, allocation.mapping) == []
    build(program)


def test_a_pair_read_for_the_last_time_is_not() -> None:
    program = parse(PAIR.format("ks2..+2@2", "ks2..+2@2").replace("vcc, ks0..+2@2", "vcc, 7"))
    allocation = allocate(program)
    assert (allocation.program, allocation.copies) == (program, 0)


WIDE = """
    v_mov_b32 kv0, 1
    v_mov_b32 kv1, 2
    v_mov_b32 kv2, 3
    v_fmac_f32 {}, v0, {}, kv0..+{}
    ds_write_b32 v0, kv0
    ds_write_b32 v0, kv1
    ds_write_b32 v0, kv{}
    s_endpgm
"""
"""As a document for `alloc` may have it, which knows no widths."""


@pytest.mark.parametrize(
    ("target", "other", "count", "copied"),
    [
        ("kv4..+3", "v0", 3, ["v_mov_b32 kv4, kv0", "v_mov_b32 kv5, kv1", "v_mov_b32 kv6, kv2"]),
        ("kv4..+2@2", "kv4..+2@2", 2, ["v_mov_b32 kv6, kv0", "v_mov_b32 kv7, kv1", "v_mov_b32 kv4, kv6",
                                       "v_mov_b32 kv5, kv7"]),
    ],
)  # fmt: skip
def test_any_number_of_registers_is_copied(target: str, other: str, count: int, copied: list[str]) -> None:
    text = WIDE.format(target, other, count, 4)
    if other != "v0":
        text = "v_mov_b32 kv4, 7\nv_mov_b32 kv5, 8\n" + text
    program = parse(text.replace("    v_mov_b32 kv0", ".redefinable kv4 kv5\n    v_mov_b32 kv0", 1))
    allocation = allocate(program)
    added = [instruction_text(i) for _, i in allocation.program.instructions if i not in program.body]
    assert [text for text in added if text.startswith("v_mov")] == copied
    assert violations(allocation.program, allocation.mapping) == []


@pytest.mark.parametrize(
    ("target", "copied"),
    [
        ("kv1..+2", ["v_mov_b32 kv2, kv1", "v_mov_b32 kv1, kv0"]),
        ("kv0..+2", []),
    ],
)
def test_registers_that_are_in_both_are_copied_before_they_are_written(target: str, copied: list[str]) -> None:
    text = f".redefinable kv0 kv1 kv2\n{WIDE.format(target, 'v0', 2, 2)}"
    changed = tied_copies(parse(text)).program
    added = [instruction_text(i) for _, i in changed.instructions if i not in parse(text).body]
    assert [text for text in added if text.startswith("v_mov")] == copied


def updating(program: Program) -> Program:
    """The program with every other instruction of two single VGPRs as one that updates its second operand."""
    body = list(program.body)
    for place, item in program.instructions:
        single = all(width(o) == 1 and str(o).startswith(("kv", "v")) for o in (*item.defs, *item.uses))
        if OPCODES[item.name].format == "VOP2" and len(item.uses) == 2 and single and place % 2:
            body[place] = Instruction("v_fmac_f32", item.defs, (*item.uses, item.uses[1]))
    return program.with_body(tuple(body))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("limit", [256, 14])
def test_random_programs_that_update_store_the_same(seed: int, limit: int) -> None:
    program = updating(random_program(seed, Wishes(steps=60, pressure=30, sizes=(1, 1, 2, 4))))
    assert "v_fmac_f32" in names(program)
    allocation = allocate(replace(program, max_vgprs=limit), AllocationOptions(allow_spill=True))
    assert violations(allocation.program, allocation.mapping) == []
    assert stores(allocation.program, allocation.mapping) == stores(program) != []


KERNEL = """
.kernel k
.workgroup 64 1 1
.workgroup_ids 0
.argument out 8 pointer
    s_load_dwordx2 ks0..+2@2, s[0:1], 0
    v_cvt_f32_u32 kv0, v0
    v_fmac_f32 kv1, 2.0, kv0, kv0
    v_fmac_f32 kv2, kv1, kv1, kv0
    v_lshlrev_b32 kv3, 2, v0
    global_store_dword kv3, kv2, ks0..+2@2
    global_store_dword kv3, kv1, ks0..+2@2 offset:256
    global_store_dword kv3, kv0, ks0..+2@2 offset:512
    s_endpgm
"""


def test_all_values_are_right_in_the_interpreter() -> None:
    run = run_kernel(build(parse(KERNEL)).text, "k", [1], [64], {"out": np.zeros(192, np.float32)})
    x = np.arange(64, dtype=np.float32)
    assert (run.buffers["out"].view(np.float32) == np.concatenate([x + 9 * x * x, 3 * x, x])).all()


MASKED = """
    v_mov_b32 kv0, 1
    v_cmp_lt_u32 vcc, v0, v1
    s_and_saveexec_b64 ks0..+2@2, vcc
    {}
    {}
    s_mov_b64 exec, ks0..+2@2
    ds_write_b32 v0, kv0
    {}
    s_endpgm
"""
READ = "ds_write_b32 v0, kv1"


@pytest.mark.parametrize(
    ("update", "behind"), [("v_fmac_f32 kv1, v0, v0, kv0", READ), ("v_writelane_b32 kv1, s2, 5, kv0", "s_nop 0")]
)
def test_lanes_that_a_copy_does_not_take_are_refused(update: str, behind: str) -> None:
    with pytest.raises(OperandError, match="updates kv0, and no copy of it holds the lanes"):
        allocate(parse(MASKED.format(update, READ, behind)))


def test_a_copy_takes_the_active_lanes() -> None:
    allocation = allocate(parse(MASKED.format("v_fmac_f32 kv1, v0, v0, kv0", READ, "s_nop 0")))
    assert allocation.copies == 1


def test_alloc_prints_the_program_with_its_copies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.kir"
    path.write_text(LIVES_ON)
    assert main(["asm", "alloc", str(path)]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["copies"] == 1
    assert record["program"]["instructions"][1] == {"name": "v_mov_b32", "defs": ["kv1"], "uses": ["kv0"]}
