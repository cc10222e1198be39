"""Cycles of one wave on CDNA3: what an instruction occupies, and when the next one may touch what it touched.

A wave issues one instruction in four cycles, a wait state. Passes of the matrix core, four cycles each, and wait states
are those of AMD's ISA manual ("AMD Instinct MI300 Instruction Set Architecture", section 4.5), from `opcodes` and
`hazard_rules`. Memory was measured on an MI308X, also CDNA3 (`docs/mem_latency.md` of github.com/tingqli/pyhip):
`*_dwordx4` takes 500 to 800 cycles from HBM and 32 per instruction of one wave, `ds_read_b32` 52 and 4, `ds_read_b128`
64 and 16. Scalar loads and taken branches are assumptions: no measurement of them was found.
"""

from __future__ import annotations

from functools import lru_cache

from optimizer.kernels.amdgpu.hazard_rules import matrix_states, needs, traces
from optimizer.kernels.amdgpu.ir import Instruction
from optimizer.kernels.amdgpu.opcodes import Category, opcode
from optimizer.kernels.amdgpu.resources import Resource, read_resources, written_resources

ISSUE = 4
VMEM_LATENCY = 640
VMEM_BUSY_PER_REGISTER = 8
LDS_LATENCY = 48
LDS_PER_REGISTER = 4
SMEM_LATENCY = 200
BRANCH = 16
"""A branch that is taken: the wave's instruction buffer is filled anew."""


def unit(instruction: Instruction) -> str | None:
    """What an instruction shares with others beyond the issue: the matrix core, or a path to memory."""
    category = opcode(instruction.name).category
    return category.value if category in (Category.MFMA, Category.VMEM, Category.LDS) else None


@lru_cache(maxsize=1 << 14)
def busy(instruction: Instruction) -> int:
    """Cycles for which it occupies its unit."""
    known = opcode(instruction.name)
    if known.category is Category.MFMA:
        return 4 * known.passes
    if known.category is Category.VMEM:
        return max(ISSUE, VMEM_BUSY_PER_REGISTER * _data_registers(instruction))
    return max(ISSUE, LDS_PER_REGISTER * _data_registers(instruction)) if known.category is Category.LDS else ISSUE


@lru_cache(maxsize=1 << 14)
def latency(instruction: Instruction) -> int:
    """Cycles until a memory operation is complete; those of an issue for everything else."""
    known = opcode(instruction.name)
    if known.category is Category.VMEM:
        return VMEM_LATENCY
    if known.category is Category.LDS:
        return LDS_LATENCY + LDS_PER_REGISTER * _data_registers(instruction)
    return SMEM_LATENCY if known.category is Category.SMEM else ISSUE


def _data_registers(instruction: Instruction) -> int:
    """Registers that are loaded or stored, one at least."""
    known = opcode(instruction.name)
    stored = [use.width for use in known.uses if use.kind == "d"] if known.stores else []
    return max([1, *stored, *(definition.width for definition in known.defs)])


@lru_cache(maxsize=1 << 16)
def delay(before: Instruction, after: Instruction) -> int:
    """Cycles from the issue of one instruction to that of a later one that depends on it."""
    states = 0
    left = traces(before)
    due: dict[tuple[str, Resource], int] = {}
    for need in needs(after):
        due[need.kind, need.resource] = max(need.states, due.get((need.kind, need.resource), 0))
    for trace in left:
        if trace.kind in ("mfma", "addend"):
            states = max(states, matrix_states(trace, after))
        else:
            states = max(states, due.get((trace.kind, trace.resource), -1))
    return max(ISSUE * (states + 1), _arrival(before, after))


def _arrival(before: Instruction, after: Instruction) -> int:
    """Cycles until what a memory operation loads is there, if the other instruction touches it."""
    known = opcode(before.name)
    loaded = written_resources(before) if known.counter is not None else ()
    if not loaded:
        return 0
    touched = set(read_resources(after))
    if known.category is not Category.VMEM or opcode(after.name).category is not Category.VMEM:
        touched.update(written_resources(after))
    return 0 if touched.isdisjoint(loaded) else latency(before)
