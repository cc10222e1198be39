"""Changing instructions: other registers in operands, new instructions around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from optimizer.kernels.amdgpu.errors import OperandError
from optimizer.kernels.amdgpu.ir import Instruction, Item, Program
from optimizer.kernels.amdgpu.operands import FILES, Operand, PhysicalReg, Register, RegRange, VirtualReg, registers

COPIES: Mapping[tuple[str, str], str] = {
    ("v", "v"): "v_mov_b32", ("a", "a"): "v_accvgpr_mov_b32", ("s", "s"): "s_mov_b32",
    ("v", "a"): "v_accvgpr_read_b32", ("a", "v"): "v_accvgpr_write_b32",
}  # fmt: skip
"""(file of the target, file of the source) -> the instruction that copies one register."""
MOVES = frozenset(("v_mov_b32", "s_mov_b32", "v_mov_b64", "s_mov_b64", "v_accvgpr_mov_b32"))
"""Those that copy within a file."""


def copy_of(source: Register, target: Register) -> Instruction:
    """What copies a register to another one, where anything does."""
    return Instruction(COPIES[target.file, source.file], (target,), (source,))


@dataclass(frozen=True)
class Change:
    """A program after a rewriting, and what the user should know of it."""

    program: Program
    warnings: tuple[str, ...] = ()
    temporaries: frozenset[VirtualReg] = frozenset()
    """New registers that must not be spilled (again)."""
    placed: Mapping[str, Mapping[VirtualReg, int]] = field(default_factory=dict)
    """Classes whose registers are allocated already, and where they are: nothing is left to change."""
    moves: int = 0
    """Moves inserted only to make room."""


def renamed(operand: Operand, names: Mapping[VirtualReg, Register]) -> Operand:
    """The operand with other registers; a range is renamed by its first one, the others follow."""
    if isinstance(operand, VirtualReg):
        return names.get(operand, operand)
    if isinstance(operand, RegRange) and isinstance(operand.base, VirtualReg):
        return replace(operand, base=names.get(operand.base, operand.base))
    return operand


def with_names(
    instruction: Instruction, uses: Mapping[VirtualReg, Register], defs: Mapping[VirtualReg, Register] | None = None
) -> Instruction:
    """The instruction with other registers among its uses, and its definitions if those are given, too."""
    return instruction.with_operands(
        tuple(renamed(o, defs or {}) for o in instruction.defs), tuple(renamed(o, uses) for o in instruction.uses)
    )


def substitute_registers(program: Program, mapping: Mapping[VirtualReg, int]) -> Program:
    """Physical registers for virtual ones; moves of a register to itself, which coalescing leaves, go.

    `mapping`: of every virtual register; a range may be given by its first register alone. OperandError where a virtual
    register has no physical one, or a range would be torn apart.
    """
    names = {r: PhysicalReg(r.file, n) for r, n in mapping.items()}
    for _, instruction in program.instructions:
        for operand in (*instruction.defs, *instruction.uses):
            first, *others = registers(operand) or (None,)
            if others and isinstance(first, VirtualReg) and first in names:
                for n, register in enumerate(_virtual(others), names[first].number + 1):
                    names.setdefault(register, PhysicalReg(register.file, n))
    body: list[Item] = []
    for place, item in enumerate(program.body):
        if isinstance(item, Instruction):
            _check_places(item, names, program.where(place))
            changed = with_names(item, names, names)
            if not (changed.name in MOVES and changed.defs[0] == changed.uses[0] and not changed.modifiers):
                body.append(changed)
        else:
            body.append(item)
    return replace(program, body=tuple(body), precolored=(), redefinable=frozenset())


def _check_places(item: Instruction, names: Mapping[VirtualReg, PhysicalReg], where: str) -> None:
    for operand in (*item.defs, *item.uses):
        numbers: list[int] = []
        for register in _virtual(registers(operand)):
            if register not in names:
                raise OperandError(f"{register} has no physical register", node=where)
            numbers.append(names[register].number)
            if numbers[-1] != numbers[0] + len(numbers) - 1:
                raise OperandError(f"the registers of {operand} are not consecutive", node=where)


def _virtual(found: Iterable[Register]) -> Iterator[VirtualReg]:
    return (r for r in found if isinstance(r, VirtualReg))


@dataclass
class Edit:
    """Instructions to put before and after the items of a program, items to replace or drop."""

    program: Program

    def __post_init__(self) -> None:
        self.before: dict[int, list[Item]] = {}
        self.after: dict[int, list[Item]] = {}
        self.instead: dict[int, Instruction | None] = {}
        self._next = {file: self.program.next_number(file) for file in FILES}

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
