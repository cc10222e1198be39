"""An exact check of an allocation, from scratch: what is live after every single instruction, in which register.

It shares nothing with `liveness` and `allocation_units` but what a partial exec mask means: live sets per instruction
by a worklist over successors; no blocks, no intervals, no numbering. After every instruction, two registers whose
values are both needed later must not be in the same place, and what an instruction writes must not lie on a value
needed later. What an instruction updates is in the register that it writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from optimizer.errors import VerificationError
from optimizer.kernels.amdgpu.cfg import build_cfg
from optimizer.kernels.amdgpu.exec_mask import partial_updates
from optimizer.kernels.amdgpu.ir import Instruction, Label, Program
from optimizer.kernels.amdgpu.opcodes import OPCODES
from optimizer.kernels.amdgpu.operands import Operand, PhysicalReg, Register, RegRange, VirtualReg, registers
from optimizer.process.work_limit import spend


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing wrong, at an item of the body."""

    place: int
    message: str

    def __str__(self) -> str:
        return f"item {self.place}: {self.message}"


def check_allocation(program: Program, mapping: Mapping[VirtualReg, int]) -> None:
    """VerificationError with the first violation and how many there are."""
    found = violations(program, mapping)
    if found:
        raise VerificationError(f"allocation is wrong in {len(found)} places, first: {found[0]}")


def violations(program: Program, mapping: Mapping[VirtualReg, int]) -> list[Violation]:
    """Everything wrong with a mapping; empty if it is right."""
    found = _ranges(program, mapping) + _pool(program, mapping)
    if found:
        return found
    homes = _homes(program, mapping)
    names = [*homes, *sorted(set(homes.values()) - homes.keys())]
    held = _Held(names, homes)
    for place, (item, live) in enumerate(zip(program.body, _live_after(program, names, homes), strict=True)):
        held.become(live)
        if isinstance(item, Instruction):
            found += _writes(place, item, held, homes)
            found += _updates(place, item, homes)
            if OPCODES[item.name].early_clobber:
                found += _early(place, item, homes)
        found += held.shared(place)
    return found


Homes = Mapping[Register, Register]
"""Where a register is; a prescribed one that nothing defines is the physical register that holds it at entry."""


def _homes(program: Program, mapping: Mapping[VirtualReg, int]) -> Homes:
    used = {r for _, i in program.instructions for r in (*i.defined, *i.used)}
    return {r: PhysicalReg(r.file, mapping[r]) if isinstance(r, VirtualReg) else r for r in used}


def _ranges(program: Program, mapping: Mapping[VirtualReg, int]) -> list[Violation]:
    """Everything mapped, ranges contiguous and aligned."""
    found = []
    for place, item in enumerate(program.body):
        if isinstance(item, Label):
            continue
        for operand in (*item.defs, *item.uses):
            base = operand.base if isinstance(operand, RegRange) else operand
            if not isinstance(base, VirtualReg):
                continue
            count, alignment = (operand.count, operand.alignment) if isinstance(operand, RegRange) else (1, 1)
            numbers = [mapping.get(VirtualReg(base.file, base.number + i)) for i in range(count)]
            if None in numbers:
                found.append(Violation(place, f"{operand} is not mapped"))
            elif any(n != numbers[0] + i for i, n in enumerate(numbers)):  # type: ignore[operator]
                found.append(Violation(place, f"{operand} is not contiguous: {numbers}"))
            elif numbers[0] % alignment:  # type: ignore[operator]
                found.append(Violation(place, f"{operand} begins at {numbers[0]}"))
    return found


def _pool(program: Program, mapping: Mapping[VirtualReg, int]) -> list[Violation]:
    """Within the register file, reserved registers untouched, prescribed ones as prescribed."""
    prescribed = dict(program.precolored)
    found = []
    for register, number in mapping.items():
        limit = program.capacity(register.file)
        if not 0 <= number < limit:
            found.append(Violation(-1, f"{register} is in {register.file}{number}, of {limit}"))
        if register in prescribed and number != prescribed[register]:
            found.append(Violation(-1, f"{register} is in {number}, not in {prescribed[register]}"))
        if register not in prescribed and number in program.reserved(register.file):
            found.append(Violation(-1, f"{register} is in {register.file}{number}, which is reserved"))
    return found


def _successors(program: Program) -> list[list[int]]:
    labels = {item.name: n for n, item in enumerate(program.body) if isinstance(item, Label)}
    found = []
    for place, item in enumerate(program.body):
        after = [place + 1] if place + 1 < len(program.body) else []
        if isinstance(item, Instruction):
            if item.name in ("s_endpgm", "s_branch"):
                after = []
            if OPCODES[item.name].is_branch and item.target is not None:
                after.append(labels[item.target])
        found.append(after)
    return found


def _live_after(program: Program, names: Sequence[Register], homes: Homes) -> Iterator[int]:
    """Registers whose value is needed after each item; bit `n` is register `n` of `names`."""
    at_entry = {r for r, _ in program.precolored} - {r for _, i in program.instructions for r in i.defined}
    kept = partial_updates(program, build_cfg(program))
    predecessors: list[list[int]] = [[] for _ in program.body]
    successors = _successors(program)
    for place, following in enumerate(successors):
        for s in following:
            predecessors[s].append(place)
    bit = {r: 1 << n for n, r in enumerate(names)}

    def named(registers: Iterable[Register]) -> int:
        found = 0
        for r in registers:
            found |= bit[homes[r] if r in at_entry else r]
        return found

    def after(place: int) -> int:
        found = 0
        for s in successors[place]:
            found |= before[s]
        return found

    before = [0] * len(program.body)
    pending = list(range(len(program.body)))
    while pending:
        spend(1)
        place = pending.pop()
        new = after(place)
        item = program.body[place]
        if isinstance(item, Instruction):
            new = new & ~(named(item.defined) & ~named(kept.get(place, ()))) | named(item.used)
        if new != before[place]:
            before[place] = new
            pending += predecessors[place]
    return map(after, range(len(program.body)))


class _Held:
    """What is needed behind one item after the other, by where it is."""

    def __init__(self, names: Sequence[Register], homes: Homes) -> None:
        self._names, self._homes = names, homes
        self._live = 0
        self._at: dict[Register, set[Register]] = {}
        self._crowded: set[Register] = set()

    def become(self, live: int) -> None:
        """Bit sets of neighbours differ in little."""
        changed = live ^ self._live
        while changed:
            low = changed & -changed
            changed ^= low
            register = self._names[low.bit_length() - 1]
            home = self._homes.get(register, register)
            there = self._at.setdefault(home, set())
            (there.add if live & low else there.discard)(register)
            (self._crowded.add if len(there) > 1 else self._crowded.discard)(home)
        self._live = live

    def at(self, home: Register) -> Set[Register]:
        return self._at.get(home, set())

    def shared(self, place: int) -> list[Violation]:
        """No two values that are needed later are in one place."""
        found = []
        for home in sorted(self._crowded):
            first, *others = sorted(self._at[home], key=str)
            found += [Violation(place, f"{first} and {other} are live in {home}") for other in others]
        return found


def _writes(place: int, item: Instruction, held: _Held, homes: Homes) -> list[Violation]:
    """What is written, even if nothing reads it, lies on nothing that is needed later."""
    found = []
    written = [homes[r] for r in dict.fromkeys(item.defined)]
    for home in written:
        if held.at(home) - set(item.defined):
            found.append(Violation(place, f"{item.name} writes {home}, which holds a value needed later"))
    if len(set(written)) != len(written):
        found.append(Violation(place, f"{item.name} writes two results into one register"))
    return found


def _updates(place: int, item: Instruction, homes: Homes) -> list[Violation]:
    """A tied operand, which the encoding does not name, is in the registers of its result."""
    found = []
    for use, definition in OPCODES[item.name].tied:
        if use < len(item.uses) and definition < len(item.defs):
            read, written = _places(item.uses[use], homes), _places(item.defs[definition], homes)
            if read != written:
                names = ", ".join(map(str, written)), ", ".join(map(str, read))
                found.append(Violation(place, f"{item.name} updates {names[0]}, but its operand is in {names[1]}"))
    return found


def _places(operand: Operand, homes: Homes) -> list[Operand]:
    """The registers of an operand; what is none, as itself."""
    return [homes[r] for r in registers(operand)] or [operand]


def _early(place: int, item: Instruction, homes: Homes) -> list[Violation]:
    """Results that are written before operands are read: in exactly the registers of an operand, or in none of them."""
    found = []
    for definition in item.defs:
        mine = [homes[r] for r in registers(definition)]
        for use in item.uses:
            theirs = [homes[r] for r in registers(use)]
            if mine != theirs and set(mine) & set(theirs):
                found.append(Violation(place, f"{item.name}: {definition} overlaps {use}"))
    return found
