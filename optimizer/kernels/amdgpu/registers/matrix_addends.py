"""A large matrix product may write onto its addend, unless some of that is needed later: those few registers move out.

The result of such an instruction lies exactly on its addend or apart from all operands. Where a component of the addend
is read later it has to lie apart, so that both are there at once. With the component copied away before, it need not.
"""

from __future__ import annotations

from optimizer.kernels.amdgpu.exec_mask import full_exec
from optimizer.kernels.amdgpu.instruction_edits import Change, Edit, with_names
from optimizer.kernels.amdgpu.ir import Instruction
from optimizer.kernels.amdgpu.opcodes import Category, opcode
from optimizer.kernels.amdgpu.operands import Register, VirtualReg, registers
from optimizer.kernels.amdgpu.registers.class_failure import ClassFailure
from optimizer.kernels.amdgpu.registers.definitions import MOVES, dominates, single_definitions
from optimizer.kernels.amdgpu.registers.liveness import Liveness
from optimizer.process.work_limit import spend


def free_addends(failed: ClassFailure) -> Change | None:
    """Copies of what is needed later, wherever addend and result together do not fit; None if that is nowhere."""
    liveness = failed.liveness
    program = liveness.program
    full = full_exec(program, liveness.cfg)
    single = single_definitions(program)
    room = failed.failure.capacity - len(failed.reserved)
    edit = Edit(program)
    names: dict[VirtualReg, Register] = {}
    moves = 0
    for place, item in program.instructions:
        kept = _kept(liveness, place, item, failed.file)
        if not kept or not full[place] or names.keys() & set(kept) or not single.issuperset(kept):
            continue
        if _needed(liveness, place, item, failed.file) <= room or not _moves_for_good(liveness, place, kept):
            continue
        block = edit.fresh(failed.file, kept[-1].number - kept[0].number + 1)
        new: dict[VirtualReg, Register] = {r: block[r.number - kept[0].number] for r in kept}
        edit.before[place] = [Instruction(MOVES[failed.file], (new[r],), (r,)) for r in kept]
        for user in sorted({user for r in kept for user in program.users[r]} - {place}):
            if dominates(liveness, place, user):
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
