"""Instructions of each block in an order in which they wait less: loads early, their uses late (list scheduling).

Nothing moves over a label, a branch, a change of exec, a wait, an s_nop or s_memtime. Registers stay within the limits;
an order is taken only where the model of one wave (`scheduling.machine`) finds it faster than the one that was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from optimizer.kernels.amdgpu.cfg import ControlFlowGraph, build_cfg
from optimizer.kernels.amdgpu.ir import Instruction, Item, Label, Program
from optimizer.kernels.amdgpu.operands import Register
from optimizer.kernels.amdgpu.registers.liveness import Liveness, analyse, live_in_aliases
from optimizer.kernels.amdgpu.scheduling.dependences import MemoryOrder, dependences, is_movable, prescribed_homes
from optimizer.kernels.amdgpu.scheduling.list_schedule import Run, best_order
from optimizer.kernels.amdgpu.scheduling.pressure import Limits

LONGEST_RUN = 256
"""Instructions that are ordered at once; a longer run is cut."""


def schedule_blocks(program: Program, limits: Limits, order: MemoryOrder) -> Program:
    """On virtual registers. `limits`: registers of each class that may be live at once, unless more are as it is."""
    body = list(program.body)
    for found in runs(program, order):
        chosen = best_order(found.run, limits)
        for place, n in zip(found.places, chosen, strict=True):
            body[place] = found.run.items[n]
    return program.with_body(tuple(body))


@dataclass(frozen=True)
class PlacedRun:
    """A run and where its instructions stand."""

    places: tuple[int, ...]
    run: Run


def runs(program: Program, order: MemoryOrder, labels: frozenset[str] | None = None) -> Iterator[PlacedRun]:
    """Every run of two and more instructions that may change places; `labels`: only those of blocks that begin so."""
    cfg = build_cfg(program)
    liveness = analyse(program, cfg)
    aliases = live_in_aliases(program)
    homes = prescribed_homes(program)
    for b, block in enumerate(cfg.blocks):
        first = program.body[block.start] if block.items else None
        if labels is not None and not (isinstance(first, Label) and first.name in labels):
            continue
        whole = sum(item.name != "_comment" for _, item in program.at(block.items)) - 1
        live, end = _live_out(cfg, liveness, b), block.end
        for places in reversed(list(_movable_runs(program.body, block.items))):
            for _, item in program.at(reversed(range(places[-1] + 1, end))):
                live = _before(item, live, aliases)
            items = [item for _, item in program.at(places)]
            needed, end = live, places[0]
            for item in reversed(items):
                live = _before(item, live, aliases)
            again = b in cfg.flow.successors[b] and len(items) == whole
            if len(items) > 1:
                yield PlacedRun(tuple(places), Run(dependences(items, order, homes), live, needed, again))


def _live_out(cfg: ControlFlowGraph, liveness: Liveness, block: int) -> frozenset[Register]:
    return frozenset[Register]().union(*(liveness.live_in(s) for s in cfg.flow.successors[block]))


def _before(item: Instruction, live: frozenset[Register], aliases: dict[Register, Register]) -> frozenset[Register]:
    """What is live before an instruction."""
    return (live - set(item.defined)) | {aliases.get(r, r) for r in item.used}


def _movable_runs(body: tuple[Item, ...], places: range) -> Iterator[list[int]]:
    """Places of instructions that may change places; comments stay where they are."""
    run: list[int] = []
    for place in places:
        item = body[place]
        if isinstance(item, Instruction) and is_movable(item):
            run.append(place)
            if len(run) < LONGEST_RUN:
                continue
        elif isinstance(item, Instruction) and item.name == "_comment":
            continue
        if run:
            yield run
        run = []
    if run:
        yield run
