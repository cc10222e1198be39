"""How many s_waitcnt and s_nop a program has, and how many a back end that does not look would have written."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.opcodes import Category, opcode
from optimizer.kernels.amdgpu.resources import Resource, read_resources, written_resources


@dataclass(frozen=True)
class WaitCounts:
    """Static counts: instructions in the text."""

    waits: int
    nops: int
    nop_states: int
    """Wait states of all s_nop: what they cost."""
    blanket_waits: int
    blanket_nops: int


def wait_counts(program: Program) -> WaitCounts:
    """Counts of a finished program, against the blanket strategy on the same program without waits and nops.

    The blanket strategy waits for everything before each instruction that touches a register some memory operation
    loads, and before each barrier; and puts an s_nop behind each vector instruction that is not memory.
    """
    instructions = [item for _, item in program.instructions]
    waits = [item for item in instructions if item.name == "s_waitcnt"]
    nops = [item for item in instructions if item.name == "s_nop"]
    rest = [item for item in instructions if item.name not in ("s_waitcnt", "s_nop")]
    loaded: set[Resource] = {
        r for item in rest if opcode(item.name).counter is not None for r in written_resources(item)
    }
    return WaitCounts(
        len(waits),
        len(nops),
        sum(int(str(item.uses[0]), 0) + 1 for item in nops),
        sum(item.name == "s_barrier" or _touches(item, loaded) for item in rest),
        sum(opcode(item.name).category in (Category.VALU, Category.MFMA) for item in rest),
    )


def _touches(item: Instruction, loaded: set[Resource]) -> bool:
    """A load that writes its own destination is the loading, not a use."""
    touched = (
        {*read_resources(item)} if opcode(item.name).counter else {*read_resources(item), *written_resources(item)}
    )
    return not loaded.isdisjoint(touched)
