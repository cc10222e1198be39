"""Constants are made again where they are used instead of being kept: one move per use, no register in between.

Briggs, Cooper and Torczon, "Rematerialization", PLDI 1992, for values that need no operand: immediates.
"""

from __future__ import annotations

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


def rematerialise(failed: ClassFailure) -> Change | None:
    """Every constant that is live where a range found no place; None if there is none."""
    liveness = failed.liveness
    segments = failed.failure.interval.segments
    chosen = {
        register: place
        for register, place in sorted(constants(liveness.program, failed.file).items())
        if segments_overlap(liveness.segments[register], segments) and _kept(liveness, register)
    }
    chosen = {r: p for r, p in chosen.items() if _exact_everywhere(liveness, r)}
    return None if not chosen else Change(_made_again(liveness.program, chosen))


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


def _exact_everywhere(liveness: Liveness, register: VirtualReg) -> bool:
    """A move under a partial mask does for instructions that work under that mask, not for those that ignore it."""
    if register.file == "s":
        return True
    full = full_exec(liveness.program, liveness.cfg)
    users = [(p, i) for p, i in liveness.program.instructions if register in i.used]
    return all(full[p] or (opcode(i.name).is_vector and opcode(i.name).category is not Category.MFMA) for p, i in users)


def _made_again(program: Program, chosen: dict[VirtualReg, int]) -> Program:
    edit = Edit(program)
    for register, place in chosen.items():
        edit.instead[place] = None
        move = program.body[place]
        assert isinstance(move, Instruction)
        for user, item in program.instructions:
            if register not in item.used:
                continue
            (new,) = edit.fresh(register.file)
            edit.before.setdefault(user, []).append(move.with_operands((new,), move.uses))
            current = edit.instead.get(user, item)
            assert current is not None
            edit.instead[user] = with_names(current, {register: new}, {r: r for r in chosen})
    return edit.done()
