"""Kernels through all passes: right results, no wait or nop too many, read by LLVM as written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gfx942.builder import KernelBuilder
from gfx942.llvm import find_llvm, require_llvm
from gfx942.mutations import mutations

from optimizer.kernels.amdgpu.abi import KERNARG, THREAD_ID
from optimizer.kernels.amdgpu.errors import AllocationError, OperandError, SsaError
from optimizer.kernels.amdgpu.ir import Argument, Instruction, Launch, Program
from optimizer.kernels.amdgpu.pipeline import AssemblyOptions, build
from optimizer.kernels.amdgpu.text import parse
from optimizer.kernels.amdgpu.witness.errors import ExecutionError
from optimizer.kernels.amdgpu.witness.interpreter import run_kernel

Arrays = Mapping[str, np.ndarray[Any, np.dtype[Any]]]


def reversed_rows() -> Program:
    """y = x + the mirrored x of the same 64, through LDS; then its first element in every lane is added."""
    b = KernelBuilder("mirror", Launch((64, 1, 1), (Argument("x"), Argument("y")), 1, lds_bytes=256))
    x, y = b.s_load_dwordx2(KERNARG, 0), b.s_load_dwordx2(KERNARG, 8)
    address = b.v_lshlrev_b32(2, THREAD_ID)
    value = b.global_load_dword(address, x)
    b.ds_write_b32(address, value)
    b.s_barrier()
    mirrored = b.v_sub_u32(252, address)
    total = b.v_add_f32(value, b.ds_read_b32(mirrored))
    first = b.v_readfirstlane_b32(total)
    b.global_store_dword(address, b.v_add_f32(first, total), y)
    return b.program()


def repeated_products() -> Program:
    """c = 3 * a @ b for 16 x 16 halves: an accumulator over a loop of three rounds."""
    b = KernelBuilder("products", Launch((64, 1, 1), (Argument("a"), Argument("b"), Argument("c")), 0))
    pointers = [b.s_load_dwordx2(KERNARG, 8 * n) for n in range(3)]
    # Lane l holds a[l % 16][4 * (l // 16) + 0..3], likewise b transposed.
    row, quad = b.v_and_b32(15, THREAD_ID), b.v_lshrrev_b32(4, THREAD_ID)
    place = b.v_add_u32(b.v_lshlrev_b32(5, row), b.v_lshlrev_b32(3, quad))
    left, right = (b.global_load_dwordx2(place, pointers[n]) for n in range(2))
    accumulator = b.vgpr(4)
    b.append(Instruction("_init_acc_quad", (accumulator,), (parse("s_nop 0").instructions[0][1].uses[0],)))
    b.redefinable(accumulator)
    counter = b.s_mov_b32(0)
    loop = b.label(b.new_label("loop"))
    b.v_mfma_f32_16x16x16_f16(left, right, accumulator, dst=accumulator)
    b.s_add_u32(counter, 1, dst=counter)
    b.s_cmp_lt_u32(counter, 3)
    b.s_cbranch_scc1(loop)
    out = b.v_add_u32(b.v_lshlrev_b32(8, quad), b.v_lshlrev_b32(2, row))
    for n in range(4):
        b.global_store_dword(out, accumulator.component(n), pointers[2], offset=64 * n)
    return b.program()


def half(seed: int) -> np.ndarray[Any, np.dtype[Any]]:
    return np.random.default_rng(seed).integers(-3, 4, (16, 16)).astype(np.float16)


def zeros(*shape: int) -> np.ndarray[Any, np.dtype[Any]]:
    return np.zeros(shape, np.float32)


X = np.arange(64, dtype=np.float32)
KERNELS = {
    "mirror": (reversed_rows(), {"x": X, "y": zeros(64)}, "y", 126.0 + zeros(64)),
    "products": (
        repeated_products(),
        {"a": half(1), "b": half(2), "c": zeros(16, 16)},
        "c",
        3 * half(1).astype(np.float32) @ half(2).astype(np.float32).T,
    ),
}
BOTH = pytest.mark.parametrize(("program", "arguments", "output", "expected"), KERNELS.values(), ids=KERNELS)
OPTIONS = (
    AssemblyOptions(),
    AssemblyOptions(fuse=False),
    AssemblyOptions(remove_dead_code=True),
    AssemblyOptions(schedule=False),
)


@BOTH
@pytest.mark.parametrize("options", OPTIONS, ids=("default", "unfused", "no dead code", "as written"))
def test_results(
    program: Program,
    arguments: Arrays,
    output: str,
    expected: np.ndarray[Any, np.dtype[Any]],
    options: AssemblyOptions,
) -> None:
    text = build(program, options).text
    np.testing.assert_array_equal(run_kernel(text, program.name, [1], [64], arguments).buffers[output], expected)


@BOTH
def test_every_wait_and_nop_is_needed(program: Program, arguments: Arrays, output: str, expected: object) -> None:
    for mutation in mutations(build(program).text):
        with pytest.raises(ExecutionError):
            run_kernel(mutation.text, program.name, [1], [64], arguments)


@BOTH
@pytest.mark.skipif(find_llvm() is None, reason="llvm-19 is not installed (apt-get install llvm-19)")
def test_llvm_reads_the_same(program: Program, arguments: Arrays, output: str, expected: object) -> None:
    assembly = build(program)
    assert require_llvm().check(assembly.text) == len(assembly.program.instructions)


def test_stages_are_shown_in_order() -> None:
    seen: list[str] = []
    build(reversed_rows(), observe=lambda name, _: seen.append(name))
    assert seen == [
        "initial", "expand-control", "end-program", "check-opcodes", "commute-literals", "validate", "fuse-shift-add",
        "fuse-shift-or", "fuse-add-shift", "fuse-or-or", "init-accumulators", "expand-pseudos", "rotate-loops",
        "pipeline-loops", "schedule-blocks", "allocate",
        "substitute-registers", "refresh-vccz", "insert-waits", "mitigate-hazards",
    ]  # fmt: skip


@pytest.mark.parametrize(("kernel", "limit"), [("mirror", 2), ("products", 9), ("products", 8)])
def test_programs_that_do_not_fit_are_spilled_when_asked(kernel: str, limit: int) -> None:
    program, arguments, output, expected = KERNELS[kernel]
    small = replace(program, max_vgprs=limit)
    with pytest.raises(AllocationError, match="--allow-spill"):
        build(small)
    assembly = build(small, AssemblyOptions(allow_spill=True))
    assert assembly.footprint.vgprs <= limit
    assert assembly.warnings
    found = run_kernel(assembly.text, program.name, [1], [64], arguments).buffers[output]
    np.testing.assert_array_equal(found, expected)


def test_mistakes_are_named_where_they_stand() -> None:
    with pytest.raises(OperandError, match=r"instruction 1 \(ds_read_b32\)"):
        build(parse("v_mov_b32 kv0, 0\nds_read_b32 kv1, kv0 offset:70000"))


SPECIALS = {
    "never": ("s_cbranch_scc1 end\nend:", r"instruction 0 \(s_cbranch_scc1\): scc is used, but nothing defines it"),
    "on one of two ways": (
        "v_cmp_eq_u32 vcc, 0, v0\ns_cbranch_vccz past\ns_cmp_eq_u32 s2, 0\npast:\ns_cselect_b32 ks0, 1, 2",
        r"instruction 4 \(s_cselect_b32\): scc is used, but there is a way",
    ),
    "after the loop's first round": (
        "loop:\ns_addc_u32 s20, s20, 1\ns_cbranch_scc1 loop",
        r"instruction 1 \(s_addc_u32\): scc",
    ),
    "half of vcc": ("s_mov_b32 vcc_lo, 0\ns_cbranch_vccnz end\nend:", r"instruction 1 \(s_cbranch_vccnz\): vcc_hi"),
    "vcc as an operand": ("v_cndmask_b32 kv0, v0, v0, vcc", r"instruction 0 \(v_cndmask_b32\): vcc_lo"),
    "m0": ("buffer_load_dword_lds v0, s[4:7], 0 offen lds", r"instruction 0 \(buffer_load_dword_lds\): m0"),
}


@pytest.mark.parametrize(("text", "said"), SPECIALS.values(), ids=SPECIALS)
def test_special_registers_are_defined_before_they_are_read(text: str, said: str) -> None:
    with pytest.raises(SsaError, match=said):
        build(parse(f"{text}\ns_endpgm"))


def test_special_registers_defined_on_every_way_are_accepted() -> None:
    text = """
        .redefinable ks0
        s_mov_b64 ks2..+2@2, exec
        v_cmp_eq_u32 vcc, 0, v0
        s_mov_b32 ks0, 0
        s_cbranch_vccz other
        s_cmp_eq_u32 s2, 0
        s_branch meet
    other:
        s_and_saveexec_b64 ks4..+2@2, vcc
    meet:
        s_cselect_b32 ks1, 1, 2
        s_mov_b32 m0, ks1
        buffer_load_dword_lds v0, s[4:7], 0 offen lds
    loop:
        _loop_inc ks0, 1
        s_cbranch_scc0 loop
        s_cbranch_execz end
        s_mov_b64 exec, ks2..+2@2
        v_cndmask_b32 kv0, v0, v0, vcc
    end:
        s_endpgm
    """
    assert "s_cselect_b32" in build(parse(text)).text


def test_the_addend_of_a_matrix_product_of_halves_is_a_single() -> None:
    product = "v_mfma_f32_16x16x16_f16 kv0..+4@2, kv4..+2@2, kv4..+2@2, {}"
    text = f"v_mov_b64 kv4..+2@2, 0\n{product}\nds_write_b128 v0, kv0..+4@2"
    assert "0x3f800000\n" in build(parse(text.format("1.0"))).text
    with pytest.raises(OperandError, match="0x3c00"):
        build(parse(text.format("0x3c00")))
