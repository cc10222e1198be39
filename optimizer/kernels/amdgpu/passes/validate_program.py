"""Checks before anything is moved, so that mistakes are named where they stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.validate import validate


@dataclass(frozen=True)
class ValidateProgram:
    """OpcodeError, OperandError, ControlFlowError, SsaError."""

    name: ClassVar[str] = "validate"

    def apply(self, program: Program) -> Program:
        validate(program)
        return program
