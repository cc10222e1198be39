"""From a program of block ops to C++: one straight list of passes.

block ops -> loop nests over tiles -> rows spread -> fused -> moved to stores -> siblings fused
          -> slots -> results placed -> loops -> inits -> TTKernel calls -> products in blocks -> C++
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import get_args

from optimizer.device import DeviceSpec
from optimizer.errors import UnknownNameError
from optimizer.kernels.tensix.buffers import available_l1, check_l1
from optimizer.kernels.tensix.dialect import is_block_op
from optimizer.kernels.tensix.dst.schedule import Schedule
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.passes import Pass
from optimizer.kernels.tensix.passes.assign_dst import Allocator, assign_dst
from optimizer.kernels.tensix.passes.block_products import block_products
from optimizer.kernels.tensix.passes.broadcasts import join_broadcasts, split_broadcasts, spread_rows
from optimizer.kernels.tensix.passes.convert_to_compute import convert_to_compute, inline_regions
from optimizer.kernels.tensix.passes.convert_to_ttkernel import convert_to_ttkernel
from optimizer.kernels.tensix.passes.fold_grid import fold_grid
from optimizer.kernels.tensix.passes.fuse_computes import fuse_computes
from optimizer.kernels.tensix.passes.fuse_siblings import fuse_siblings
from optimizer.kernels.tensix.passes.insert_inits import insert_inits
from optimizer.kernels.tensix.passes.lower_pipes import lower_pipes
from optimizer.kernels.tensix.passes.lower_to_loops import lower_to_loops
from optimizer.kernels.tensix.passes.place_results import place_results, place_sums, store_values
from optimizer.kernels.tensix.passes.plain_conditions import plain_conditions
from optimizer.kernels.tensix.passes.push_sections import Push, push_sections
from optimizer.kernels.tensix.passes.sink_to_stores import sink_to_stores
from optimizer.kernels.tensix.source.rules import check_source
from optimizer.kernels.tensix.verify import check
from optimizer.options import Options
from optimizer.process.work_limit import bounded, spend

MAX_STEPS, MAX_FILE_STEPS = 2_000_000, 5_000_000
"""Of work (`process.work_limit`), some 20 microseconds each: of all passes over a program, and over all programs of a
file."""
Observer = Callable[[str, Op], None]
"""Takes a stage's name and the program after it; `initial` is the program as given."""


@dataclass(frozen=True)
class KernelOptions:
    """What the kernel compiler may be told."""

    capacity: int | None = None
    """DST slots; by default what the program says (`passes.assign_dst.capacity_of`)."""
    allocator: Allocator = "default"
    """`seed`: the design document's algorithm to the letter."""
    l1_bytes: int | None = None
    """What circular buffers may take; by default what the program says, else what the board has."""
    fuse: bool = True
    """Keep values between block ops in DST."""
    schedule: Schedule | None = None
    """How the ops of a body are ordered; by default searched for, and as given with `allocator = "seed"`."""
    push: Push = "section"
    """When results are handed to the writer: section by section, or all at once when the block is done."""
    unroll: bool = False
    """Write sections and their tiles one after the other instead of in loops."""
    board: DeviceSpec = field(default_factory=partial(DeviceSpec.preset, Options.board))
    """What the kernel runs on."""

    def __post_init__(self) -> None:
        chosen = (("allocator", self.allocator, Allocator), ("push", self.push, Push))
        schedule = () if self.schedule is None else (("schedule", self.schedule, Schedule),)
        for name, value, choices in (*chosen, *schedule):
            if value not in get_args(choices):
                raise UnknownNameError(name, value, get_args(choices))

    def available_l1(self, program: Op) -> int:
        """Bytes that the circular buffers of a core may take."""
        return available_l1(self.stated(program), self.board.cb_limit_bytes)

    def stated(self, program: Op) -> Op:
        """The program with what is chosen here as if it said so itself."""
        chosen = {"dst_capacity": self.capacity, "l1_bytes": self.l1_bytes}
        return program.with_attrs(**{name: number for name, number in chosen.items() if number is not None})


def passes(options: KernelOptions) -> tuple[Pass, ...]:
    """The pipeline, in order."""
    siblings = partial(fuse_siblings, allocator=options.allocator, schedule=options.schedule)
    dst = partial(
        assign_dst,
        allocator=options.allocator,
        board_l1_bytes=options.board.cb_limit_bytes,
        schedule=options.schedule,
    )
    return (
        Pass("fold-grid", fold_grid),
        Pass("lower-pipes", lower_pipes),
        Pass("inline-regions", inline_regions),
        Pass("plain-conditions", plain_conditions),
        Pass("join-broadcasts", join_broadcasts),
        Pass("split-broadcasts", partial(split_broadcasts, computed=options.fuse)),
        Pass("convert-to-compute", convert_to_compute),
        Pass("spread-rows", spread_rows),
        *((Pass("fuse-computes", fuse_computes),) if options.fuse else ()),
        Pass("store-values", store_values),
        Pass("sink-to-stores", sink_to_stores),
        *((Pass("fuse-siblings", siblings),) if options.fuse else ()),
        Pass("assign-dst", dst),
        Pass("place-results", place_results),
        Pass("place-sums", place_sums),
        Pass("lower-to-loops", partial(lower_to_loops, unroll=options.unroll)),
        *((Pass("push-sections", push_sections),) if options.push == "section" else ()),
        Pass("insert-inits", insert_inits),
        Pass("convert-to-ttkernel", convert_to_ttkernel),
        Pass("block-products", block_products),
    )


def lower(
    program: Op,
    options: KernelOptions = KernelOptions(),
    observe: Observer | None = None,
    verify_passes: bool = True,
) -> Op:
    """The program as TTKernel calls. GraphError or LimitError if it is ill-formed or its circular buffers do not fit
    into L1; it is verified before the first pass and after the last one; with
    `verify_passes` after every one, so that the pass that broke it is named. LimitError, too, if that takes more than
    `MAX_STEPS`."""
    program = options.stated(program)
    check_source(program)
    name = program.string("sym_name")
    with bounded("compiling it", MAX_STEPS, name, ("fewer ops in a thread", "several kernels", "--no-fuse")):
        return _lowered(program, options, observe or _ignore, verify_passes)


def _ignore(stage: str, program: Op) -> None:
    """Observe nothing."""


def _lowered(program: Op, options: KernelOptions, observe: Observer, verify_passes: bool) -> Op:
    observe("initial", program)
    for step in passes(options):
        spend(sum(1 for _ in walk(program)))
        program = step.apply(program)
        if verify_passes:
            check(program)
        observe(step.name, program)
    if not verify_passes:
        check(program)
    check_l1(program, options.available_l1(program))
    return program


def round_trips_saved(stages: Mapping[str, Op]) -> int:
    """Round trips through L1 that fusion saves: results that block ops read, less those that still go through L1 from
    one compute to another."""
    blocks = [op for op in walk(inline_regions(stages["initial"])) if is_block_op(op)]
    read = {v.name for op in blocks for v in op.operands}
    before, after = (
        sum(op.name == "ttl.cb_wait" for op in walk(stages[name])) for name in ("initial", "place-results")
    )
    return sum(op.result.name in read for op in blocks) - (after - before)
