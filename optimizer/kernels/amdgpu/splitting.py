"""Live ranges are split where a range of registers finds no place: what lies in its way may move aside there.

Before the instruction that defines the range, everything that lives across it is copied into new registers, and every
use that the copy dominates reads those. Copies that end up in the register they come from vanish; the others are what
it costs. Only registers with one definition are split, and only where all lanes are active.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.kernels.amdgpu.edit import Change, Edit, with_names
from optimizer.kernels.amdgpu.exec_mask import full_exec
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.liveness import Liveness
from optimizer.kernels.amdgpu.operands import Register, VirtualReg

if TYPE_CHECKING:
    from optimizer.kernels.amdgpu.allocate import ClassFailure

MOVES = {"v": "v_mov_b32", "s": "s_mov_b32", "a": "v_accvgpr_mov_b32"}


def split(failed: ClassFailure) -> Change | None:
    """Everything that lives across the start of the range without a place; None if nothing can be split there."""
    liveness = failed.liveness
    program = liveness.program
    place = liveness.item_at[failed.failure.interval.start // 2]
    if not full_exec(program, liveness.cfg)[place]:
        return None
    units = crossing_units(failed, place)
    if not units:
        return None
    edit = Edit(program)
    names: dict[VirtualReg, Register] = {}
    moves = 0
    for members in units:
        first, last = members[0].number, members[-1].number
        block = edit.fresh(failed.file, last - first + 1)
        for register in members:
            new = names[register] = block[register.number - first]
            if _crosses(liveness, register, place):
                move = Instruction(MOVES[failed.file], (new,), (register,))
                edit.before.setdefault(place, []).append(move)
                moves += 1
    _rename_dominated(liveness, edit, names, place)
    return Change(edit.done(), moves=moves)


def crossing_units(failed: ClassFailure, place: int) -> list[tuple[VirtualReg, ...]]:
    """Units of registers with one definition each, live across an item that neither reads nor writes them."""
    liveness = failed.liveness
    item = liveness.program.body[place]
    touched = set(item.used) | set(item.defined) if isinstance(item, Instruction) else set()
    single = single_definitions(liveness.program)
    defined = {r: p for p, i in liveness.program.instructions for r in i.defined if r in single}
    found = []
    for members in failed.units.members():
        numbers = [r.number for r in members]
        if len(numbers) != numbers[-1] - numbers[0] + 1 or not single.issuperset(members) or touched & set(members):
            continue
        # All of the unit is defined before: then a range is never half in the copy.
        if any(_crosses(liveness, r, place) for r in members) and all(
            dominates(liveness, defined[r], place) for r in members
        ):
            found.append(members)
    return found


def single_definitions(program: Program) -> set[VirtualReg]:
    """Registers defined once and not prescribed."""
    counts: dict[Register, int] = {}
    for _, item in program.instructions:
        for register in dict.fromkeys(item.defined):
            counts[register] = counts.get(register, 0) + 1
    prescribed = {r for r, _ in program.precolored}
    return {r for r, n in counts.items() if n == 1 and isinstance(r, VirtualReg) and r not in prescribed}


def _crosses(liveness: Liveness, register: VirtualReg, place: int) -> bool:
    point = 2 * liveness.rank[place]
    return any(start < point and point + 1 < end for start, end in liveness.segments[register])


def dominates(liveness: Liveness, a: int, b: int) -> bool:
    """Whether every way to item `b` passes item `a` before."""
    cfg = liveness.cfg
    first, second = cfg.block_of[a], cfg.block_of[b]
    if first == second:
        return a < b
    return second in cfg.flow.reachable and cfg.flow.dominates(first, second)


def _rename_dominated(liveness: Liveness, edit: Edit, names: dict[VirtualReg, Register], place: int) -> None:
    for user, item in liveness.program.instructions:
        if user != place and set(item.used) & names.keys() and dominates(liveness, place, user):
            edit.instead[user] = with_names(item, names)
