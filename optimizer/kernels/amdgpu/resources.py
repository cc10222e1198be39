"""What an instruction reads and writes, implicit operands and special registers included."""

from __future__ import annotations

from functools import lru_cache

from optimizer.kernels.amdgpu.ir import Instruction
from optimizer.kernels.amdgpu.modifiers import keeps_lanes
from optimizer.kernels.amdgpu.opcodes import opcode
from optimizer.kernels.amdgpu.operands import Operand, Register, Special, registers

Resource = Register | str
"""A single register, or a part of a special one: vcc_lo, vcc_hi, exec_lo, exec_hi, m0, scc."""

_PARTS = {"vcc": ("vcc_lo", "vcc_hi"), "exec": ("exec_lo", "exec_hi"), "off": ()}
EXEC_PARTS = frozenset(_PARTS["exec"])


def resources(operand: Operand) -> tuple[Resource, ...]:
    """The single registers an operand stands for, special ones in parts."""
    if isinstance(operand, Special):
        return _PARTS.get(operand.name, (operand.name,))
    return registers(operand)


@lru_cache(maxsize=1 << 16)
def read_resources(instruction: Instruction) -> tuple[Resource, ...]:
    """Everything read, what is kept in lanes that are not written included; that vector instructions read exec is
    understood."""
    found = [r for operand in instruction.uses for r in resources(operand)]
    for name in sorted(opcode(instruction.name).reads):
        found += _PARTS.get(name, (name,))
    if instruction.modifiers and keeps_lanes(instruction):
        found += instruction.defined
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=1 << 16)
def written_resources(instruction: Instruction) -> tuple[Resource, ...]:
    """Everything written."""
    found = [r for operand in instruction.defs for r in resources(operand)]
    for name in sorted(opcode(instruction.name).writes):
        found += _PARTS.get(name, (name,))
    return tuple(dict.fromkeys(found))


def is_scalar(resource: Resource) -> bool:
    """Whether it is an SGPR or a special register, not a vector register."""
    return isinstance(resource, str) or resource.file == "s"


def writes_exec(instruction: Instruction) -> bool:
    """Whether it changes the exec mask."""
    return not EXEC_PARTS.isdisjoint(written_resources(instruction))
