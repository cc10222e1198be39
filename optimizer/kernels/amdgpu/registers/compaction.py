"""Values move to other registers at a few places, so that ranges of registers find room: no memory is involved.

`split_allocation` says which registers hold what in which part of the program; here the moves between them are
written. A register has one name per place of its range, so that values that come back, as in a loop, have one name
there.
"""

from __future__ import annotations

from dataclasses import replace

from optimizer.kernels.amdgpu.instruction_edits import Change, Edit, Placed, with_names
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.operands import VirtualReg
from optimizer.kernels.amdgpu.registers.allocation_units import Units
from optimizer.kernels.amdgpu.registers.class_failure import ClassFailure
from optimizer.kernels.amdgpu.registers.definitions import MOVES
from optimizer.kernels.amdgpu.registers.liveness import Liveness, live_in_aliases
from optimizer.kernels.amdgpu.registers.split_allocation import Homes, Stretch, Stretches
from optimizer.process.work_limit import spend
from optimizer.regalloc.parallel_copy import sequential


def compact(failed: ClassFailure) -> Change | None:
    """The program with moves such that the class fits; None if no such moves are found."""
    capacity = failed.failure.capacity
    stretches = Stretches(failed.liveness, failed.file, capacity, failed.reserved).found()
    if stretches is None:
        return None
    return _Writer(failed.liveness, failed.file, stretches).written(capacity, failed.reserved)


class _Writer:
    def __init__(self, liveness: Liveness, file: str, stretches: list[Stretch]) -> None:
        self._liveness = liveness
        self._file = file
        self._edit = Edit(liveness.program)
        self._homes: list[Homes] = [{}] * len(liveness.rank)
        """Per item of the body."""
        for stretch in stretches:
            for first, last in stretch.spans:
                for number in range(first, last):
                    self._homes[liveness.item_at[number]] = stretch.homes
        self._first: dict[VirtualReg, VirtualReg] = {}
        """The first register of what ranges tie together."""
        self._length: dict[VirtualReg, int] = {}
        for members in Units(liveness, file).members():
            self._first |= dict.fromkeys(members, members[0])
            self._length[members[0]] = members[-1].number - members[0].number + 1
        self._names: dict[tuple[VirtualReg, int], VirtualReg] = {}
        """(first register, distance of homes from numbers) -> name of the first register there."""
        self._fixed = live_in_aliases(liveness.program)
        for register, number in liveness.program.precolored:
            if register in self._first:
                self._names[self._first[register], number - register.number] = self._first[register]
        self._original = {first for first, _ in self._names}
        self._mapping: dict[VirtualReg, int] = {}
        self._moves = 0

    def written(self, capacity: int, reserved: frozenset[int]) -> Change | None:
        for block in self._liveness.cfg.blocks:
            for place in block.items:
                if place > block.start and self._homes[place] is not self._homes[place - 1]:
                    moves = self._between(place, capacity, reserved)
                    if moves is None:
                        return None
                    self._edit.before[place] = [*moves]
                self._rename(place)
        program = self._edit.done()
        placed = Placed(self._file, self._mapping)
        return Change(_redefinable(program, self._file), placed=placed, moves=self._moves)

    def _name(self, register: VirtualReg, home: int) -> VirtualReg:
        """What a register is called where it is in that place."""
        first = self._first[register]
        key = first, home - register.number
        if key not in self._names:
            if first not in self._original:
                self._original.add(first)
                self._names[key] = first
            else:
                self._names[key] = self._edit.fresh(self._file, self._length[first])[0]
        name = VirtualReg(self._file, self._names[key].number + register.number - first.number)
        self._mapping[name] = home
        return name

    def _rename(self, place: int) -> None:
        item, homes = self._liveness.program.body[place], self._homes[place]
        if isinstance(item, Instruction):
            touched = {r for r in (*item.used, *item.defined) if isinstance(r, VirtualReg) and r in homes}
            names = {r: self._name(r, homes[r]) for r in sorted(touched)}
            self._edit.instead[place] = with_names(item, names, names)

    def _between(self, place: int, capacity: int, reserved: frozenset[int]) -> list[Instruction] | None:
        """Moves before an item, from where everything was to where it is from there on; None without a spare one."""
        spend(len(self._liveness.segments) // 4)
        old, new = self._homes[place - 1], self._homes[place]
        point = 2 * self._liveness.rank[place]
        names: dict[int, VirtualReg] = {}
        targets: dict[int, VirtualReg] = {}
        busy = set(reserved)
        sources = {}
        for register, segments in self._liveness.segments.items():
            if register.file != self._file or not any(start < point < end for start, end in segments):
                continue
            if not isinstance(register, VirtualReg) or register in self._fixed:
                busy.add(register.number if not isinstance(register, VirtualReg) else old[register])
                continue
            sources[new[register]] = old[register]
            if old[register] != new[register]:
                names[old[register]] = self._name(register, old[register])
                targets[new[register]] = self._name(register, new[register])
        busy |= {*sources, *sources.values()}
        copies = sequential(sources, [r for r in range(capacity) if r not in busy])
        if copies is None:
            return None
        moves = []
        for target, source in copies:
            if target not in targets:
                (spare,) = self._edit.fresh(self._file)
                self._mapping[spare] = target
            name = targets.get(target) or spare
            moves.append(Instruction(MOVES[self._file], (name,), (names[source],)))
            names[target] = name
        self._moves += len(moves)
        return moves


def _redefinable(program: Program, file: str) -> Program:
    """Values that leave a register and come back define it again."""
    several = {r for r, n in program.definitions.items() if isinstance(r, VirtualReg) and r.file == file and n > 1}
    return replace(program, redefinable=program.redefinable | several)
