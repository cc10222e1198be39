"""What to change in a program whose registers do not fit, cheapest first: rematerialise, free addends, move, spill.

Constants are made again where they are used instead of being kept: one move per use, no register in between (Briggs,
Cooper and Torczon, "Rematerialization", PLDI 1992, for values that need no operand: immediates).

The result of a large matrix product lies exactly on its addend or apart from all operands. Where a component of the
addend is read later it has to lie apart, so that both are there at once; with the component copied away before, it need
not.

This ends. Every change but the last falls a measure of the program: first the matrix products whose addend is needed in
part later (`free_addends` frees one at least, nothing makes another), then the registers that no change has made
(constants made again and spills take one at least away; all that they put in its place are temporaries, which neither
takes). Moves between registers make new ones, so they come last, once in every class: what they give is the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from optimizer.kernels.amdgpu.exec_mask import full_exec
from optimizer.kernels.amdgpu.instruction_edits import Change, Edit, copy_of, with_names
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.opcodes import Category, opcode
from optimizer.kernels.amdgpu.operands import Immediate, Register, RegRange, VirtualReg, registers
from optimizer.kernels.amdgpu.registers.class_failure import ClassFailure, allocation_error
from optimizer.kernels.amdgpu.registers.compaction import compact
from optimizer.kernels.amdgpu.registers.liveness import Liveness, analyse
from optimizer.kernels.amdgpu.registers.spilling import spill
from optimizer.process.work_limit import spend
from optimizer.regalloc.fewest import peak_bound
from optimizer.regalloc.intervals import segments_overlap

# -- constants -------------------------------------------------------------------------------------------
_SHORTEST = 4
"""Points of a live range below which nothing is won."""


def rematerialise(failed: ClassFailure, temporaries: Collection[VirtualReg]) -> Change | None:
    """Every constant that is live where a range found no place; None if there is none.

    `temporaries`: registers that lie between memory, or a constant, and an instruction already. Those of the constants
    made here are among them, so that none is made again twice.
    """
    liveness = failed.liveness
    segments = failed.failure.interval.segments
    users = liveness.program.users
    full = full_exec(liveness.program, liveness.cfg)
    chosen = {
        register: place
        for register, place in sorted(constants(liveness.program, failed.file).items())
        if register not in temporaries
        and segments_overlap(liveness.segments[register], segments)
        and sum(end - start for start, end in liveness.segments[register]) >= _SHORTEST
        and (failed.file == "s" or all(full[p] or _follows_exec(liveness.program, p) for p in users.get(register, ())))
    }
    return None if not chosen else _made_again(liveness.program, chosen)


def constants(program: Program, file: str) -> dict[VirtualReg, int]:
    """Single registers with one definition, a move of an immediate; with the place of that."""
    prescribed = {r for r, _ in program.precolored}
    found: dict[VirtualReg, int] = {}
    several: set[VirtualReg] = set()
    for place, item in program.instructions:
        in_ranges = {r for o in (*item.defs, *item.uses) if isinstance(o, RegRange) for r in registers(o)}
        several |= {r for r in in_ranges if isinstance(r, VirtualReg)}
        for register in item.defined:
            if not isinstance(register, VirtualReg) or register.file != file:
                continue
            is_move = item.name in ("v_mov_b32", "s_mov_b32") and isinstance(item.uses[0], Immediate)
            if register in found or not is_move:
                several.add(register)
            found[register] = place
    return {r: p for r, p in found.items() if r not in several and r not in prescribed}


def _follows_exec(program: Program, place: int) -> bool:
    """A move under a partial mask does for instructions that work under that mask, not for those that ignore it."""
    item = program.body[place]
    assert isinstance(item, Instruction)
    known = opcode(item.name)
    return known.is_vector and known.category is not Category.MFMA


def _made_again(program: Program, chosen: dict[VirtualReg, int]) -> Change:
    edit = Edit(program)
    fresh: set[VirtualReg] = set()
    for register, place in chosen.items():
        edit.instead[place] = None
        move = program.body[place]
        assert isinstance(move, Instruction)
        for user in program.users.get(register, ()):
            (new,) = edit.fresh(register.file)
            fresh.add(new)
            edit.before.setdefault(user, []).append(move.with_operands((new,), move.uses))
            current = edit.instead.get(user) or program.body[user]
            assert isinstance(current, Instruction)
            edit.instead[user] = with_names(current, {register: new})
    return Change(edit.done(), temporaries=frozenset(fresh))


# -- addends ---------------------------------------------------------------------------------------------
def free_addends(failed: ClassFailure) -> Change | None:
    """Copies of what is needed later, wherever addend and result together do not fit; None if that is nowhere."""
    liveness = failed.liveness
    program = liveness.program
    full = full_exec(program, liveness.cfg)
    room = failed.failure.capacity - len(failed.reserved)
    edit = Edit(program)
    names: dict[VirtualReg, Register] = {}
    moves = 0
    for place, item in program.instructions:
        kept = _kept(liveness, place, item, failed.file)
        if not kept or not full[place] or names.keys() & set(kept) or not program.single_definitions.issuperset(kept):
            continue
        if _needed(liveness, place, item, failed.file) <= room or not _moves_for_good(liveness, place, kept):
            continue
        block = edit.fresh(failed.file, kept[-1].number - kept[0].number + 1)
        new: dict[VirtualReg, Register] = {r: block[r.number - kept[0].number] for r in kept}
        edit.before[place] = [copy_of(r, new[r]) for r in kept]
        for user in sorted({user for r in kept for user in program.users[r]} - {place}):
            if liveness.cfg.dominates(place, user):
                before = edit.instead.get(user) or program.body[user]
                assert isinstance(before, Instruction)
                edit.instead[user] = with_names(before, new)
        names |= new
        moves += len(kept)
    return Change(edit.done(), moves=moves) if moves else None


def _kept(liveness: Liveness, place: int, item: Instruction, file: str) -> list[VirtualReg]:
    """Registers of an addend that something reads later, if others are not; ascending."""
    known = opcode(item.name)
    if known.category is not Category.MFMA or not known.early_clobber or len(item.uses) < 3:
        return []
    addend = [r for r in registers(item.uses[2]) if isinstance(r, VirtualReg) and r.file == file]
    if set(addend) & set(item.defined):
        return []
    point = 2 * liveness.rank[place]
    kept = [r for r in addend if any(s <= point and point + 1 < e for s, e in liveness.segments[r])]
    return sorted(kept) if len(kept) < len(addend) else []


def _needed(liveness: Liveness, place: int, item: Instruction, file: str) -> int:
    """Registers of a class that hold something while the instruction reads, and those it writes."""
    spend(len(liveness.segments) // 4)
    point = 2 * liveness.rank[place]
    live = {r for r, parts in liveness.segments.items() if r.file == file and any(s <= point < e for s, e in parts)}
    return len(live | {r for r in item.defined if r.file == file})


def _moves_for_good(liveness: Liveness, place: int, kept: list[VirtualReg]) -> bool:
    """Whether all that reads the registers later is dominated by the place, as it is not in a loop they live round."""
    cfg = liveness.cfg
    here = cfg.block_of[place]
    seen: set[int] = set()
    pending = [here]
    while pending:
        for block in cfg.flow.successors[pending.pop()]:
            if block in seen or not liveness.live_in(block) & set(kept):
                continue
            if block == here or not cfg.flow.dominates(here, block):
                return False
            seen.add(block)
            pending.append(block)
    return True


# -- the order of changes --------------------------------------------------------------------------------
class Rewriting:
    """Changes one after another, until the program fits or nothing is left to change."""

    def __init__(self, rewrite: bool, allow_spill: bool) -> None:
        self._may_rewrite, self._may_spill = rewrite or allow_spill, allow_spill
        self._temporaries: set[VirtualReg] = set()

    def next(self, failures: Sequence[ClassFailure]) -> Change:
        """A changed program to try next, or one that fits; AllocationError if nothing that is allowed is left."""
        stuck = failures[0]
        if self._may_rewrite:
            for failed in failures:
                change = rematerialise(failed, self._temporaries) or free_addends(failed)
                if change is not None:
                    self._temporaries |= change.temporaries
                    return change
            moved = _moved(failures)
            if isinstance(moved, Change):
                return moved
            stuck = moved
        change = spill(stuck, self._temporaries) if self._may_spill else None
        if change is None:
            raise allocation_error(stuck)
        self._temporaries |= change.temporaries
        return change


def _moved(failures: Sequence[ClassFailure]) -> Change | ClassFailure:
    """The program with moves in every class that does not fit, or the first class for which there are none."""
    for failed in failures:
        # Moves make room for ranges among registers that are free, they do not make more registers free.
        capacity = failed.failure.capacity
        if peak_bound(failed.units.intervals(), capacity, failed.reserved) > capacity:
            return failed
    program, moves = failures[0].liveness.program, 0
    placed: dict[str, Mapping[VirtualReg, int]] = {}
    for failed in failures:
        here = failed if not placed else replace(failed, liveness=analyse(program))
        change = compact(here)
        if change is None:
            return failed
        program, moves = change.program, moves + change.moves
        placed |= change.placed
    return Change(program, placed=placed, moves=moves)
