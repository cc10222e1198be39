"""The table of opcodes: llvm-mc has every one of them, with these operands; what gfx942 lacks is refused by name."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from gfx942.zig import refused
from llvm import assemble, needs_llvm

from optimizer.kernels.amdgpu.errors import OpcodeError, OperandError
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.opcodes import HINTS, OPCODES, Opcode, OperandSpec, opcode
from optimizer.kernels.amdgpu.operands import OFF, VCC, MemOffset, Operand, PhysicalReg, RegRange, WaitCount
from optimizer.kernels.amdgpu.operands import Immediate as Imm
from optimizer.kernels.amdgpu.targets import check_opcodes
from optimizer.kernels.amdgpu.text import instruction_text, parse_instruction
from optimizer.kernels.amdgpu.validate import check_operands

REAL = [o for o in OPCODES.values() if not o.is_pseudo]


def sample(known: Opcode) -> Instruction:
    """An instruction with operands of the kinds that the table says."""
    defs = tuple(operand(spec, 16 * n + 16) for n, spec in enumerate(known.defs))
    uses = tuple(
        defs[spec.tied] if spec.tied is not None else operand(spec, 16 * n + 64) for n, spec in enumerate(known.uses)
    )
    target = "target" if known.is_branch else None
    return Instruction(known.name, defs, uses, target, ("lds",) if known.name.endswith("_lds") else ())


def register(file: str, number: int, count: int) -> PhysicalReg | RegRange:
    first = PhysicalReg(file, number)
    return first if count == 1 else RegRange(first, count)


def operand(spec: OperandSpec, number: int) -> Operand:
    match spec.kind:
        case "v" | "d" | "x" | "c" | "n" | "A":
            return register("v", number, spec.width)
        case "a":
            return parse_instruction(f"v_accvgpr_mov_b32 a{number}, a0").defs[0]
        case "s" | "S" | "r":
            return register("s", number % 64, spec.width)
        case "l":
            return Imm(3)
        case "m":
            return VCC
        case "G":
            return register("v", number, 2)
        case "b":
            return OFF
        case "i":
            return Imm(3)
        case "w":
            return WaitCount("vmcnt", 63)
    return MemOffset(8)


def assembly(instruction: Instruction) -> str:
    """As the assembler wants it: without tied operands, under the real mnemonic."""
    known = opcode(instruction.name)
    tied = {use for use, _ in known.tied}
    uses = tuple(o for n, o in enumerate(instruction.uses) if n not in tied)
    text = instruction_text(replace(instruction, uses=uses))
    return text.replace(known.name, known.mnemonic, 1)


@needs_llvm
def test_every_opcode_of_the_table_assembles() -> None:
    errors = assemble(["target:", *(assembly(sample(known)) for known in REAL if "gfx942" in known.targets)])
    assert errors == ""


def test_every_opcode_of_the_table_assembles_for_gfx950() -> None:
    assert all("gfx950" in known.targets for known in REAL)
    assert refused("\n".join(["target:", *(assembly(sample(known)) for known in REAL), ""]), "gfx950") == ""


@needs_llvm
def test_gfx942_has_nothing_of_what_only_gfx950_has() -> None:
    only = [assembly(sample(known)) for known in REAL if known.targets == ("gfx950",)]
    assert len(only) == 11
    assert [line for line in only if "error" not in assemble([line])] == []


@needs_llvm
def test_every_refused_name_is_refused_by_the_assembler_too() -> None:
    lines = [f"{name} v[0:3], v[4:5], v[6:7], v[0:3]" for name in HINTS]
    refused = {re.split(r"\s", line.strip())[0] for line in assemble(lines).splitlines() if line.startswith("v")}
    spelled_otherwise = {n for n in HINTS if re.search(r"16f16$|8f16$|_1k$", n)}
    assert {n for n in HINTS if n.startswith("v_")} - spelled_otherwise <= refused


@pytest.mark.parametrize("known", REAL, ids=lambda o: o.name)
def test_samples_are_legal_and_parse_back(known: Opcode) -> None:
    instruction = sample(known)
    check_operands(instruction, "here")
    assert parse_instruction(instruction_text(instruction)) == instruction


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("v_mfma_f16_16x16x16_f16", "f32"),
        ("s_add_u64", "s_addc_u32"),
        ("v_ad_u32", "v_add_u32"),
        ("V_ADD_U32", "lower"),
    ],
)
def test_what_gfx942_lacks_is_refused_with_what_to_use(name: str, said: str) -> None:
    with pytest.raises(OpcodeError, match=said):
        opcode(name)


@pytest.mark.parametrize("known", [o for o in REAL if o.targets == ("gfx950",)], ids=lambda o: o.name)
def test_what_only_gfx950_has_is_refused_for_gfx942_with_what_to_use(known: Opcode) -> None:
    program = Program((sample(known), Instruction("s_endpgm")))
    with pytest.raises(OpcodeError, match=f"gfx942 has no '{known.name}', which gfx950 has; use ") as caught:
        check_opcodes(program, "gfx942")
    assert caught.value.limit == "gfx942"
    assert check_opcodes(program, "gfx950") is program


ILLEGAL = [
    ("v_add_u32 v1, v2, 0x280", "first operand|short encoding"),
    ("v_lshl_add_u32 v1, v2, 8, 0x280", "short encoding"),
    ("v_add_u32 v1, s2, s3", "one is the limit"),
    ("v_mul_lo_u32 v1, v2, 0x280", "short encoding"),
    ("v_cndmask_b32 v1, s2, v3, vcc", "one is the limit"),
    ("v_cndmask_b32 v1, 0x280, v3, s[4:5]", "literal"),
    ("buffer_load_dword v1, v2, s[4:7], 0 offen offset:4096", "0..4095"),
    ("ds_read_b32 v1, v2 offset:65536", "0..65535"),
    ("s_waitcnt lgkmcnt(16)", "more than 15"),
    ("s_add_u32 s1, 0x1234, 0x5678", "one literal"),
    ("v_mov_b32 s1, v2", "VGPR"),
    ("ds_read_b64 v[3:4], v2", "multiple of 2"),
    ("buffer_load_dwordx4 v[4:6], v2, s[4:7], 0", "3 registers, not 4"),
    ("v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[4:19]", "overlap"),
]


@pytest.mark.parametrize(("line", "said"), ILLEGAL)
def test_illegal_operands_are_refused(line: str, said: str) -> None:
    with pytest.raises(OperandError, match=said):
        check_operands(parse_instruction(line), "here")


@needs_llvm
@pytest.mark.parametrize("line", [line for line, _ in ILLEGAL if "4096" not in line])
def test_the_assembler_refuses_them_too(line: str) -> None:
    assert "error" in assemble([line])


LEGAL = [
    "v_add_u32 v1, 0x280, v2", "v_add_u32 v1, v2, 64", "v_add_u32 v1, s2, v3", "v_add_u32 v1, v2, s3",
    "v_lshl_add_u32 v1, s2, 8, s2", "v_cndmask_b32 v1, v2, v3, s[4:5]", "v_cmp_lt_u32 s[4:5], v1, v2",
    "v_cmp_lt_f32 vcc, 0x40490fdb, v2", "v_add_co_u32 v1, s[4:5], v2, s4", "s_mov_b64 exec, -1",
    "s_and_saveexec_b64 s[4:5], vcc", "s_load_dword s4, s[2:3], 0x10", "s_load_dword s4, s[2:3], s6",
    "global_load_dword v1, v2, s[4:5] offset:-8", "buffer_load_dword v1, off, s[4:7], s3 offset:4",
    "v_mfma_f32_16x16x16_f16 a[0:3], v[4:5], v[6:7], 0", "v_mfma_f32_32x32x8_bf16 v[0:15], v[16:17], v[18:19], v[0:15]",
    "v_accvgpr_write_b32 a1, 1", "scratch_store_dword off, v1, off offset:16", "scratch_load_dword v1, off, s2",
    "ds_write_b64 v1, a[2:3] offset:8", "s_mov_b32 m0, 0x1000", "v_readlane_b32 s1, v2, 5",
    "v_writelane_b32 v1, s2, 5, v1",
    "s_waitcnt vmcnt(0) lgkmcnt(0)", "v_add_f16 v1, 0x3c00, v2", "v_mul_f32 v1, v2, 0x3f800000",
]  # fmt: skip


@pytest.mark.parametrize("line", LEGAL)
def test_legal_operands_are_accepted(line: str) -> None:
    instruction = parse_instruction(line)
    check_operands(instruction, "here")
    assert parse_instruction(instruction_text(instruction)) == instruction


@needs_llvm
def test_the_assembler_accepts_them_too() -> None:
    assert assemble([assembly(parse_instruction(line)) for line in LEGAL]) == ""
