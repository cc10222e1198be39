"""What differs between the processors that the back end writes for.

gfx950 has everything of gfx942 that is in the table of opcodes, and instructions of its own (`opcodes`). Results of its
matrix core can be used one wait state later, as LLVM 22's code generator has it; its LDS is larger.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from optimizer.errors import UnknownNameError
from optimizer.kernels.amdgpu.errors import OpcodeError
from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.opcodes import HINTS, TARGETS, opcode

XDL_RESULT_DELAY: Mapping[str, int] = MappingProxyType({"gfx942": 0, "gfx950": 1})
"""Wait states after an MFMA of the matrix core's own types, beyond those of gfx942."""

LDS_BYTES: Mapping[str, int] = MappingProxyType({"gfx942": 64 << 10, "gfx950": 160 << 10})
"""Of a compute unit, and the most that one workgroup may have."""


def check_target(mcpu: str) -> None:
    """UnknownNameError for a processor that the back end does not know."""
    if mcpu not in TARGETS:
        raise UnknownNameError("processor", mcpu, TARGETS)


def check_opcodes(program: Program, mcpu: str) -> Program:
    """The program, whose instructions a processor has. OpcodeError names the first that it lacks, and what to use."""
    for place, item in program.instructions:
        known = opcode(item.name)
        if mcpu not in known.targets:
            raise OpcodeError(
                f"{mcpu} has no '{item.name}', which {', '.join(known.targets)} has; use {HINTS[item.name]}",
                node=program.where(place),
                limit=mcpu,
            )
    return program
