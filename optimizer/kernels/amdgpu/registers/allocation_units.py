"""Units of allocation: registers that ranges tie together, and registers that share one place by coalescing.

A unit is a row of places; place `i` of a unit in physical register `r` is register `r + i`. Every range of the program
lies in one unit, at consecutive places, and asks for an alignment. Coalescing lays one unit over another where what
lies on the same place is never live at once: moves vanish, and a matrix accumulator stays where it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import lcm

from optimizer.kernels.amdgpu.errors import OperandError
from optimizer.kernels.amdgpu.instruction_edits import MOVES
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.opcodes import Category, opcode
from optimizer.kernels.amdgpu.operands import PhysicalReg, Register, RegRange, VirtualReg, registers
from optimizer.kernels.amdgpu.registers.liveness import Liveness, live_in_aliases
from optimizer.process.work_limit import spend
from optimizer.regalloc.intervals import LiveInterval, Segment, segments_overlap, union
from optimizer.regalloc.linear_scan import Hint


@dataclass
class _Unit:
    """Registers by place; places may be negative until the unit is finished."""

    members: dict[int, list[VirtualReg]]
    aligned: list[tuple[int, int]] = field(default_factory=list)
    """(place, alignment)"""
    fixed: int | None = None
    """Physical register of place 0."""


class Units:
    """The units of one register class of a program, or of a part of it."""

    def __init__(self, liveness: Liveness, file: str, windows: Sequence[Segment] | None = None) -> None:
        """`windows`: points that count; what lives and what is tied elsewhere is left out."""
        self._liveness = liveness
        self._file = file
        self._live: Mapping[Register, tuple[Segment, ...]] = liveness.segments
        self._early: Mapping[Register, tuple[Segment, ...]] = liveness.early
        self._items = list(liveness.program.instructions)
        if windows is not None:
            self._live = _within(liveness.segments, windows, file)
            self._early = _within(liveness.early, windows, file)
            places = sorted(liveness.item_at[p // 2] for start, end in windows for p in range(start, end, 2))
            body = liveness.program.body
            self._items = [(p, i) for p in places if isinstance(i := body[p], Instruction)]
        self._place: dict[VirtualReg, tuple[int, int]] = {}
        self._units: dict[int, _Unit] = {}
        self._aliases = live_in_aliases(liveness.program)
        program = liveness.program
        living = (
            program.virtual_registers if windows is None else sorted(r for r in self._live if isinstance(r, VirtualReg))
        )
        for register in living:
            if register.file == file:
                self._place[register] = (register.number, 0)
                self._units[register.number] = _Unit({0: [register]})
        operands = (o for _, item in self._items for o in (*item.defs, *item.uses) if isinstance(o, RegRange))
        for operand in dict.fromkeys(operands):
            self._tie(operand)
        self._precolor(program)
        self.coalesced = 0

    def _tie(self, operand: RegRange) -> None:
        if not isinstance(operand.base, VirtualReg) or operand.base.file != self._file:
            return
        for i in range(1, operand.count):
            before, after = operand.component(i - 1), operand.component(i)
            assert isinstance(before, VirtualReg)
            assert isinstance(after, VirtualReg)
            (a, p), (b, q) = self._place[before], self._place[after]
            if a != b:
                self._merge(a, b, p + 1 - q)
        unit, place = self._place[operand.base]
        constraint = (place, operand.alignment)
        spend(1 + len(self._units[unit].aligned) // 4)
        if operand.alignment > 1 and constraint not in self._units[unit].aligned:
            self._units[unit].aligned.append(constraint)
            if _phase(self._units[unit].aligned) is None:
                raise OperandError(f"no register satisfies the alignments of all ranges around {operand}")

    def _precolor(self, program: Program) -> None:
        for register, number in program.precolored:
            if register not in self._place:
                continue
            unit, place = self._place[register]
            fixed = number - place
            known = self._units[unit].fixed
            if known is not None and known != fixed:
                raise OperandError(f"{register} cannot be {self._file}{number}: its range begins at {known}")
            self._units[unit].fixed = fixed

    # -- coalescing -----------------------------------------------------------------------------------------------
    def coalesce(self, moves: bool = True) -> None:
        """Lay accumulators on one another where that is possible, then what moves connect; in deep loops first.

        A large matrix result may lie on its addend or apart from all operands: laying them together saves registers.
        """
        accumulating = [(p, i) for p, i in self._items if opcode(i.name).category is Category.MFMA]
        for instruction in (*self._by_depth(accumulating), *(self._by_depth(self._items) if moves else ())):
            for target, source in move_pairs(instruction):
                if self._join(target, source, tied=opcode(instruction.name).category is Category.MFMA):
                    self.coalesced += 1

    def hints(self) -> dict[int, list[Hint]]:
        """Wishes of what could not be coalesced: unit -> where its place would be that of the other operand."""
        found: dict[int, list[Hint]] = {}
        for instruction in self._by_depth(self._items):
            for target, source in move_pairs(instruction):
                if target in self._place and source in self._place:
                    (a, p), (b, q) = self._place[target], self._place[source]
                    if a != b:
                        first, second = self._lowest(a), self._lowest(b)
                        shift = (q - second) - (p - first)
                        found.setdefault(a, []).append(Hint(b, shift))
                        found.setdefault(b, []).append(Hint(a, -shift))
        return found

    def _by_depth(self, items: Iterable[tuple[int, Instruction]]) -> list[Instruction]:
        cfg = self._liveness.cfg
        numbered = [(-cfg.depth[cfg.block_of[place]], place, item) for place, item in items]
        return [item for _, _, item in sorted(numbered, key=lambda n: n[:2])]

    def _join(self, target: Register, source: Register, tied: bool) -> bool:
        if not (target in self._place and source in self._place):
            return False
        assert isinstance(target, VirtualReg)
        assert isinstance(source, VirtualReg)
        (a, p), (b, q) = self._place[target], self._place[source]
        if a == b or not self._fit(self._units[a], self._units[b], p - q, tied):
            return False
        self._merge(a, b, p - q)
        return True

    def _fit(self, first: _Unit, second: _Unit, shift: int, tied: bool) -> bool:
        """Whether the second unit may be laid over the first, its place `i` on place `i + shift`."""
        if first.fixed is not None and second.fixed is not None and second.fixed - shift != first.fixed:
            return False
        if _phase(first.aligned + [(p + shift, a) for p, a in second.aligned]) is None:
            return False
        fixed = first.fixed if second.fixed is None else second.fixed - shift
        if fixed is not None and not self._fits_fixed(first, second, shift, fixed):
            return False
        for place, members in second.members.items():
            below = first.members.get(place + shift, ())
            spend(1 + len(members) * len(below) // 4)
            for a in members:
                for b in below:
                    if self._overlap(a, b, tied):
                        return False
        return True

    def _fits_fixed(self, first: _Unit, second: _Unit, shift: int, fixed: int) -> bool:
        """Prescribed registers may hold other values: nothing is laid over them that meets one."""
        for unit, offset in ((first, 0), (second, shift)):
            for place, members in unit.members.items():
                segments = self._live.get(PhysicalReg(self._file, fixed + place + offset), ())
                if any(segments_overlap(segments, self._segments(m)) for m in members):
                    return False
        return fixed >= 0

    def _overlap(self, a: VirtualReg, b: VirtualReg, tied: bool) -> bool:
        early = self._early
        mine, theirs = self._segments(a), self._segments(b)
        if segments_overlap(mine, theirs):
            return True
        if tied:
            return False
        return segments_overlap(early.get(a, ()), theirs) or segments_overlap(mine, early.get(b, ()))

    def _segments(self, register: VirtualReg) -> tuple[Segment, ...]:
        return () if register in self._aliases else self._live.get(register, ())

    def _merge(self, a: int, b: int, shift: int) -> None:
        """Lay unit `b` over unit `a`; the larger one keeps its number."""
        if len(self._units[a].members) < len(self._units[b].members):
            a, b, shift = b, a, -shift
        kept, gone = self._units[a], self._units.pop(b)
        for place, members in gone.members.items():
            kept.members.setdefault(place + shift, []).extend(members)
            for register in members:
                self._place[register] = (a, place + shift)
        kept.aligned += [(p + shift, n) for p, n in gone.aligned]
        if gone.fixed is not None:
            kept.fixed = gone.fixed - shift

    # -- intervals --------------------------------------------------------------------------------------------------
    def _lowest(self, unit: int) -> int:
        spend(1 + len(self._units[unit].members) // 64)
        return min(self._units[unit].members)

    def intervals(self) -> list[LiveInterval]:
        """One interval per unit that is ever live, and a fixed one per physical register."""
        found = []
        for number, unit in sorted(self._units.items()):
            interval = self._interval(number, unit)
            if interval is not None:
                found.append(interval)
        number = max(self._units, default=-1)
        physical = ((r.number, s) for r, s in self._live.items() if isinstance(r, PhysicalReg) and s
                    and r.file == self._file)  # fmt: skip
        for register, segments in sorted(physical):
            number += 1
            early = self._early.get(PhysicalReg(self._file, register), ())
            found.append(LiveInterval(number, union((*segments, *early)), fixed=register))
        return found

    def _interval(self, number: int, unit: _Unit) -> LiveInterval | None:
        low = min(unit.members)
        parts = []
        for place in range(low, max(unit.members) + 1):
            segments = [s for r in unit.members[place] for s in self._segments(r)]
            segments += [s for r in unit.members[place] for s in self._early.get(r, ())]
            parts.append(union(segments))
        whole = union(s for part in parts for s in part)
        if not whole:
            return None
        phase = _phase(unit.aligned)
        assert phase is not None
        alignment, first = phase
        fixed = None if unit.fixed is None else unit.fixed + low
        components = () if all(p == whole for p in parts) else tuple(parts)
        return LiveInterval(number, whole, len(parts), alignment, fixed, (first + low) % alignment, components)

    def mapping(self, assigned: Mapping[int, int]) -> dict[VirtualReg, int]:
        """Physical register of every virtual one, from the first register of each unit."""
        found = {}
        for register, (number, place) in self._place.items():
            unit = self._units[number]
            if number in assigned:
                found[register] = assigned[number] + place - min(unit.members)
            elif unit.fixed is not None:
                found[register] = unit.fixed + place
        return found

    def members(self, numbers: Collection[int] | None = None) -> list[tuple[VirtualReg, ...]]:
        """Registers of each unit (of those asked for), ascending."""
        chosen = sorted(self._units) if numbers is None else sorted(n for n in numbers if n in self._units)
        return [tuple(sorted(r for place in self._units[n].members.values() for r in place)) for n in chosen]

    def places(self, registers_: Collection[VirtualReg]) -> dict[VirtualReg, int]:
        """Place of each register in its unit, from 0; coalesced registers have the same one."""
        return {r: self._place[r][1] - self._lowest(self._place[r][0]) for r in registers_}

    def name(self, number: int) -> str:
        """A unit as messages call it: its range, or its registers."""
        if number not in self._units:
            return "a register that the program names"
        members = self._units[number].members
        first = min(members[min(members)])
        return str(first) if len(members) == 1 else f"{first}..+{len(members)}"


def move_pairs(instruction: Instruction) -> Iterable[tuple[Register, Register]]:
    """(target, source) registers that would better be the same."""
    if instruction.name in MOVES and len(instruction.defs) == len(instruction.uses) == 1:
        target, source = registers(instruction.defs[0]), registers(instruction.uses[0])
    elif opcode(instruction.name).category is Category.MFMA and instruction.defs and len(instruction.uses) > 2:
        target, source = registers(instruction.defs[0]), registers(instruction.uses[2])
    else:
        target = source = ()
        for use, definition in opcode(instruction.name).tied:
            if use < len(instruction.uses) and definition < len(instruction.defs):
                target, source = registers(instruction.defs[definition]), registers(instruction.uses[use])
    if len(target) == len(source) and target and target[0].file == source[0].file:
        yield from zip(target, source, strict=True)


def _within(
    live: Mapping[Register, tuple[Segment, ...]], windows: Sequence[Segment], file: str
) -> dict[Register, tuple[Segment, ...]]:
    """Live segments of a class as far as they lie in the windows; what is never live there is left out."""
    found = {}
    first, last = min(a for a, _ in windows), max(b for _, b in windows)
    for register, segments in live.items():
        if register.file == file and segments and segments[0][0] < last and first < segments[-1][1]:
            parts = [(max(s, a), min(e, b)) for s, e in segments for a, b in windows if s < b and a < e]
            if parts:
                found[register] = union(parts)
    return found


def _phase(aligned: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
    """(alignment, phase) of place 0 such that every place is a multiple of its alignment; None if there is none."""
    constraints = list(aligned)
    modulus = lcm(*(a for _, a in constraints)) if constraints else 1
    for phase in range(modulus):
        if all((phase + place) % alignment == 0 for place, alignment in constraints):
            return modulus, phase
    return None
