"""Register allocation of a kernel: a physical register for every virtual one, or a precise complaint.

Tied operands are copied where they live on (`tied_copies`). VGPRs, SGPRs and AGPRs are allocated apart. Each class is
tried with coalesced moves and accumulators first; where that costs registers, once more with moves as mere hints. What
does not fit is rewritten (`rewriting`): constants are made again where they are used, values move to other registers,
and, only if asked for, are spilled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.operands import FILES, PhysicalReg, VirtualReg
from optimizer.kernels.amdgpu.registers.allocation_units import Units
from optimizer.kernels.amdgpu.registers.class_failure import ClassFailure
from optimizer.kernels.amdgpu.registers.liveness import Liveness, analyse
from optimizer.kernels.amdgpu.registers.rewriting import Rewriting
from optimizer.kernels.amdgpu.registers.tied_copies import tied_copies
from optimizer.kernels.amdgpu.validate import validate_ssa
from optimizer.regalloc.fewest import Placement, fewest_registers, peak_bound
from optimizer.regalloc.linear_scan import AllocationFailure


@dataclass(frozen=True)
class AllocationOptions:
    """What the allocator may do."""

    rewrite: bool = True
    """Change the program where it does not fit: rematerialise constants, move values, split live ranges."""
    allow_spill: bool = False
    """Spill what still does not fit; every spill is reported with what it costs."""
    effort: int = 1
    """Multiplies the search's work limits."""


@dataclass(frozen=True)
class ClassAllocation:
    """Registers of one class."""

    file: str
    mapping: Mapping[VirtualReg, int]
    peak: int
    """One more than the highest register allocated or reserved."""
    pressure: int
    """Most virtual registers live at once (half-open): no allocation has fewer."""
    lower_bound: int
    """No lower peak exists for these units: pressure with early clobbers, reserved and prescribed registers."""
    coalesced: int
    method: str
    proven: bool
    """Whether the peak is as low as can be with these ranges, by the bound or by exhaustive search."""


@dataclass(frozen=True)
class Allocation:
    """A program, rewritten if need be, and where its registers are."""

    program: Program
    classes: Mapping[str, ClassAllocation]
    warnings: tuple[str, ...] = field(default=())
    moves: int = 0
    """Moves that were inserted to make room for ranges of registers; some may end in the register they come from."""
    copies: int = 0
    """Tied operands that were copied, as they live on or have a register of their own."""

    @property
    def mapping(self) -> dict[VirtualReg, int]:
        """Every virtual register's number, by class and number."""
        return {r: n for file in FILES for r, n in sorted(self.classes[file].mapping.items())}

    @property
    def peak_vgprs(self) -> int:
        return self.classes["v"].peak

    @property
    def peak_sgprs(self) -> int:
        return self.classes["s"].peak

    @property
    def peak_agprs(self) -> int:
        return self.classes["a"].peak


def allocate(program: Program, options: AllocationOptions | None = None) -> Allocation:
    """Registers for everything. SsaError, ControlFlowError; AllocationError names range, overlaps and pool;
    OperandError for a tied operand of which no copy does."""
    options = options or AllocationOptions()
    validate_ssa(program)
    copied = tied_copies(program)
    program = copied.program
    warnings: list[str] = []
    rewriting = Rewriting(options.rewrite, options.allow_spill)
    moves = 0
    while True:
        liveness = analyse(program, validate_ssa(program))
        answers = {file: allocate_class(liveness, file, options) for file in FILES}
        failures = [a for a in answers.values() if isinstance(a, ClassFailure)]
        done = {file: a for file, a in answers.items() if isinstance(a, ClassAllocation)}
        if failures:
            change = rewriting.next(failures)
            program = change.program
            moves += change.moves
            warnings += change.warnings
            if not change.placed:
                continue
            liveness = analyse(program, validate_ssa(program))
            done |= {file: _as_placed(liveness, file, mapping) for file, mapping in change.placed.items()}
        mapping = {r: n for made in done.values() for r, n in made.mapping.items()}
        settled, copies = copied.settled(program, mapping)
        return Allocation(settled, done, tuple(warnings), moves, copies)


def allocate_class(liveness: Liveness, file: str, options: AllocationOptions) -> ClassAllocation | ClassFailure:
    """With moves coalesced if that takes no more registers."""
    capacity, reserved = liveness.program.capacity(file), liveness.program.reserved(file)
    best: tuple[Placement, Units] | None = None
    failed: ClassFailure | None = None
    joined = -1
    for moves in (True, False):
        units = Units(liveness, file)
        units.coalesce(moves)
        if units.coalesced == joined:
            break
        joined = units.coalesced
        placed = fewest_registers(units.intervals(), capacity, reserved, units.hints(), options.effort)
        if isinstance(placed, AllocationFailure):
            failed = ClassFailure(file, units, liveness, placed, reserved)
        elif best is None or placed.peak < best[0].peak:
            best = placed, units
        if best is not None and best[0].peak <= best[0].lower_bound:
            break
    if best is None:
        assert failed is not None
        return failed
    placement, units = best
    mapping = units.mapping(placement.assigned)
    peak = max([*(n + 1 for n in mapping.values()), *(r + 1 for r in reserved)], default=0)
    return ClassAllocation(
        file, mapping, peak, liveness.pressure(file), placement.lower_bound, units.coalesced, placement.method,
        placement.proven,
    )  # fmt: skip


def _as_placed(liveness: Liveness, file: str, mapping: Mapping[VirtualReg, int]) -> ClassAllocation:
    units = Units(liveness, file)
    reserved = liveness.program.reserved(file)
    named = [r.number for r, s in liveness.segments.items() if isinstance(r, PhysicalReg) and r.file == file and s]
    peak = max([n + 1 for n in (*mapping.values(), *named, *reserved)], default=0)
    bound = peak_bound(units.intervals(), peak, reserved)
    return ClassAllocation(file, mapping, peak, liveness.pressure(file), bound, 0, "moves", peak <= bound)
