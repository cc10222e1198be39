"""Spilling, only where it was asked for: a unit of registers lives elsewhere and comes back for each instruction.

VGPRs go to accumulation VGPRs while there are any (one move each way), then to scratch memory; SGPRs to the lanes of a
VGPR. Chosen is what is touched least, by loop depth, for the time it takes its registers (Chaitin, "Register Allocation
and Spilling via Graph Coloring", 1982: cost by degree). Stores follow every definition, loads precede every use: under
a partial exec mask both touch the lanes that the instruction touches.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from optimizer.kernels.amdgpu.errors import AllocationError
from optimizer.kernels.amdgpu.exec_mask import full_exec
from optimizer.kernels.amdgpu.instruction_edits import Change, Edit, with_names
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.opcodes import opcode
from optimizer.kernels.amdgpu.operands import OFF, Immediate, MemOffset, Register, VirtualReg, WaitCount
from optimizer.kernels.amdgpu.registers.class_failure import ClassFailure
from optimizer.kernels.amdgpu.registers.liveness import Liveness

SCRATCH_LIMIT = 4096
"""Bytes that the offset field reaches."""
_PER_LOOP = 10
"""How often a loop is assumed to run."""


def spill(failed: ClassFailure, temporaries: Collection[VirtualReg]) -> Change | None:
    """The cheapest unit that is in the way, spilled; None if none can be.

    `temporaries` are registers that earlier spills put between memory and an instruction: spilling them wins nothing.
    """
    if failed.file == "a":
        return None
    blocked = {failed.failure.interval.id, *(o.id for o in failed.failure.overlapping)}
    candidates = []
    touching = _touching(failed.liveness.program)
    full = full_exec(failed.liveness.program, failed.liveness.cfg)
    for members in failed.units.members(blocked):
        if not set(members) & set(temporaries) and spillable(failed.liveness, members, touching, full):
            candidates.append((_cost(failed.liveness, members, touching), members))
    if not candidates:
        return None
    _, members = min(candidates)
    return spilled(failed.liveness, failed.units.places(members))


_Touching = Mapping[Register, Sequence[int]]
"""Register -> places of the instructions that read or write it; twice where one does both."""


def _touching(program: Program) -> _Touching:
    found: dict[Register, list[int]] = {}
    for place, item in program.instructions:
        for register in (*dict.fromkeys(item.used), *dict.fromkeys(item.defined)):
            found.setdefault(register, []).append(place)
    return found


def spillable(liveness: Liveness, members: Sequence[VirtualReg], touching: _Touching, full: Sequence[bool]) -> bool:
    """Not prescribed, ever live, and touched under full masks where an instruction ignores exec."""
    program = liveness.program
    if {r for r, _ in program.precolored} & set(members):
        return False
    if not any(liveness.segments.get(r) for r in members):
        return False
    if members[0].file == "s":
        return True
    return all(full[p] or _is_vector(program, p) for r in members for p in touching.get(r, ()))


def _is_vector(program: Program, place: int) -> bool:
    item = program.body[place]
    return isinstance(item, Instruction) and opcode(item.name).is_vector


def _cost(liveness: Liveness, members: Sequence[VirtualReg], touching: _Touching) -> tuple[float, VirtualReg]:
    length = sum(end - start for r in members for start, end in liveness.segments.get(r, ()))
    return _executed(liveness, members, touching) / length, members[0]


def _executed(liveness: Liveness, members: Sequence[VirtualReg], touching: _Touching) -> int:
    """Registers stored and loaded, each loop level counted tenfold."""
    depth, block_of = liveness.cfg.depth, liveness.cfg.block_of
    return sum(_PER_LOOP ** depth[block_of[place]] for r in members for place in touching.get(r, ()))


def spilled(liveness: Liveness, places: Mapping[VirtualReg, int]) -> Change:
    """The program with a unit kept elsewhere, and the warning that says what that costs.

    `places`: register -> place in the unit. Registers on one place are never live at once and share their home.
    """
    program = liveness.program
    edit = Edit(program)
    size = max(places.values()) + 1
    file = min(places).file
    home = _Home(program, edit, file, size)
    redefined: set[VirtualReg] = set()
    temporaries: set[VirtualReg] = set()
    loads = stores = 0
    for at, item in program.instructions:
        used = sorted({places[r] for r in item.used if isinstance(r, VirtualReg) and r in places})
        written = sorted({places[r] for r in item.defined if isinstance(r, VirtualReg) and r in places})
        if not used and not written:
            continue
        block = edit.fresh(file, size)
        names: dict[VirtualReg, Register] = {r: block[place] for r, place in places.items()}
        for place in used:
            edit.before.setdefault(at, []).append(home.load(place, block[place]))
        if used and home.needs_wait:
            edit.before[at].append(Instruction("s_waitcnt", (), (WaitCount("vmcnt", 0),)))
        edit.after[at] = [home.store(place, block[place]) for place in written]
        redefined |= {block[place] for place in used if place in written}
        temporaries.update(block)
        edit.instead[at] = with_names(item, names, names)
        loads, stores = loads + len(used), stores + len(written)
    home.prepare()
    changed = replace(
        edit.done(),
        redefinable=program.redefinable | redefined | home.redefinable,
        launch=replace(program.launch, scratch_bytes=home.scratch_bytes),
    )
    name = str(min(places)) if size == 1 else f"{min(places)}..+{size}"
    warning = (
        f"{name} is spilled to {home.where}: {stores} stores and {loads} loads in the text, about "
        f"{_executed(liveness, tuple(places), _touching(program))} executed if every loop runs {_PER_LOOP} times"
    )
    return Change(changed, (warning,), frozenset(temporaries | home.redefinable))


class _Home:
    """Where the registers of a unit are kept, by their places."""

    def __init__(self, program: Program, edit: Edit, file: str, size: int) -> None:
        self._edit = edit
        self._file = file
        self._first_byte = program.launch.scratch_bytes
        self.scratch_bytes = self._first_byte
        self.needs_wait = False
        self._kept: tuple[VirtualReg, ...] = ()
        agprs = sum(r.file == "a" for r in program.virtual_registers)
        if file == "s":
            self.where = "lanes of a VGPR"
            self._kept = edit.fresh("v")
        elif agprs + size <= program.max_agprs:
            self.where = "AGPRs"
            self._kept = edit.fresh("a", size)
        else:
            self.where = "scratch memory"
            self.needs_wait = True
            self.scratch_bytes += 4 * size
            if self.scratch_bytes > SCRATCH_LIMIT:
                message = f"spills need {self.scratch_bytes} bytes of scratch per lane; the offset field reaches less"
                raise AllocationError(message, limit=SCRATCH_LIMIT)
        self.redefinable = frozenset(self._kept)

    def prepare(self) -> None:
        """A VGPR for lanes is written lane by lane: it begins as zero."""
        if self._file == "s":
            start = Instruction("v_mov_b32", (self._kept[0],), (Immediate(0),))
            self._edit.before.setdefault(0, []).insert(0, start)

    def load(self, place: int, into: VirtualReg) -> Instruction:
        if self._file == "s":
            return Instruction("v_readlane_b32", (into,), (self._kept[0], Immediate(place)))
        if self._kept:
            return Instruction("v_accvgpr_read_b32", (into,), (self._kept[place],))
        return Instruction("scratch_load_dword", (into,), (OFF, OFF, MemOffset(self._first_byte + 4 * place)))

    def store(self, place: int, source: VirtualReg) -> Instruction:
        if self._file == "s":
            return Instruction("v_writelane_b32", (self._kept[0],), (source, Immediate(place), self._kept[0]))
        if self._kept:
            return Instruction("v_accvgpr_write_b32", (self._kept[place],), (source,))
        return Instruction("scratch_store_dword", (), (OFF, source, OFF, MemOffset(self._first_byte + 4 * place)))
