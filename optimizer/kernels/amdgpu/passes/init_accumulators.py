"""The first MFMA on an accumulator takes its initial constant as addend, which saves the four moves.

Only where the constant is set outside any loop and the first instruction that touches the accumulator, with no way
around it and no other way to it, is that MFMA.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from optimizer.kernels.amdgpu.cfg import ControlFlowGraph, build_cfg
from optimizer.kernels.amdgpu.ir import Instruction, Item, Program
from optimizer.kernels.amdgpu.opcodes import Category, opcode
from optimizer.kernels.amdgpu.operands import Immediate, registers
from optimizer.kernels.amdgpu.passes.expand_pseudos import mfma_of
from optimizer.process.work_limit import spend


def init_accumulators(program: Program) -> Program:
    """Looks for `_init_acc_quad` before it is expanded."""
    cfg = build_cfg(program)
    depth = cfg.depth
    body: list[Item | None] = list(program.body)
    for place, item in program.instructions:
        value = item.uses[0] if item.name == "_init_acc_quad" and item.uses else None
        if not isinstance(value, Immediate) or not value.is_inline() or depth[cfg.block_of[place]]:
            continue
        first = next((p for p in _behind(cfg, depth, place) if _touches(body[p], item)), None)
        if first is None:
            continue
        matrix = _accumulating(body[first], item)
        if matrix is not None:
            body[place], body[first] = None, replace(matrix, uses=(*matrix.uses[:2], value))
    return program.with_body(tuple(item for item in body if item is not None))


def _behind(cfg: ControlFlowGraph, depth: tuple[int, ...], place: int) -> Iterator[int]:
    """Places that come next with certainty, and only this way, outside loops."""
    block = cfg.block_of[place]
    yield from range(place + 1, cfg.blocks[block].end)
    while True:
        after = cfg.flow.successors[block]
        if len(after) != 1 or cfg.flow.predecessors[after[0]] != (block,) or depth[after[0]]:
            return
        block = after[0]
        yield from cfg.blocks[block].items


def _touches(item: Item | None, init: Instruction) -> bool:
    spend(1)
    return isinstance(item, Instruction) and not set(init.defined).isdisjoint((*item.used, *item.defined))


def _accumulating(item: Item | None, init: Instruction) -> Instruction | None:
    """An MFMA that adds to the accumulator in place, and does not read it otherwise."""
    assert isinstance(item, Instruction)
    matrix = mfma_of(item) if item.name == "_mfma_acc" else item
    if opcode(matrix.name).category is not Category.MFMA or matrix.modifiers:
        return None
    inputs = {r for use in matrix.uses[:2] for r in registers(use)}
    accumulator = init.defs[0]
    in_place = registers(matrix.defs[0]) == registers(matrix.uses[2]) == registers(accumulator)
    return matrix if in_place and inputs.isdisjoint(registers(accumulator)) else None
