"""Runs the instructions of an expression on the interpreter of gfx942 text, each virtual register in its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gfx942.builder import KernelBuilder
from gfx942.expr import ExpressionEmitter

from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.operands import Operand, PhysicalReg, RegRange, VirtualReg
from optimizer.kernels.amdgpu.text import instruction_text
from optimizer.kernels.amdgpu.validate import validate
from optimizer.kernels.amdgpu.witness.interpreter import run_kernel

FIRST = {"v": 16, "s": 24}
LANES = 64


@dataclass(frozen=True)
class Symbol:
    """`unit` is v (a value per lane) or s (one for all)."""

    name: str
    unit: str
    low: int
    high: int


def physical(operand: Operand) -> Operand:
    if isinstance(operand, VirtualReg):
        return PhysicalReg(operand.file, FIRST[operand.file] + operand.number)
    if isinstance(operand, RegRange) and isinstance(operand.base, VirtualReg):
        base = physical(operand.base)
        assert isinstance(base, PhysicalReg)
        return RegRange(base, operand.count)
    return operand


def emitted(symbols: list[Symbol], use: Callable[[ExpressionEmitter], Any]) -> tuple[Program, Any]:
    """The program that `use` emits with the symbols in v2, v3, ... and s8, s9, ..., and what it returned."""
    builder = KernelBuilder()
    emitter = ExpressionEmitter(builder)
    for n, symbol in enumerate(symbols):
        emitter.bind(symbol.name, PhysicalReg(symbol.unit, {"v": 2, "s": 8}[symbol.unit] + n), symbol.low, symbol.high)
    result = use(emitter)
    program = builder.program()
    validate(program)
    return program, result


def run(symbols: list[Symbol], values: Mapping[str, Any], program: Program, result: Operand) -> np.ndarray:
    """The 64 results, as unsigned words."""
    code = []
    for n, symbol in enumerate(symbols):
        if symbol.unit == "s":
            code.append(f"s_load_dword s{8 + n}, s[0:1], {16 + 4 * n}")
        else:
            code.append(f"global_load_dword v{2 + n}, v1, s[4:5] offset:{4 * LANES * n}")
    for item in program.body:
        assert isinstance(item, Instruction)
        code.append(instruction_text(item.with_operands(
            tuple(map(physical, item.defs)), tuple(map(physical, item.uses)))))  # fmt: skip
    body = "\n".join([
        "s_load_dwordx4 s[4:7], s[0:1], 0x0", "v_lshlrev_b32 v1, 2, v0", "s_waitcnt lgkmcnt(0)",
        *code[: len(symbols)], "s_waitcnt vmcnt(0) lgkmcnt(0)", *code[len(symbols) :],
        f"v_mov_b32 v15, {physical(result)}", "global_store_dword v1, v15, s[6:7]", "s_endpgm",
    ])  # fmt: skip
    text = _KERNEL.format(body=body, kernarg=16 + 4 * len(symbols))
    table = np.zeros((len(symbols), LANES), np.int64)
    for n, symbol in enumerate(symbols):
        table[n] = values[symbol.name]
    words = (table & 0xFFFFFFFF).astype(np.uint32)
    arguments: dict[str, Any] = {"in": words, "out": np.zeros(LANES, np.uint32)}
    arguments |= {symbol.name: words[n, 0] for n, symbol in enumerate(symbols)}
    return run_kernel(text, "k", [1], [LANES], arguments).buffers["out"]


_KERNEL = """\
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
k:
{body}
.amdhsa_kernel k
  .amdhsa_kernarg_size {kernarg}
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 256
  .amdhsa_accum_offset 256
  .amdhsa_next_free_sgpr 100
.end_amdhsa_kernel
"""
