"""The published cases of passes and of formatting."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gfx942.llvm import find_llvm

from optimizer.kernels.amdgpu.emit import item_lines
from optimizer.kernels.amdgpu.instruction_edits import substitute_registers
from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.passes.expansion import expand_pseudos
from optimizer.kernels.amdgpu.passes.mitigate_hazards import mitigate_hazards
from optimizer.kernels.amdgpu.pipeline import AssemblyOptions, build, virtual_passes
from optimizer.kernels.amdgpu.program_json import read_cases
from optimizer.kernels.amdgpu.text import instruction_text, parse_operand

CASES = Path(__file__).parents[3] / "fixtures/kernels/amdgpu_cases.json"
DOCUMENT = json.loads(CASES.read_text())
PROGRAMS = {case.id: case.program for case in read_cases(DOCUMENT)}
FUSED = ("v_lshl_add_u32", "v_lshl_or_b32", "v_or3_b32", "v_add_lshl_u32")


def cases(kind: str) -> list[Any]:
    return [pytest.param(PROGRAMS[c["id"]], c["expect"], id=c["id"]) for c in DOCUMENT["cases"] if c["kind"] == kind]


def names(program: Program) -> list[str]:
    return [item.name for _, item in program.instructions]


@pytest.mark.parametrize(("program", "expected"), cases("peephole"))
def test_peephole(program: Program, expected: dict[str, Any]) -> None:
    for step in virtual_passes(AssemblyOptions()):
        program = step.apply(program)
    assert sum(name in FUSED for name in names(program)) == expected["fused"]
    assert expected.get("contains", "") in "\n".join(instruction_text(i) for _, i in program.instructions)


def as_it_is(program: Program) -> Program:
    return mitigate_hazards(program)


def through_everything(program: Program) -> Program:
    return build(program).program


@pytest.mark.parametrize("run", [as_it_is, through_everything])
@pytest.mark.parametrize(("program", "expected"), cases("hazard"))
def test_hazards(run: Callable[[Program], Program], program: Program, expected: dict[str, Any]) -> None:
    nops = [item for _, item in run(program).instructions if item.name == "s_nop"]
    assert [instruction_text(nop) for nop in nops] == ["s_nop 0"] * expected["s_nop_instructions"]


@pytest.mark.parametrize(("program", "expected"), cases("emit"))
def test_formatting(program: Program, expected: dict[str, Any]) -> None:
    mapping = {parse_operand(name): number for name, number in expected["mapping"].items()}
    program = substitute_registers(program, mapping)
    items = enumerate(expand_pseudos(program).body)
    assert [line for place, item in items for line in item_lines(item, place)] == expected["lines"]


@pytest.mark.skipif(find_llvm() is None, reason="llvm-19 is not installed (apt-get install llvm-19)")
def test_encodings_are_those_of_the_cases() -> None:
    llvm = find_llvm()
    assert llvm is not None
    for case in DOCUMENT["cases"]:
        for line, encoding in case["expect"].get("encodings", {}).items():
            (read,) = llvm.disassemble(llvm.assemble(f"{line}\n"))
            assert [f"{word:08X}" for word in read.words] == [encoding]
