"""Programs as text and as JSON come back as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gfx942.builder import KernelBuilder

from optimizer.errors import FormatError
from optimizer.kernels.amdgpu.abi import KERNARG, THREAD_ID
from optimizer.kernels.amdgpu.errors import OperandError
from optimizer.kernels.amdgpu.ir import Argument, Launch, Program
from optimizer.kernels.amdgpu.operands import OFF, VCC
from optimizer.kernels.amdgpu.program_json import program_json, read_cases, read_program
from optimizer.kernels.amdgpu.text import parse, text_of
from optimizer.kernels.amdgpu.validate import validate

CASES = Path(__file__).parents[3] / "fixtures/kernels/amdgpu_cases.json"
PROGRAMS = {case.id: case.program for case in read_cases(json.loads(CASES.read_text()))}


def looping_kernel() -> Program:
    """Every kind of operand and directive."""
    b = KernelBuilder("scale", Launch((256, 1, 1), (Argument("x"), Argument("n", 4, False)), lds_bytes=1024))
    pointer = b.s_load_dwordx2(KERNARG, 0)
    b.wait(lgkmcnt=0)
    address = b.v_lshlrev_b32(2, THREAD_ID)
    counter = b.s_mov_b32(0)
    loop = b.label(b.new_label("loop"))
    x = b.global_load_dword(address, pointer, offset=16, comment="one element")
    b.wait(vmcnt=0)
    b.s_add_u32(counter, 1, dst=counter)
    low, carry = b.v_add_co_u32(address, x, dst=(b.vgpr(), VCC))
    b.global_store_dword(address, b.v_mul_f32(-3.5, low), pointer, modifiers=("nt",))
    b.scratch_store_dword(OFF, b.v_cndmask_b32(x, low, carry), OFF, offset=4)
    b.s_cmp_lt_u32(counter, 0x1000)
    b.s_cbranch_scc1(loop)
    b.s_endpgm()
    return b.program(reserved_sgprs=frozenset({24, 25}), max_vgprs=64)


@pytest.mark.parametrize("program", [*PROGRAMS.values(), looping_kernel()], ids=[*PROGRAMS, "built"])
def test_text_and_json_come_back(program: Program) -> None:
    assert parse(text_of(program)) == program
    assert read_program(json.loads(json.dumps(program_json(program)))) == program


def test_the_text_is_what_the_assembler_reads() -> None:
    lines = text_of(looping_kernel()).splitlines()
    assert "    global_load_dword kv1, kv0, ks0..+2@2 offset:16 ; one element" in lines
    assert "    v_add_co_u32 kv2, vcc, kv0, kv1" in lines
    assert "    v_mul_f32 kv3, 0xc0600000, kv2" in lines
    assert "    scratch_store_dword off, kv4, off offset:4" in lines
    assert "    s_waitcnt lgkmcnt(0)" in lines


def test_the_builder_makes_legal_programs() -> None:
    program = looping_kernel()
    validate(program)
    assert [str(r) for r in program.redefinable] == ["ks2"]


def test_the_builder_refuses_at_once() -> None:
    b = KernelBuilder()
    with pytest.raises(OperandError, match=r"offset 4096 of buffer_load_dword is not in 0\.\.4095"):
        b.buffer_load_dword(b.vgpr(), b.sgpr(4), 0, offset=4096)
    with pytest.raises(AttributeError):
        b.no_such_thing()


@pytest.mark.parametrize("line", ["v_mov_b32 kv0, what", ".nonsense 3", ".precolored kv0=x", "v_mov_b32 kv0, v[3:"])
def test_unreadable_lines_are_named(line: str) -> None:
    with pytest.raises(FormatError, match="line 2"):
        parse(f".kernel k\n{line}\n")


@pytest.mark.parametrize(
    "document",
    [3, {"instructions": 3}, {"instructions": [{"name": 3}]}, {"instructions": [{"name": "s_nop", "uses": ["?"]}]},
     {"instructions": [], "max_vgprs": "many"}, {"instructions": [], "precolored": {"v0": 1}},
     {"instructions": [{"name": "s_nop", "use": []}]}],
)  # fmt: skip
def test_ill_formed_documents_are_refused(document: object) -> None:
    with pytest.raises(FormatError):
        read_program(document)
