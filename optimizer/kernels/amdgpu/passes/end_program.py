"""s_endpgm where control could run off the end of the text."""

from __future__ import annotations

from optimizer.kernels.amdgpu.cfg import build_cfg
from optimizer.kernels.amdgpu.ir import Instruction, Program


def end_program(program: Program) -> Program:
    """Nothing is added to a program that ends by itself."""
    closed = program.with_body((*program.body, Instruction("s_endpgm")))
    cfg = build_cfg(closed)
    return closed if cfg.block_of[-1] in cfg.flow.reachable else program
