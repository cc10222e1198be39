"""Where a vector instruction may write only some lanes, so that the others keep what a register held before.

A second definition of an accumulator under a partial mask updates it: what it held stays live. With one definition it
does not matter as long as only lanes that were written are read. In a loop that lanes leave one after the other, the
definition of a round writes fewer lanes than the one before; if they are all read behind the loop, where the mask is
wide again, every round updates the register, and it is live all around the loop: what else was put there before the
definition of the next round would be found in the lanes that had left, be it written by instructions that ignore exec
(MFMA, v_writelane), under a mask widened for a while, or by the lanes themselves before they left.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from optimizer.kernels.amdgpu.cfg import ControlFlowGraph
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.modifiers import keeps_lanes
from optimizer.kernels.amdgpu.opcodes import opcode
from optimizer.kernels.amdgpu.operands import (
    EXEC,
    Immediate,
    Operand,
    PhysicalReg,
    Register,
    Special,
    VirtualReg,
    registers,
)
from optimizer.kernels.amdgpu.resources import writes_exec
from optimizer.process.work_limit import spend


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
        spend(len(program.body))
        saved = _saved_full(program, found)
        for b in cfg.order:
            state = all(_leaving(program, cfg, p, found, saved) for p in cfg.flow.predecessors[b]) if b else True
            entry[b] = entry[b] and state
            state = entry[b]
            for place in cfg.blocks[b]:
                if found[place] and not state:
                    found[place], changed = False, True
                state = _after(program, place, state, saved)
    return tuple(found)


def _leaving(program: Program, cfg: ControlFlowGraph, block: int, found: list[bool], saved: frozenset[Operand]) -> bool:
    items = cfg.blocks[block]
    return _after(program, items[-1], found[items[-1]], saved) if items else True


def _after(program: Program, place: int, state: bool, saved: frozenset[Operand]) -> bool:
    item = program.body[place]
    if not isinstance(item, Instruction) or not writes_exec(item):
        return state
    if not item.uses:  # incomplete: nothing is known of it
        return False
    if item.name == "s_mov_b64":
        return item.uses[0] == Immediate(-1) or item.uses[0] in saved or (item.uses[0] == EXEC and state)
    if item.name == "s_or_b64" and EXEC in item.uses:
        return state or any(use in saved for use in item.uses)
    return item.name == "s_or_saveexec_b64" and (state or item.uses[0] in saved)


def _saved_full(program: Program, found: list[bool]) -> frozenset[Operand]:
    """Register pairs that hold a full mask wherever they are defined."""
    good: set[Operand] = set()
    for place, item in program.instructions:
        saves = item.name.endswith("_saveexec_b64") or (item.name == "s_mov_b64" and item.uses == (EXEC,))
        if saves and found[place] and item.defs and not isinstance(item.defs[0], Special):
            good.add(item.defs[0])
    return frozenset(o for o in good if all(program.definitions[r] == 1 for r in registers(o)))


def partial_updates(program: Program, cfg: ControlFlowGraph) -> dict[int, frozenset[Register]]:
    """Instruction -> vector registers that it may write in part while they hold an earlier definition."""
    full = full_exec(program, cfg)
    if all(full) and not any(item.modifiers for _, item in program.instructions):
        return {}
    several = {r for r, n in program.definitions.items() if r.file != "s" and (n > 1 or isinstance(r, PhysicalReg))}
    partial = {p: i for p, i in program.instructions if (not full[p] or keeps_lanes(i)) and opcode(i.name).is_vector}
    once = {r for item in partial.values() for r in item.defined if r.file != "s"} - several
    lasting = _read_under_wider_masks(program, cfg, full, sorted(r for r in once if isinstance(r, VirtualReg)))
    reached = _may_be_defined(program, cfg, several, partial.keys())
    found = {}
    for place, item in partial.items():
        updated = frozenset(r for r in item.defined if r in lasting or r in reached[place])
        if updated:
            found[place] = updated
    return found


def _read_under_wider_masks(
    program: Program, cfg: ControlFlowGraph, full: tuple[bool, ...], once: list[VirtualReg]
) -> frozenset[Register]:
    """Those of the registers, each defined in one place, that a loop defines again and again, and that are read where
    more lanes may be active than at the last definition."""
    bit = {r: 1 << n for n, r in enumerate(once)}

    def word(registers: Iterable[Register]) -> int:
        bits = 0
        for r in registers:
            bits |= bit.get(r, 0) if isinstance(r, VirtualReg) else 0
        return bits

    def through(b: int, wider: int, looping: int) -> tuple[int, int]:
        """Read under a wider mask in a block; defined under a narrower mask than the one at its end."""
        read = 0
        for place, item in program.at(cfg.blocks[b]):
            all_lanes = not opcode(item.name).is_vector and not full[place]
            read |= word(item.used) & (looping if all_lanes else wider)
            wider &= ~word(item.defined)
            if writes_exec(item) and not _narrows(item):
                wider |= looping
        return read, wider

    made = [word(r for _, i in program.at(block) for r in i.defined) for block in cfg.blocks]
    arriving = cfg.reaching(0, lambda b, bits: bits | made[b])
    looping = 0
    for b in cfg.order:
        looping |= made[b] & arriving[b]
    if not looping:
        return frozenset()
    entry = cfg.reaching(0, lambda b, bits: through(b, bits, looping)[1])
    read = 0
    for b in cfg.order:
        read |= through(b, entry[b], looping)[0]
    return frozenset(r for r in once if bit[r] & read)


def _narrows(item: Instruction) -> bool:
    """Whether what it writes to exec has no lane that was not active before."""
    kept = EXEC in item.uses[:1] if item.name == "s_andn2_b64" else EXEC in item.uses
    return item.name == "s_and_saveexec_b64" or (item.name in ("s_and_b64", "s_andn2_b64") and kept)


def _may_be_defined(
    program: Program, cfg: ControlFlowGraph, several: set[Register], places: Container[int]
) -> dict[int, frozenset[Register]]:
    """Per instruction at those places: which of the registers that it writes some way from the entry has defined."""
    given = frozenset(r for r in several if isinstance(r, PhysicalReg))
    found: dict[int, frozenset[Register]] = {}

    def defined_behind(b: int, before: frozenset[Register]) -> frozenset[Register]:
        state = {*before, *given}
        for place, item in program.at(cfg.blocks[b]):
            defined = several.intersection(item.defined)
            if place in places:
                found[place] = frozenset(defined & state)
            state |= defined
        return frozenset(state)

    cfg.reaching(frozenset[Register](), defined_behind)
    return found
