"""(x + y) << n in one instruction: v_add_lshl_u32."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.operands import Immediate, Operand
from optimizer.kernels.amdgpu.passes.fusion import Fusion, fuse


@dataclass(frozen=True)
class FuseAddShift:
    """The amount must be a constant."""

    name: ClassVar[str] = "fuse-add-shift"

    def apply(self, program: Program) -> Program:
        return fuse(program, Fusion("v_add_u32", "v_lshlrev_b32", "v_add_lshl_u32", _sum_shifted))


def _sum_shifted(producer: Instruction, consumer: Instruction, place: int) -> tuple[Operand, ...] | None:
    amount = consumer.uses[0]
    return (*producer.uses, amount) if place == 1 and isinstance(amount, Immediate) else None
