"""From a program on virtual registers to assembly: one straight list of passes.

virtual: loops, raw text -> ended, checked -> fused -> accumulators -> dead code -> pseudo-instructions
         -> loops rotated -> pipelined -> blocks scheduled -> allocated
physical: substituted -> vccz -> waits -> hazards -> text

What changes instructions comes first, on virtual registers, where single definitions make it easy to see what is safe.
Waits and hazards come last, on physical registers and with every instruction in place: two values that share a register
concern both, and every inserted s_waitcnt is a wait state for the hazards behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod

from optimizer.errors import LimitError, OptionError
from optimizer.kernels.amdgpu.debug import enabled, say
from optimizer.kernels.amdgpu.emit import WAVE, Footprint, footprint, kernel_text
from optimizer.kernels.amdgpu.errors import AllocationError
from optimizer.kernels.amdgpu.instruction_edits import substitute_registers
from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.operands import FILE_SIZES
from optimizer.kernels.amdgpu.passes.combining import (
    FUSIONS,
    commute_literals,
    fuse,
    init_accumulators,
    remove_dead_code,
)
from optimizer.kernels.amdgpu.passes.expansion import end_program, expand_control, expand_pseudos
from optimizer.kernels.amdgpu.passes.insert_waits import insert_waits
from optimizer.kernels.amdgpu.passes.loops import SHAPES, pipeline_loops, rotate_loops
from optimizer.kernels.amdgpu.passes.mitigate_hazards import mitigate_hazards, refresh_vccz
from optimizer.kernels.amdgpu.registers.allocate import Allocation, AllocationOptions, allocate
from optimizer.kernels.amdgpu.registers.allocation_log import log_allocation, log_failure
from optimizer.kernels.amdgpu.scheduling.dependences import MemoryOrder
from optimizer.kernels.amdgpu.scheduling.list_schedule import Limits, schedule_blocks
from optimizer.kernels.amdgpu.scheduling.occupancy import WAVES_PER_SIMD, occupancy, register_limits
from optimizer.kernels.amdgpu.targets import check_opcodes, check_target
from optimizer.kernels.amdgpu.validate import validate
from optimizer.process.work_limit import bounded, spend

MAX_STEPS, MAX_SCHEDULING_STEPS = 2_200_000, 700_000
"""Of work (`process.work_limit`), some 30 microseconds each: of all passes over a program, and of scheduling it. A
program of 30,000 instructions that needs no rewriting takes two thirds."""

Observer = Callable[[str, Program], None]
"""Takes a stage's name and the program after it; `initial` is the program as given."""


@dataclass(frozen=True)
class AssemblyOptions:
    """What the back end may be told."""

    mcpu: str = "gfx942"
    allow_spill: bool = False
    """Spill values for which there is no register, with a warning that says what that costs."""

    fuse: bool = True
    """Shifts with additions and ors, and ors with ors, as one instruction."""
    remove_dead_code: bool = False
    """Drop instructions whose results nothing reads. Off by default: what a program says is what it gets."""
    loads_at_barriers: bool = True
    """False: loads and stores never touch the same memory, see `passes.insert_waits.insert_waits`; scheduling then lets
    loads pass stores and barriers."""
    schedule: bool = True
    """Order instructions so that they wait less; registers stay within what `waves` leaves."""
    pipeline_loops: bool = True
    """With `schedule`: loops load for their next round."""
    waves: int | None = None
    """Waves per SIMD that scheduling leaves room for; None: as many as the program as it is written."""

    def __post_init__(self) -> None:
        check_target(self.mcpu)
        if self.waves is not None and not 1 <= self.waves <= WAVES_PER_SIMD:
            raise OptionError(f"{self.waves} waves per SIMD: 1 to {WAVES_PER_SIMD}", limit=WAVES_PER_SIMD)


@dataclass(frozen=True)
class Assembly:
    """A kernel in all its forms."""

    text: str
    """The complete source file."""
    program: Program
    """What the text says, on physical registers."""
    allocation: Allocation
    footprint: Footprint
    warnings: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Pass:
    """A rewrite of a program."""

    name: str
    """As logs and observers call it."""
    apply: Callable[[Program], Program]


def _run(steps: Iterable[Pass], program: Program, tell: Observer) -> Program:
    for step in steps:
        spend(len(program.body))
        before, program = program, step.apply(program)
        if enabled("passes"):
            sizes = len(before.body), len(program.body)
            say("passes", f"{step.name}: {sizes[0]} -> {sizes[1]} items", step=step.name, items=sizes)
        tell(step.name, program)
    return program


_ATTEMPTS = ((6, 0), (5, 0), (3, 0), (2, 0), (0, 8), (0, 1 << 10))
"""What is tried, one after the other, until registers are found: (forms that loops may take, by how many registers the
limits are lowered)."""


def _ignore(name: str, program: Program) -> None:
    """The observer that nobody asked for."""


def virtual_passes(options: AssemblyOptions) -> tuple[Pass, ...]:
    """Before allocation."""
    fusions = tuple(Pass(name, partial(fuse, fusion=fusion)) for name, fusion in FUSIONS.items())
    return (
        Pass("expand-control", expand_control),
        Pass("end-program", end_program),
        Pass("check-opcodes", partial(check_opcodes, mcpu=options.mcpu)),
        Pass("commute-literals", commute_literals),
        Pass("validate", validate),
        *(fusions if options.fuse else ()),
        Pass("init-accumulators", init_accumulators),
        *((Pass("remove-dead-code", remove_dead_code),) if options.remove_dead_code else ()),
        Pass("expand-pseudos", expand_pseudos),
    )


def scheduling_passes(
    program: Program, options: AssemblyOptions, limits: Limits, shapes: tuple[tuple[int, int], ...] = SHAPES
) -> tuple[Pass, ...]:
    """Between the two, for registers of each class that may be live at once."""
    order = MemoryOrder(not options.loads_at_barriers, several_waves=prod(program.launch.workgroup) > WAVE)
    pipelined = partial(pipeline_loops, limits=limits, order=order, shapes=shapes)
    return (
        Pass("rotate-loops", rotate_loops),
        *((Pass("pipeline-loops", pipelined),) if options.pipeline_loops else ()),
        Pass("schedule-blocks", partial(schedule_blocks, limits=limits, order=order)),
    )


def physical_passes(allocation: Allocation, options: AssemblyOptions) -> tuple[Pass, ...]:
    """After allocation."""
    return (
        Pass("substitute-registers", partial(substitute_registers, mapping=allocation.mapping)),
        Pass("refresh-vccz", refresh_vccz),
        Pass("insert-waits", partial(insert_waits, loads_at_barriers=options.loads_at_barriers)),
        Pass("mitigate-hazards", partial(mitigate_hazards, mcpu=options.mcpu)),
    )


def _scheduled(program: Program, plain: Allocation, options: AssemblyOptions, tell: Observer) -> Allocation:
    """Registers of the program in a better order, if as many waves run with it; else those that it has as it is."""
    taken = _footprint(plain)
    waves = min(occupancy(taken, program.launch, options.mcpu), options.waves or WAVES_PER_SIMD)
    limits = register_limits(program, taken, waves)
    tried: tuple[Program, int] | None = None
    for shapes, fewer in _ATTEMPTS:
        tighter = {file: max(limits[file] - fewer, plain.classes[file].pressure) for file in limits}
        *loops, blocks = scheduling_passes(program, options, tighter, SHAPES[:shapes])
        looped = _run(loops, program, tell)
        if (looped, fewer) == tried:
            continue
        tried = looped, fewer
        ordered = _run((blocks,), looped, tell)
        # Fewer registers than leave as many waves are of no use: they are searched for only where too many are taken.
        for effort in (0, 1):
            try:
                found = allocate(ordered, AllocationOptions(rewrite=False, effort=effort))
            except AllocationError:
                continue
            if occupancy(_footprint(found), program.launch, options.mcpu) >= waves:
                return found
    return plain


def _footprint(allocation: Allocation) -> Footprint:
    return footprint(substitute_registers(allocation.program, allocation.mapping))


def build(program: Program, options: AssemblyOptions = AssemblyOptions(), observe: Observer | None = None) -> Assembly:
    """All passes. OpcodeError, OperandError, ControlFlowError, SsaError; AllocationError if registers run out;
    LimitError if that takes more than `MAX_STEPS`."""
    with bounded("all passes over it together", MAX_STEPS, program.name, ("a shorter program", "several kernels")):
        return _build(program, options, observe or _ignore)


def _build(program: Program, options: AssemblyOptions, tell: Observer) -> Assembly:
    tell("initial", program)
    program = replace(
        program,
        max_vgprs=min(program.max_vgprs, FILE_SIZES["v"]),
        max_sgprs=min(program.max_sgprs, FILE_SIZES["s"]),
        max_agprs=min(program.max_agprs, FILE_SIZES["a"]),
    )
    program = _run(virtual_passes(options), program, tell)
    try:
        allocation = allocate(program, AllocationOptions(allow_spill=options.allow_spill))
    except AllocationError as error:
        log_failure(program, error)
        raise
    warnings = allocation.warnings
    if options.schedule:
        try:
            with bounded("scheduling it", MAX_SCHEDULING_STEPS, program.name):
                allocation = _scheduled(program, allocation, options, tell)
        except LimitError as error:
            warnings += (f"the instructions stay in their order: {error}",)
    log_allocation(allocation)
    tell("allocate", allocation.program)
    program = _run(physical_passes(allocation, options), allocation.program, tell)
    text = kernel_text(program, options.mcpu)
    return Assembly(text, program, allocation, footprint(program), warnings)
