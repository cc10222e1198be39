"""Changing instructions: other registers in operands, new instructions around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from optimizer.kernels.amdgpu.ir import Instruction, Item, Program
from optimizer.kernels.amdgpu.operands import Operand, PhysicalReg, Register, RegRange, VirtualReg


@dataclass(frozen=True)
class Placed:
    """Where all registers of a class are."""

    file: str
    mapping: Mapping[VirtualReg, int]


@dataclass(frozen=True)
class Change:
    """A program after a rewriting, and what the user should know of it."""

    program: Program
    warnings: tuple[str, ...] = ()
    temporaries: frozenset[VirtualReg] = frozenset()
    """New registers that must not be spilled (again)."""
    placed: Placed | None = None
    """Registers that are allocated already."""
    moves: int = 0
    """Moves inserted only to make room."""


def renamed(operand: Operand, names: Mapping[VirtualReg, Register]) -> Operand:
    """The operand with other registers; a range is renamed by its first one, the others follow."""
    if isinstance(operand, VirtualReg):
        return names.get(operand, operand)
    if isinstance(operand, RegRange) and isinstance(operand.base, VirtualReg):
        base = names.get(operand.base, operand.base)
        alignment = 1 if isinstance(base, PhysicalReg) else operand.alignment
        return replace(operand, base=base, alignment=alignment)
    return operand


def with_names(
    instruction: Instruction, uses: Mapping[VirtualReg, Register], defs: Mapping[VirtualReg, Register] | None = None
) -> Instruction:
    """The instruction with other registers among its uses, and its definitions if those are given, too."""
    return instruction.with_operands(
        tuple(renamed(o, defs or {}) for o in instruction.defs), tuple(renamed(o, uses) for o in instruction.uses)
    )


@dataclass
class Edit:
    """Instructions to put before and after the items of a program, items to replace or drop."""

    program: Program

    def __post_init__(self) -> None:
        self.before: dict[int, list[Item]] = {}
        self.after: dict[int, list[Item]] = {}
        self.instead: dict[int, Instruction | None] = {}
        self._next = {file: self.program.next_number(file) for file in "vsa"}

    def fresh(self, file: str, count: int = 1) -> tuple[VirtualReg, ...]:
        """New virtual registers under consecutive numbers."""
        first = self._next[file]
        self._next[file] += count
        return tuple(VirtualReg(file, first + i) for i in range(count))

    def done(self) -> Program:
        """The changed program."""
        body: list[Item] = []
        for place, item in enumerate(self.program.body):
            body += self.before.get(place, ())
            kept = self.instead.get(place, item)
            if kept is not None:
                body.append(kept)
            body += self.after.get(place, ())
        return self.program.with_body(tuple(body))
