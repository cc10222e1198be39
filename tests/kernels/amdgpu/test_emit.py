"""Text of kernels: formatting, range checks, descriptor, metadata; LLVM assembles it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from gfx942.llvm import find_llvm, require_llvm

from optimizer.errors import UnknownNameError
from optimizer.kernels.amdgpu.emit import Footprint, argument_offsets, footprint, instruction_line, kernel_text
from optimizer.kernels.amdgpu.errors import OperandError
from optimizer.kernels.amdgpu.ir import Argument, Instruction, Launch, Program
from optimizer.kernels.amdgpu.text import parse, parse_instruction

needs_llvm = pytest.mark.skipif(find_llvm() is None, reason="llvm-19 is not installed (apt-get install llvm-19)")

LINES = [
    ("v_fmac_f32 v1, v2, v3, v1", "v_fmac_f32 v1, v2, v3"),
    ("ds_read_u16_d16_hi v1, v0, v1 offset:6", "ds_read_u16_d16_hi v1, v0 offset:6"),
    ("buffer_load_dword_lds v1, s[4:7], 0 offset:8", "buffer_load_dword v1, s[4:7], 0 offen offset:8 lds"),
    ("buffer_load_dword v1, off, s[4:7], s3 offset:4", "buffer_load_dword v1, off, s[4:7], s3 offset:4"),
    (
        "global_store_dwordx4 v[2:3], a[4:7], off offset:-16 nt",
        "global_store_dwordx4 v[2:3], a[4:7], off offset:-16 nt",
    ),
    ("v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0", "v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0"),
    ("s_and_b32 s4, s4, 0xffff ; high half", "s_and_b32 s4, s4, 0xffff ; high half"),
    ("s_cbranch_scc1 loop_0_body", "s_cbranch_scc1 loop_0_body"),
    ("s_waitcnt vmcnt(3) lgkmcnt(0)", "s_waitcnt vmcnt(3) lgkmcnt(0)"),
    ("s_mov_b32 s4, -16", "s_mov_b32 s4, -16"),
    ("s_mov_b32 s4, 65", "s_mov_b32 s4, 0x41"),
    ("s_mov_b32 s4, -17", "s_mov_b32 s4, -0x11"),
]


@pytest.mark.parametrize(("given", "written"), LINES)
def test_lines(given: str, written: str) -> None:
    assert instruction_line(parse_instruction(given)) == written


@needs_llvm
def test_llvm_reads_the_lines_as_written() -> None:
    text = kernel_text(parse("\n".join(["loop_0_body:", *(given for given, _ in LINES), "s_endpgm"])))
    assert require_llvm().check(text) == len(LINES) + 1


REFUSED = [
    ("buffer_load_dword v1, v0, s[4:7], 0 offset:4096", r"0\.\.4095"),
    ("buffer_store_dword v1, v0, s[4:7], 0 offset:-4", r"0\.\.4095"),
    ("ds_read_b32 v1, v0 offset:65536", r"0\.\.65535"),
    ("global_load_dword v1, v0, s[4:5] offset:4096", r"-4096\.\.4095"),
    ("s_load_dword s4, s[0:1], 0x100000", "1048575"),
    ("s_nop 16", "15"),
    ("s_waitcnt lgkmcnt(16)", "15"),
    ("v_fmac_f32 v1, v2, v3, v4", "must be v1"),
    ("v_mov_b32 v1, kv0", "allocate"),
    ("_init_acc_quad v[0:3], 0", "expand"),
]


@pytest.mark.parametrize(("line", "said"), REFUSED)
def test_what_the_assembler_would_refuse_or_misread(line: str, said: str) -> None:
    with pytest.raises(OperandError, match=said):
        instruction_line(parse_instruction(line))


@pytest.mark.parametrize(("line", "said"), [("v_mov_b32 v256, 0", "no v256"), ("s_mov_b32 s102, 0", "no s102")])
def test_registers_that_the_hardware_lacks(line: str, said: str) -> None:
    with pytest.raises(OperandError, match=said):
        kernel_text(parse(line))


FOOTPRINTS = [
    ("s_endpgm", 3, Footprint(1, 5, 0), (4, 1)),
    ("s_endpgm", 0, Footprint(1, 2, 0), (4, 1)),
    ("v_mov_b32 v4, s7", 1, Footprint(5, 8, 0), (8, 5)),
    ("v_accvgpr_write_b32 a6, v4", 1, Footprint(5, 3, 7), (8, 15)),
]


@pytest.mark.parametrize(("line", "ids", "expected", "vector"), FOOTPRINTS)
def test_registers_that_a_kernel_takes(line: str, ids: int, expected: Footprint, vector: tuple[int, int]) -> None:
    taken = footprint(replace(parse(line), launch=Launch(workgroup_ids=ids)))
    assert taken == expected
    assert (taken.accum_offset, taken.next_free_vgpr) == vector


def directives(launch: Launch) -> dict[str, int]:
    text = kernel_text(replace(parse("s_endpgm"), launch=launch))
    return {name: int(value) for name, value in re.findall(r"\.amdhsa_(\w+) (\d+)", text)}


def test_the_descriptor_says_how_the_kernel_is_started() -> None:
    plain = directives(Launch())
    assert (plain["kernarg_size"], plain["system_vgpr_workitem_id"], plain["enable_private_segment"]) == (0, 0, 0)
    arguments = (Argument("n", 4, False), Argument("x"), Argument("flag", 1, False))
    large = directives(Launch((16, 4, 1), arguments, 1, lds_bytes=2048, scratch_bytes=16))
    assert large["kernarg_size"] == 24
    assert large["system_vgpr_workitem_id"] == 1
    assert [large[f"system_sgpr_workgroup_id_{axis}"] for axis in "xyz"] == [1, 0, 0]
    assert (large["group_segment_fixed_size"], large["private_segment_fixed_size"]) == (2048, 16)
    assert large["enable_private_segment"] == 1
    assert argument_offsets(arguments) == (0, 8, 16)


@needs_llvm
def test_awkward_names_are_no_numbers_in_the_metadata() -> None:
    arguments = tuple(Argument(name, 4, False) for name in ("y", "no", "12", "0x1f", "null", "true"))
    program = Program((Instruction("s_endpgm"),), "on", launch=Launch(arguments=arguments))
    assert b"amdhsa.kernels" in require_llvm().assemble(kernel_text(program))


BAD_LAUNCHES = [
    (Launch((1024, 2, 1)), "2048 threads"),
    (Launch(lds_bytes=65537), "LDS"),
    (Launch(workgroup_ids=4), "4 workgroup ids"),
    (Launch(arguments=(Argument("x", 4),)), "'x' has 4 bytes"),
    (Launch(arguments=(Argument("x"), Argument("x"))), "'x'"),
]


@pytest.mark.parametrize(("launch", "said"), BAD_LAUNCHES)
def test_launches_that_cannot_be(launch: Launch, said: str) -> None:
    with pytest.raises(OperandError, match=said):
        kernel_text(replace(parse("s_endpgm"), launch=launch))


def test_a_workgroup_must_fit_on_the_four_simds() -> None:
    program = replace(parse("v_mov_b32 v128, 0"), launch=Launch((1024, 1, 1)))
    with pytest.raises(OperandError, match="129 VGPRs in a workgroup of 1024 threads"):
        kernel_text(program)
    kernel_text(replace(program, launch=Launch((512, 1, 1))))


def test_other_processors_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="gfx942"):
        kernel_text(parse("s_endpgm"), "gfx1100")
