"""x | y | z in one instruction: v_or3_b32."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.passes.fusion import Fusion, fuse


@dataclass(frozen=True)
class FuseOrOr:
    """Chains are fused in pairs, from the top."""

    name: ClassVar[str] = "fuse-or-or"

    def apply(self, program: Program) -> Program:
        return fuse(
            program,
            Fusion("v_or_b32", "v_or_b32", "v_or3_b32", lambda first, last, n: (*first.uses, last.uses[1 - n])),
        )
