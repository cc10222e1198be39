"""Spilling, only where it was asked for: a unit of registers lives elsewhere and comes back for each instruction.

VGPRs go to accumulation VGPRs while there are any (one move each way), then to scratch memory; SGPRs to the lanes of
VGPRs. Wherever more registers are live than there are, what is touched least, by loop depth, for the time it takes its
registers gives way (Chaitin, "Register Allocation and Spilling via Graph Coloring", 1982: cost by degree), in the order
of the text, so that one change makes room everywhere. Stores follow every definition, loads precede every use: under
a partial exec mask both touch the lanes that the instruction touches.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from optimizer.kernels.amdgpu.errors import AllocationError
from optimizer.kernels.amdgpu.exec_mask import full_exec
from optimizer.kernels.amdgpu.instruction_edits import Change, Edit, copy_of, with_names
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.opcodes import opcode
from optimizer.kernels.amdgpu.operands import OFF, Immediate, MemOffset, Register, VirtualReg, WaitCount
from optimizer.kernels.amdgpu.registers.class_failure import ClassFailure
from optimizer.kernels.amdgpu.registers.liveness import Liveness
from optimizer.process.work_limit import spend
from optimizer.regalloc.intervals import LiveInterval

SCRATCH_LIMIT = 4096
"""Bytes that the offset field reaches."""
LANES = 64
"""Registers that the lanes of a VGPR keep."""
_PER_LOOP = 10
"""How often a loop is assumed to run."""


@dataclass(frozen=True, order=True)
class _Candidate:
    """A unit that may be spilled; cheap ones come first."""

    cost: float
    members: tuple[VirtualReg, ...]


def spill(failed: ClassFailure, temporaries: Collection[VirtualReg]) -> Change | None:
    """The program with what is in the way spilled: units at all points where too many registers are live, or the
    cheapest that overlaps what found no place; None if nothing can be.

    `temporaries` are registers that earlier changes put between memory and an instruction: spilling them wins nothing.
    """
    if failed.file == "a":
        return None
    candidates = _candidates(failed, temporaries)
    chosen = _too_many(failed, candidates)
    if not chosen:
        blocked = (failed.failure.interval.id, *(o.id for o in failed.failure.overlapping))
        found = [candidates[number] for number in blocked if number in candidates]
        chosen = [min(found)] if found else []
    return spilled(failed.liveness, [failed.units.places(c.members) for c in chosen]) if chosen else None


def _candidates(failed: ClassFailure, temporaries: Collection[VirtualReg]) -> dict[int, _Candidate]:
    """What may be spilled, by the number of its unit."""
    liveness = failed.liveness
    full = full_exec(liveness.program, liveness.cfg)
    spend(len(liveness.program.body))
    found = {}
    for interval in failed.units.intervals():
        (members,) = failed.units.members((interval.id,)) or ((),)
        if not set(members) <= set(temporaries) and spillable(liveness, members, full):
            cost = _executed(liveness, members) / _length(liveness, members)
            found[interval.id] = _Candidate(cost, members)
    return found


def _too_many(failed: ClassFailure, candidates: Mapping[int, _Candidate]) -> list[_Candidate]:
    """The cheapest units at every point where more registers are live than there are, until no more are."""
    intervals = failed.units.intervals()
    room = failed.failure.capacity - len([r for r in failed.reserved if r < failed.failure.capacity])
    gone = {i.id for i in intervals if i.fixed is not None and i.fixed in failed.reserved}
    parts: dict[int, int] = {}
    """Unit -> its registers that are live."""
    cheapest: list[tuple[_Candidate, int]] = []
    chosen = []
    live = 0
    for changes in _events(intervals):
        for number, change in changes:
            if number in gone:
                continue
            live += change
            parts[number] = parts.get(number, 0) + change
            if change > 0 and number in candidates:
                heapq.heappush(cheapest, (candidates[number], number))
        while live > room and cheapest:
            candidate, number = heapq.heappop(cheapest)
            if number not in gone and parts[number]:
                gone.add(number)
                live -= parts[number]
                chosen.append(candidate)
    return chosen


def _events(intervals: Sequence[LiveInterval]) -> list[list[tuple[int, int]]]:
    """What changes at each point, in order: (unit, a register more that is live, or less)."""
    found: dict[int, list[tuple[int, int]]] = {}
    for interval in intervals:
        for part in interval.parts:
            for start, end in part:
                found.setdefault(start, []).append((interval.id, 1))
                found.setdefault(end, []).append((interval.id, -1))
    return [found[point] for point in sorted(found)]


def _touching(program: Program, register: VirtualReg) -> list[int]:
    """Places of the instructions that read or write it; twice where one does both."""
    return [*program.users.get(register, ()), *program.definers.get(register, ())]


def spillable(liveness: Liveness, members: Sequence[VirtualReg], full: Sequence[bool]) -> bool:
    """Not prescribed, ever live, and touched under full masks where an instruction ignores exec."""
    program = liveness.program
    if {r for r, _ in program.precolored} & set(members):
        return False
    if not any(liveness.segments.get(r) for r in members):
        return False
    if members[0].file == "s":
        return True
    return all(full[p] or _is_vector(program, p) for r in members for p in _touching(program, r))


def _is_vector(program: Program, place: int) -> bool:
    item = program.body[place]
    return isinstance(item, Instruction) and opcode(item.name).is_vector


def _length(liveness: Liveness, members: Sequence[VirtualReg]) -> int:
    return sum(end - start for r in members for start, end in liveness.segments.get(r, ()))


def _executed(liveness: Liveness, members: Sequence[VirtualReg]) -> int:
    """Registers stored and loaded, each loop level counted tenfold."""
    depth, block_of = liveness.cfg.depth, liveness.cfg.block_of
    return sum(_PER_LOOP ** depth[block_of[p]] for r in members for p in _touching(liveness.program, r))


def spilled(liveness: Liveness, units: Sequence[Mapping[VirtualReg, int]]) -> Change:
    """The program with units kept elsewhere, and the warnings that say what that costs.

    Each unit: register -> place in the unit. Registers on one place are never live at once and share their home.
    """
    program = liveness.program
    edit = Edit(program)
    homes = _Homes(program, edit)
    redefined: set[VirtualReg] = set()
    temporaries: set[VirtualReg] = set()
    waiting: set[int] = set()
    warnings = []
    for places in units:
        home = homes.of(min(places).file, max(places.values()) + 1)
        loads = stores = 0
        for at in sorted({p for r in places for p in _touching(program, r)}):
            item = program.body[at]
            assert isinstance(item, Instruction)
            used = sorted({places[r] for r in item.used if isinstance(r, VirtualReg) and r in places})
            written = sorted({places[r] for r in item.defined if isinstance(r, VirtualReg) and r in places})
            block = edit.fresh(min(places).file, home.size)
            names: dict[VirtualReg, Register] = {r: block[place] for r, place in places.items()}
            edit.before.setdefault(at, []).extend(home.load(place, block[place]) for place in used)
            edit.after.setdefault(at, []).extend(home.store(place, block[place]) for place in written)
            waiting |= {at} if used and home.needs_wait else set()
            redefined |= {block[place] for place in used if place in written}
            temporaries.update(block)
            edit.instead[at] = with_names(edit.instead.get(at) or item, names, names)
            loads, stores = loads + len(used), stores + len(written)
        name = str(min(places)) if home.size == 1 else f"{min(places)}..+{home.size}"
        warnings.append(
            f"{name} is spilled to {home.where}: {stores} stores and {loads} loads in the text, about "
            f"{_executed(liveness, tuple(places))} executed if every loop runs {_PER_LOOP} times"
        )
    for at in waiting:
        edit.before[at].append(Instruction("s_waitcnt", (), (WaitCount("vmcnt", 0),)))
    homes.prepare()
    changed = replace(
        edit.done(),
        redefinable=program.redefinable | redefined | homes.kept,
        launch=replace(program.launch, scratch_bytes=homes.scratch_bytes),
    )
    return Change(changed, tuple(warnings), frozenset(temporaries | homes.kept))


class _Homes:
    """What there is to keep registers in."""

    def __init__(self, program: Program, edit: Edit) -> None:
        self._edit = edit
        self._name = program.name
        self._agprs = program.max_agprs - sum(r.file == "a" for r in program.virtual_registers)
        self._lanes: VirtualReg | None = None
        self._lane = 0
        self.scratch_bytes = program.launch.scratch_bytes
        self.kept: set[VirtualReg] = set()
        """Registers that hold spilled ones."""

    def of(self, file: str, size: int) -> _Home:
        """Room for so many registers."""
        if file == "s":
            if self._lanes is None or self._lane + size > LANES:
                (self._lanes,), self._lane = self._edit.fresh("v"), 0
                self.kept.add(self._lanes)
            self._lane += size
            return _Home(size, lanes=self._lanes, first=self._lane - size)
        if size <= self._agprs:
            self._agprs -= size
            kept = self._edit.fresh("a", size)
            self.kept.update(kept)
            return _Home(size, agprs=kept)
        self.scratch_bytes += 4 * size
        if self.scratch_bytes > SCRATCH_LIMIT:
            message = f"spills need {self.scratch_bytes} bytes of scratch per lane; the offset field reaches less"
            raise AllocationError(
                message, node=self._name, limit=SCRATCH_LIMIT, alternatives=("fewer values live at once",)
            )
        return _Home(size, first=self.scratch_bytes - 4 * size)

    def prepare(self) -> None:
        """VGPRs for lanes are written lane by lane: they begin as zero."""
        starts = [Instruction("v_mov_b32", (r,), (Immediate(0),)) for r in sorted(self.kept) if r.file == "v"]
        self._edit.before[0] = [*starts, *self._edit.before.get(0, ())]


@dataclass(frozen=True)
class _Home:
    """Where the registers of a unit are kept, by their places: in lanes of a VGPR, in AGPRs, or in scratch memory."""

    size: int
    lanes: VirtualReg | None = None
    agprs: tuple[VirtualReg, ...] = ()
    first: int = 0
    """Lane, or byte."""

    @property
    def where(self) -> str:
        return "lanes of a VGPR" if self.lanes else "AGPRs" if self.agprs else "scratch memory"

    @property
    def needs_wait(self) -> bool:
        return not self.lanes and not self.agprs

    def load(self, place: int, into: VirtualReg) -> Instruction:
        if self.lanes:
            return Instruction("v_readlane_b32", (into,), (self.lanes, Immediate(self.first + place)))
        if self.agprs:
            return copy_of(self.agprs[place], into)
        return Instruction("scratch_load_dword", (into,), (OFF, OFF, MemOffset(self.first + 4 * place)))

    def store(self, place: int, source: VirtualReg) -> Instruction:
        if self.lanes:
            lane = Immediate(self.first + place)
            return Instruction("v_writelane_b32", (self.lanes,), (source, lane, self.lanes))
        if self.agprs:
            return copy_of(source, self.agprs[place])
        return Instruction("scratch_store_dword", (), (OFF, source, OFF, MemOffset(self.first + 4 * place)))
