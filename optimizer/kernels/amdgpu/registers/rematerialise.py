"""Constants are made again where they are used instead of being kept: one move per use, no register in between.

Briggs, Cooper and Torczon, "Rematerialization", PLDI 1992, for values that need no operand: immediates.
"""

from __future__ import annotations

from collections.abc import Collection

from optimizer.kernels.amdgpu.exec_mask import full_exec
from optimizer.kernels.amdgpu.instruction_edits import Change, Edit, with_names
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.opcodes import Category, opcode
from optimizer.kernels.amdgpu.operands import Immediate, RegRange, VirtualReg, registers
from optimizer.kernels.amdgpu.registers.class_failure import ClassFailure
from optimizer.kernels.amdgpu.registers.liveness import Liveness
from optimizer.regalloc.intervals import segments_overlap

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
        and _kept(liveness, register)
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


def _kept(liveness: Liveness, register: VirtualReg) -> bool:
    return sum(end - start for start, end in liveness.segments[register]) >= _SHORTEST


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
