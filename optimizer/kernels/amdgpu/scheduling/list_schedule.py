"""Instructions of each block in an order in which they wait less: loads early, their uses late (list scheduling).

The next instruction is one that need not wait, of those the most urgent one. Urgency is the longest way of delays to
the end of the run. What would need more registers than there may be comes after everything that does not; if the order
still needs more, it is made again for fewer.

Nothing moves over a label, a branch, a change of exec, a wait, an s_nop or s_memtime. Registers stay within the limits;
an order is taken only where the model of one wave (`scheduling.machine`) finds it faster than the one that was written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from optimizer.kernels.amdgpu.cfg import ControlFlowGraph, build_cfg
from optimizer.kernels.amdgpu.ir import Instruction, Item, Label, Program
from optimizer.kernels.amdgpu.opcodes import opcode
from optimizer.kernels.amdgpu.operands import FILES, Register
from optimizer.kernels.amdgpu.registers.liveness import Liveness, analyse, live_in_aliases
from optimizer.kernels.amdgpu.scheduling.dependences import (
    Dependences,
    MemoryOrder,
    dependences,
    is_movable,
    prescribed_homes,
)
from optimizer.kernels.amdgpu.scheduling.machine import ISSUE, Machine, busy, latency, unit
from optimizer.process.work_limit import spend

# -- registers that an order needs -----------------------------------------------------------------------
Limits = Mapping[str, int]
"""Registers of each class that may be live at once."""
Change = tuple[int, ...]
"""By class, in the order of `FILES`."""


@dataclass
class Pressure:
    """Registers live while the instructions of a run are placed one by one, by number, from the first on."""

    items: Sequence[Instruction]
    live: frozenset[Register]
    """At the start of the run."""
    needed: frozenset[Register]
    """At its end."""
    peak: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._used = [tuple(dict.fromkeys(item.used)) for item in self.items]
        self._defined = [tuple(dict.fromkeys(item.defined)) for item in self.items]
        self._early = [opcode(item.name).early_clobber for item in self.items]
        self._uses = Counter(r for found in self._used for r in found)
        self._definitions = Counter(r for found in self._defined for r in found)
        self._live = set(self.live)
        self._count = dict.fromkeys(FILES, 0)
        for register in self._live:
            self._count[register.file] += 1
        self.peak = dict(self._count)
        self._changes: dict[int, Change] = {}
        """By number, as long as they hold."""
        self._touching: dict[Register, list[int]] = {}
        for n, registers in enumerate(zip(self._used, self._defined, strict=True)):
            for register in dict.fromkeys((*registers[0], *registers[1])):
                self._touching.setdefault(register, []).append(n)

    def change(self, n: int) -> Change:
        """Registers of each class more, or less, that hold something just behind an instruction if it came next, its
        results included."""
        found = self._changes.get(n)
        if found is None:
            counts = dict.fromkeys(FILES, 0)
            ended = [] if self._early[n] else [r for r in self._used[n] if self._ends(r)]
            for register in ended:
                counts[register.file] -= 1
            for register in self._defined[n]:
                if register not in self._live or register in ended:
                    counts[register.file] += 1
            found = self._changes[n] = tuple(counts[file] for file in FILES)
        return found

    def place(self, n: int) -> None:
        """Make an instruction the next one."""
        for file, more in zip(FILES, self.change(n), strict=True):
            self.peak[file] = max(self.peak[file], self._count[file] + more)
        touched = dict.fromkeys((*self._used[n], *self._defined[n]))
        before = [(r in self._live, self._ends(r)) for r in touched]
        for register in [r for r in self._used[n] if self._ends(r)]:
            self._live.discard(register)
            self._count[register.file] -= 1
        self._uses.subtract(self._used[n])
        self._definitions.subtract(self._defined[n])
        for register in self._defined[n]:
            if register not in self._live and self._is_wanted(register):
                self._live.add(register)
                self._count[register.file] += 1
        for register, state in zip(touched, before, strict=True):
            if state != (register in self._live, self._ends(register)):
                for other in self._touching[register]:
                    self._changes.pop(other, None)

    def room(self, limits: Limits) -> tuple[int, ...]:
        """Registers of each class that are left within limits; below zero where there are none."""
        return tuple(limits[file] - self._count[file] for file in FILES)

    def _is_wanted(self, register: Register) -> bool:
        return self._uses[register] > 0 or (register in self.needed and self._definitions[register] == 0)

    def _ends(self, register: Register) -> bool:
        """Whether no later instruction reads a register than one that does: it is read for the last time, or will be
        written before."""
        if register not in self._live or self._uses[register] != 1:
            return False
        return register not in self.needed or self._definitions[register] > 0


def excess(counts: Limits, limits: Limits) -> int:
    """Registers beyond the limits, over all classes."""
    return sum(max(0, counts[file] - limits[file]) for file in FILES)


# -- orders ----------------------------------------------------------------------------------------------
_TRIES = 4
_READY_PER_STEP = 4
_ROUNDS = 4
"""Of a loop whose body is the run, for the cycles of one."""


@dataclass(frozen=True)
class Run:
    """Instructions that come one after the other, and what is around them."""

    graph: Dependences
    live: frozenset[Register]
    needed: frozenset[Register]
    again: bool = False
    """It is the body of a loop."""

    @property
    def items(self) -> tuple[Instruction, ...]:
        return self.graph.items

    def cycles(self, order: Sequence[int]) -> int:
        """Of one wave, in an order; of a loop's body, several rounds. Until everything that is needed is there."""
        machine = Machine()
        spend(2 * len(order))
        for _ in range(_ROUNDS if self.again else 1):
            machine.run(self.items[n] for n in order)
        return machine.settled(self.needed)

    def peak(self, order: Sequence[int]) -> dict[str, int]:
        """Most registers of each class that are live at once."""
        pressure = Pressure(self.items, self.live, self.needed)
        for n in order:
            pressure.place(n)
        return pressure.peak


def best_order(run: Run, limits: Limits) -> list[int]:
    """The order that takes fewest cycles of those found within the limits; the given one unless another is better."""
    given = list(range(len(run.items)))
    room = run.peak(given)
    room = {file: max(limits[file], room[file]) for file in FILES}
    best, cycles = given, run.cycles(given)
    aim = dict(limits)
    for _ in range(_TRIES):
        order = _ordered(run, aim)
        peak = run.peak(order)
        if excess(peak, room) == 0 and (taken := run.cycles(order)) < cycles:
            best, cycles = order, taken
        if excess(peak, aim) == 0:
            break
        aim = {file: aim[file] - max(0, peak[file] - limits[file]) for file in FILES}
    return best


def _heights(run: Run) -> list[int]:
    """Cycles from the issue of each instruction until all that depends on it is done."""
    heights = [0] * len(run.items)
    for n in reversed(range(len(run.items))):
        item = run.items[n]
        needed = not run.needed.isdisjoint(item.defined)
        ways = [cycles + heights[later] for later, cycles in run.graph.after[n].items()]
        heights[n] = max([latency(item) if needed else ISSUE, *ways])
    return heights


def _ordered(run: Run, limits: Limits) -> list[int]:
    heights = _heights(run)
    units = [unit(item) for item in run.items]
    missing = [len(sources) for sources in run.graph.before]
    earliest = [0] * len(run.items)
    ready = {n for n, count in enumerate(missing) if not count}
    free: dict[str | None, int] = dict.fromkeys(units, 0)
    pressure = Pressure(run.items, run.live, run.needed)
    clock = 0
    order: list[int] = []
    while ready:
        spend(len(ready) // _READY_PER_STEP + 1)
        room, now = pressure.room(limits), clock

        def key(n: int, room: Change = room, now: int = now) -> tuple[int, int, int, int]:
            """What comes first: fits into the registers, need not wait, most urgent, as it was written."""
            beyond = 0
            for more, left in zip(pressure.change(n), room, strict=True):
                if more > left:
                    beyond += more - left
            return beyond, max(now, earliest[n], free[units[n]]), -heights[n], n

        chosen = min(ready, key=key)
        item = run.items[chosen]
        issued = key(chosen)[1]
        if units[chosen] is not None:
            free[units[chosen]] = issued + busy(item)
        pressure.place(chosen)
        ready.discard(chosen)
        order.append(chosen)
        clock = issued + ISSUE
        for later, cycles in run.graph.after[chosen].items():
            earliest[later] = max(earliest[later], issued + cycles)
            missing[later] -= 1
            if not missing[later]:
                ready.add(later)
    return order


# -- blocks ----------------------------------------------------------------------------------------------
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
        first = program.body[block.start] if block else None
        if labels is not None and not (isinstance(first, Label) and first.name in labels):
            continue
        whole = sum(item.name != "_comment" for _, item in program.at(block)) - 1
        live, end = _live_out(cfg, liveness, b), block.stop
        for places in reversed(list(_movable_runs(program.body, block))):
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
