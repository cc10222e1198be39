"""s_endpgm where control could run off the end of the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from optimizer.kernels.amdgpu.cfg import build_cfg
from optimizer.kernels.amdgpu.ir import Instruction, Program


@dataclass(frozen=True)
class EndProgram:
    """Nothing is added to a program that ends by itself."""

    name: ClassVar[str] = "end-program"

    def apply(self, program: Program) -> Program:
        closed = program.with_body((*program.body, Instruction("s_endpgm")))
        cfg = build_cfg(closed)
        return closed if cfg.block_of[-1] in cfg.flow.reachable else program
