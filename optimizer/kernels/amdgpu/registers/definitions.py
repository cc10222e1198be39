"""Where registers are defined, and which items of a program every way to another one passes."""

from __future__ import annotations

from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.operands import VirtualReg
from optimizer.kernels.amdgpu.registers.liveness import Liveness

MOVES = {"v": "v_mov_b32", "s": "s_mov_b32", "a": "v_accvgpr_mov_b32"}
"""What copies a single register, by class."""


def single_definitions(program: Program) -> set[VirtualReg]:
    """Registers defined once and not prescribed."""
    prescribed = {r for r, _ in program.precolored}
    return {r for r, n in program.definitions.items() if n == 1 and isinstance(r, VirtualReg) and r not in prescribed}


def dominates(liveness: Liveness, a: int, b: int) -> bool:
    """Whether every way to item `b` passes item `a` before."""
    cfg = liveness.cfg
    first, second = cfg.block_of[a], cfg.block_of[b]
    if first == second:
        return a < b
    return second in cfg.flow.reachable and cfg.flow.dominates(first, second)
