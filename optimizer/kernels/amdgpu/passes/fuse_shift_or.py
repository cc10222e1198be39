"""(x << n) | y in one instruction: v_lshl_or_b32."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.passes.fuse_shift_add import shifted
from optimizer.kernels.amdgpu.passes.fusion import Fusion, fuse


@dataclass(frozen=True)
class FuseShiftOr:
    """The amount must be a constant."""

    name: ClassVar[str] = "fuse-shift-or"

    def apply(self, program: Program) -> Program:
        return fuse(program, Fusion("v_lshlrev_b32", "v_or_b32", "v_lshl_or_b32", shifted))
