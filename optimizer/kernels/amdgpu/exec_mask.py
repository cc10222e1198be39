"""Where a vector instruction may write only some lanes, so that the others keep what a register held before.

For a register with one definition that does not matter: lanes that were not written are not read either. A second
definition of an accumulator under a partial mask, however, updates it: what it held stays live.
"""

from __future__ import annotations

from optimizer.kernels.amdgpu.cfg import ControlFlowGraph
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.modifiers import keeps_lanes
from optimizer.kernels.amdgpu.opcodes import opcode
from optimizer.kernels.amdgpu.operands import EXEC, Immediate, Operand, PhysicalReg, Register, Special

_EXEC_PARTS = frozenset(("exec", "exec_lo", "exec_hi"))


def writes_exec(instruction: Instruction) -> bool:
    """Whether it changes the exec mask."""
    explicit = any(isinstance(d, Special) and d.name in _EXEC_PARTS for d in instruction.defs)
    return explicit or "exec" in opcode(instruction.name).writes


def full_exec(program: Program, cfg: ControlFlowGraph) -> tuple[bool, ...]:
    """Per item of the body: whether all lanes that the kernel started with are certainly active there.

    A mask saved while it was full and put back (`s_or_b64 exec, exec, saved`) is full again.
    """
    if not any(writes_exec(i) for _, i in program.instructions):
        return (True,) * len(program.body)
    entry = [True] * len(cfg.blocks)
    found = [True] * len(program.body)
    changed = True
    while changed:
        changed = False
        saved = _saved_full(program, found)
        for b in cfg.order:
            state = all(_leaving(program, cfg, p, found, saved) for p in cfg.flow.predecessors[b]) if b else True
            entry[b] = entry[b] and state
            state = entry[b]
            for place in cfg.blocks[b].items:
                if found[place] and not state:
                    found[place], changed = False, True
                state = _after(program, place, state, saved)
    return tuple(found)


def _leaving(program: Program, cfg: ControlFlowGraph, block: int, found: list[bool], saved: frozenset[Operand]) -> bool:
    items = cfg.blocks[block].items
    return _after(program, items[-1], found[items[-1]], saved) if items else True


def _after(program: Program, place: int, state: bool, saved: frozenset[Operand]) -> bool:
    item = program.body[place]
    if not isinstance(item, Instruction) or not writes_exec(item):
        return state
    if item.name == "s_mov_b64":
        return item.uses[0] == Immediate(-1) or item.uses[0] in saved or (item.uses[0] == EXEC and state)
    if item.name == "s_or_b64" and EXEC in item.uses:
        return state or any(use in saved for use in item.uses)
    return item.name == "s_or_saveexec_b64" and (state or item.uses[0] in saved)


def _saved_full(program: Program, found: list[bool]) -> frozenset[Operand]:
    """Register pairs that hold a full mask wherever they are defined."""
    good: set[Operand] = set()
    written: dict[Register, int] = {}
    for place, item in program.instructions:
        for register in item.defined:
            written[register] = written.get(register, 0) + 1
        saves = item.name.endswith("_saveexec_b64") or (item.name == "s_mov_b64" and item.uses == (EXEC,))
        if saves and found[place] and not isinstance(item.defs[0], Special):
            good.add(item.defs[0])
    return frozenset(o for o in good if all(written[r] == 1 for r in _registers(o)))


def _registers(operand: Operand) -> tuple[Register, ...]:
    return Instruction("", (operand,)).defined


def partial_updates(program: Program, cfg: ControlFlowGraph) -> dict[int, frozenset[Register]]:
    """Instruction -> vector registers that it may write in part while they hold an earlier definition."""
    full = full_exec(program, cfg)
    if all(full) and not any(item.modifiers for _, item in program.instructions):
        return {}
    counts: dict[Register, int] = {}
    for _, item in program.instructions:
        for register in dict.fromkeys(item.defined):
            counts[register] = counts.get(register, 0) + 1
    several = {r for r, n in counts.items() if r.file != "s" and (n > 1 or isinstance(r, PhysicalReg))}
    reached = _may_be_defined(program, cfg, several)
    found = {}
    for place, item in program.instructions:
        if (not full[place] or keeps_lanes(item)) and opcode(item.name).is_vector:
            updated = frozenset(r for r in item.defined if r in several and r in reached[place])
            if updated:
                found[place] = updated
    return found


def _may_be_defined(program: Program, cfg: ControlFlowGraph, several: set[Register]) -> dict[int, frozenset[Register]]:
    """Per instruction: registers that some way from the entry has defined before it."""
    entry: list[frozenset[Register]] = [frozenset()] * len(cfg.blocks)
    given = frozenset(r for r in several if isinstance(r, PhysicalReg))
    found: dict[int, frozenset[Register]] = {}
    changed = True
    while changed:
        changed = False
        for b in cfg.order:
            state = entry[b] | given
            for place in cfg.blocks[b].items:
                item = program.body[place]
                if isinstance(item, Instruction):
                    found[place] = state
                    state |= several.intersection(item.defined)
            for s in cfg.flow.successors[b]:
                if not state <= entry[s]:
                    entry[s], changed = entry[s] | state, True
    return found
