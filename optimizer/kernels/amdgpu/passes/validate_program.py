"""Checks before anything is moved, so that mistakes are named where they stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.validate import check_operands, validate_ssa


@dataclass(frozen=True)
class ValidateProgram:
    """OpcodeError, OperandError, ControlFlowError, SsaError."""

    name: ClassVar[str] = "validate"

    def apply(self, program: Program) -> Program:
        for place, item in program.instructions:
            check_operands(item, f"instruction {place} ({item.name})")
        validate_ssa(program)
        return program
