"""Physical registers for virtual ones; moves of a register to itself, which coalescing leaves, go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from optimizer.kernels.amdgpu.errors import OperandError
from optimizer.kernels.amdgpu.ir import Instruction, Item, Program
from optimizer.kernels.amdgpu.operands import Operand, PhysicalReg, RegRange, VirtualReg
from optimizer.kernels.amdgpu.registers.allocation_units import MOVES


def substitute_registers(program: Program, mapping: Mapping[VirtualReg, int]) -> Program:
    """`mapping`: of every virtual register; a range may be given by its first register alone.

    OperandError where a virtual register has no physical one, or a range would be torn apart.
    """
    complete = _complete(program, mapping)
    body: list[Item] = []
    for place, item in enumerate(program.body):
        if not isinstance(item, Instruction):
            body.append(item)
            continue
        where = program.where(place)
        changed = item.with_operands(
            tuple(_physical(o, complete, where) for o in item.defs),
            tuple(_physical(o, complete, where) for o in item.uses),
        )
        if not (changed.name in MOVES and changed.defs[0] == changed.uses[0] and not changed.modifiers):
            body.append(changed)
    return replace(program, body=tuple(body), precolored=(), redefinable=frozenset())


def _complete(program: Program, mapping: Mapping[VirtualReg, int]) -> dict[VirtualReg, int]:
    found = dict(mapping)
    for _, item in program.instructions:
        for operand in (*item.defs, *item.uses):
            if isinstance(operand, RegRange) and isinstance(operand.base, VirtualReg) and operand.base in found:
                for i in range(operand.count):
                    component = operand.component(i)
                    assert isinstance(component, VirtualReg)
                    found.setdefault(component, found[operand.base] + i)
    return found


def _physical(operand: Operand, mapping: Mapping[VirtualReg, int], where: str) -> Operand:
    if isinstance(operand, VirtualReg):
        return _register(operand, mapping, where)
    if not isinstance(operand, RegRange) or not isinstance(operand.base, VirtualReg):
        return operand
    base = _register(operand.base, mapping, where)
    for i in range(operand.count):
        component = operand.component(i)
        assert isinstance(component, VirtualReg)
        if _register(component, mapping, where).number != base.number + i:
            raise OperandError(f"the registers of {operand} are not consecutive", node=where)
    return RegRange(base, operand.count, operand.alignment)


def _register(register: VirtualReg, mapping: Mapping[VirtualReg, int], where: str) -> PhysicalReg:
    number = mapping.get(register)
    if number is None:
        raise OperandError(f"{register} has no physical register", node=where)
    return PhysicalReg(register.file, number)
