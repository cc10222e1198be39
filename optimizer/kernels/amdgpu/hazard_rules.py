"""Wait states that gfx942 and gfx950 need between two instructions and do not insert themselves: one table of rules.

A rule says what a producer leaves behind (a register that it writes, or reads late) and how many wait states must pass
before a consumer of some kind touches that register. An instruction issues in one wait state, `s_nop N` in N + 1.

Consecutive scalar loads, and consecutive vector memory instructions, form a clause. Where memory accesses may be
replayed after a page fault (XNACK; a target that says nothing about it must expect it) a clause runs again from its
start: none of it may write what another one reads, and no store may follow a load. Anything in between ends it.
Source: "AMD Instinct MI300 Instruction Set Architecture", section "Manually Inserted Wait States (NOPs)"; numbers as in
LLVM 19's GCNHazardRecognizer for gfx942; `targets` says what gfx950 adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from optimizer.kernels.amdgpu.ir import Instruction
from optimizer.kernels.amdgpu.modifiers import is_dpp
from optimizer.kernels.amdgpu.opcodes import Category, Opcode, opcode
from optimizer.kernels.amdgpu.operands import Immediate, Operand, Register, registers, width
from optimizer.kernels.amdgpu.resources import EXEC_PARTS, Resource, is_scalar, read_resources, written_resources

VALU_SGPR_TO_VALU = 2
VALU_SGPR_TO_VMEM = 5
VALU_SGPR_TO_LANE_SELECT = 4
VALU_VGPR_TO_LANE_READ = 1
VALU_EXEC_TO_LANE_ACCESS = 4
VALU_EXEC_TO_MFMA = 4
VALU_EXEC_TO_DPP = 5
VALU_VGPR_TO_MFMA = 2
ANY_VGPR_TO_DPP = 2
TRANSCENDENTAL_TO_VALU = 1
PACKED_TO_VALU = 1
"""LLVM takes the selection of high halves in a packed instruction for a move of its result: followed, to be safe."""
WIDE_STORE_TO_VALU_WRITE = 2
SALU_M0_TO_LDS_DMA = 1
MFMA_C_READ_TO_WRITE = {2: 1, 4: 3, 8: 7, 16: 15}
"""Passes of the MFMA that reads a register as addend -> states before another instruction may overwrite it."""
CLAUSE_BREAK = 1
CLAUSE_UNITS = (Category.SMEM, Category.VMEM)
LONGEST = 20
"""No rule asks for more: 16 passes, 3, and 1 on gfx950."""

_LANE_ACCESS = frozenset(("v_readfirstlane_b32", "v_readlane_b32", "v_writelane_b32"))


@dataclass(frozen=True, slots=True)
class Trace:
    """What a producer leaves behind on one register."""

    kind: str
    """valu: written by any VALU; plain: by one that is not an MFMA; transcendental; packed; any: by any instruction;
    salu; mfma: by an MFMA; addend: read by an MFMA; stored: read by a wide store; `<unit> reads` and `<unit> writes`:
    by the clause that is still open."""
    resource: Resource
    passes: int = 0
    xdl: bool = False
    result: str = ""
    """Of an MFMA: the registers that it writes, as `_place` names them."""


@dataclass(frozen=True, slots=True)
class Need:
    """`states` wait states are due after the producer of a trace on `resource` whose kind is `kind`."""

    kind: str
    resource: Resource
    states: int


def traces(instruction: Instruction) -> tuple[Trace, ...]:
    """What an instruction leaves behind."""
    return tuple(_traces(instruction, opcode(instruction.name)))


def _traces(instruction: Instruction, known: Opcode) -> Iterator[Trace]:
    is_mfma = known.category is Category.MFMA
    is_valu = is_mfma or known.category is Category.VALU
    for resource in written_resources(instruction):
        yield Trace("any", resource)
        if is_valu:
            yield Trace("valu", resource)
        if is_mfma:
            yield Trace("mfma", resource, known.passes, _is_xdl(known), _place(instruction.defs[0]))
        elif is_valu:
            yield Trace("plain", resource)
        if known.transcendental:
            yield Trace("transcendental", resource)
        if known.name.startswith("v_pk_"):
            yield Trace("packed", resource)
        if known.category is Category.SALU and resource == "m0":
            yield Trace("salu", resource)
    if is_mfma and _is_xdl(known):
        for resource in registers(instruction.uses[2]):
            yield Trace("addend", resource, known.passes)
    for resource in _wide_store_data(instruction, known):
        yield Trace("stored", resource)
    if known.category in CLAUSE_UNITS:
        kinds = clause_kinds(known)
        yield from (Trace(kinds[0], resource) for resource in read_resources(instruction))
        yield from (Trace(kinds[1], resource) for resource in written_resources(instruction))


def _place(operand: Operand) -> str:
    """First register and how many: the same for the same registers."""
    return f"{registers(operand)[0]}+{width(operand)}"


def _is_xdl(known: Opcode) -> bool:
    """The matrix core's own types; f32 and f64 inputs are not."""
    return not known.name.endswith(("_f32", "_f64"))


def _wide_store_data(instruction: Instruction, known: Opcode) -> tuple[Register, ...]:
    """Data of more than 64 bits, which a store reads in a second step; an SGPR as offset makes time for it."""
    if known.category is not Category.VMEM or not known.stores:
        return ()
    place = next(n for n, use in enumerate(known.uses) if use.kind == "d")
    data = instruction.uses[place]
    if width(data) <= 2:
        return ()
    if known.format == "MUBUF" and not isinstance(instruction.uses[3], Immediate):
        return ()
    return registers(data)


def clause_kinds(known: Opcode) -> tuple[str, str]:
    """Kinds of the traces that a memory instruction leaves in its clause."""
    return f"{known.category.value} reads", f"{known.category.value} writes"


def breaks_clause(instruction: Instruction, clause: Iterable[Trace]) -> bool:
    """Whether a memory instruction must not join the clause that is open before it."""
    known = opcode(instruction.name)
    if known.category not in CLAUSE_UNITS:
        return False
    kinds = clause_kinds(known)
    reads, writes = ({t.resource for t in clause if t.kind == kind} for kind in kinds)
    if not writes:
        return False
    own = written_resources(instruction)
    return not own or not (writes | set(own)).isdisjoint(reads | set(read_resources(instruction)))


def needs(instruction: Instruction) -> tuple[Need, ...]:
    """What must have passed before an instruction; MFMA on MFMA depends on both (`matrix_states`)."""
    return tuple(_needs(instruction, opcode(instruction.name)))


def _needs(instruction: Instruction, known: Opcode) -> Iterator[Need]:
    reads, writes = read_resources(instruction), written_resources(instruction)
    is_mfma = known.category is Category.MFMA
    if is_mfma or known.category is Category.VALU:
        yield from _valu_needs(known, reads, writes)
        yield from _lane_needs(instruction, known)
    if is_dpp(instruction):
        yield from (Need("valu", part, VALU_EXEC_TO_DPP) for part in sorted(EXEC_PARTS))
        yield from (Need("any", r, ANY_VGPR_TO_DPP) for r in reads if not is_scalar(r))
    if is_mfma:
        yield from (Need("plain", part, VALU_EXEC_TO_MFMA) for part in sorted(EXEC_PARTS))
        yield from (Need("plain", r, VALU_VGPR_TO_MFMA) for r in reads if not is_scalar(r))
    if known.category is Category.VMEM:
        yield from (Need("valu", r, VALU_SGPR_TO_VMEM) for r in (*reads, *sorted(EXEC_PARTS)) if is_scalar(r))
        if known.name.endswith("_lds"):
            yield Need("salu", "m0", SALU_M0_TO_LDS_DMA)


def _valu_needs(known: Opcode, reads: tuple[Resource, ...], writes: tuple[Resource, ...]) -> Iterator[Need]:
    for resource in reads:
        if is_scalar(resource):
            if resource not in EXEC_PARTS:
                yield Need("valu", resource, VALU_SGPR_TO_VALU)
        else:
            yield Need("packed", resource, PACKED_TO_VALU)
            if not known.transcendental:
                yield Need("transcendental", resource, TRANSCENDENTAL_TO_VALU)
    yield from (Need("stored", resource, WIDE_STORE_TO_VALU_WRITE) for resource in writes)


def _lane_needs(instruction: Instruction, known: Opcode) -> Iterator[Need]:
    if known.name not in _LANE_ACCESS:
        return
    writes = written_resources(instruction)
    for resource in read_resources(instruction):
        # What v_writelane keeps in its other lanes is no lane read.
        if not is_scalar(resource) and resource not in writes:
            yield Need("valu", resource, VALU_VGPR_TO_LANE_READ)
    yield from (Need("valu", part, VALU_EXEC_TO_LANE_ACCESS) for part in sorted(EXEC_PARTS))
    for place, use in enumerate(known.uses):
        if use.kind == "l":
            yield from (
                Need("valu", r, VALU_SGPR_TO_LANE_SELECT) for r in registers(instruction.uses[place]) if is_scalar(r)
            )


def matrix_states(trace: Trace, instruction: Instruction, xdl_delay: int = 0) -> int:
    """Wait states between an MFMA (or its late read of the addend) and an instruction that touches the register."""
    known = opcode(instruction.name)
    if known.category is Category.MFMA:
        return _mfma_after_mfma(trace, instruction, known, xdl_delay) if trace.kind == "mfma" else 0
    if known.category not in (Category.VALU, Category.VMEM, Category.LDS):
        return 0
    written = trace.resource in written_resources(instruction)
    if trace.kind == "addend":
        return MFMA_C_READ_TO_WRITE[trace.passes] if written else 0
    if written or trace.resource in read_resources(instruction):
        return trace.passes + (3 + xdl_delay if trace.xdl else 2)
    return 0


def _mfma_after_mfma(trace: Trace, instruction: Instruction, known: Opcode, xdl_delay: int) -> int:
    """As addend of the same registers an MFMA's result is forwarded; as input it must have been written."""
    # The same register may be both, as input then counts.
    if any(trace.resource in registers(use) for use in instruction.uses[:2]):
        return trace.passes + (3 + xdl_delay if trace.xdl else 2)
    if trace.resource not in registers(instruction.uses[2]):
        return 0
    if trace.result == _place(instruction.uses[2]):
        return 2 if trace.passes == 2 else 0
    if trace.xdl:
        return trace.passes + 1 + xdl_delay
    return 0 if _is_xdl(known) else trace.passes
