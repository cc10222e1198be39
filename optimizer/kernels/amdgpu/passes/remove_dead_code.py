"""Instructions go whose results nothing needs.

An instruction is needed if it has an effect beyond registers (stores, barriers, branches, waits, nops, the exec mask)
or writes what a needed instruction reads: backward dataflow in which only needed instructions read, so that a counter
that only counts itself goes too. Loads of which nothing is used go as well; a program that loads for the effect on
caches must not ask for this pass.
"""

from __future__ import annotations

from optimizer.kernels.amdgpu.cfg import ControlFlowGraph, build_cfg
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.modifiers import keeps_lanes
from optimizer.kernels.amdgpu.opcodes import Category, opcode
from optimizer.kernels.amdgpu.operands import PhysicalReg
from optimizer.kernels.amdgpu.resources import (
    Resource,
    is_scalar,
    read_resources,
    writes_exec,
    written_resources,
)
from optimizer.process.work_limit import spend


def remove_dead_code(program: Program) -> Program:
    """On virtual or physical registers."""
    needed = _needed(program, build_cfg(program))
    return program.with_body(
        tuple(item for place, item in enumerate(program.body) if not isinstance(item, Instruction) or place in needed)
    )


def has_effect(instruction: Instruction) -> bool:
    """Whether an instruction does more than write registers that may or may not be read."""
    known = opcode(instruction.name)
    if known.category in (Category.BRANCH, Category.CONTROL) or known.stores or known.name.endswith("_lds"):
        return True
    if known.is_pseudo and not instruction.defs:
        return True
    return writes_exec(instruction)


def _needed(program: Program, cfg: ControlFlowGraph) -> set[int]:
    masked = any(writes_exec(item) or keeps_lanes(item) for _, item in program.instructions)
    aliases: dict[Resource, Resource] = {r: PhysicalReg(r.file, n) for r, n in program.precolored}
    alive: list[set[Resource]] = [set() for _ in cfg.blocks]
    needed: set[int] = set()
    changed = True
    while changed:
        changed = False
        spend(len(program.body))
        for b in reversed(cfg.order):
            live = {r for s in cfg.flow.successors[b] for r in alive[s]}
            for place, item in program.at(reversed(cfg.blocks[b].items)):
                written = [aliases.get(r, r) for r in written_resources(item)]
                if not has_effect(item) and live.isdisjoint(written):
                    continue
                needed.add(place)
                # Under a partial mask a vector register keeps its other lanes.
                live.difference_update(r for r in written if is_scalar(r) or not masked)
                live.update(aliases.get(r, r) for r in read_resources(item))
            if live != alive[b]:
                alive[b], changed = live, True
    return needed
