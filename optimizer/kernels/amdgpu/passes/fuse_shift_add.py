"""(x << n) + y in one instruction: v_lshl_add_u32."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.operands import Immediate, Operand
from optimizer.kernels.amdgpu.passes.fusion import Fusion, fuse


@dataclass(frozen=True)
class FuseShiftAdd:
    """The amount must be a constant."""

    name: ClassVar[str] = "fuse-shift-add"

    def apply(self, program: Program) -> Program:
        return fuse(program, Fusion("v_lshlrev_b32", "v_add_u32", "v_lshl_add_u32", shifted))


def shifted(producer: Instruction, consumer: Instruction, place: int) -> tuple[Operand, ...] | None:
    """Value, amount, other operand."""
    amount, value = producer.uses
    return (value, amount, consumer.uses[1 - place]) if isinstance(amount, Immediate) else None
