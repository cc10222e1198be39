"""List scheduling of a straight run: the next instruction is one that need not wait, of those the most urgent one.

Urgency is the longest way of delays to the end of the run. What would need more registers than there may be comes
after everything that does not; if the order still needs more, it is made again for fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.kernels.amdgpu.ir import Instruction
from optimizer.kernels.amdgpu.operands import Register
from optimizer.kernels.amdgpu.scheduling.dependences import Dependences
from optimizer.kernels.amdgpu.scheduling.latencies import ISSUE, busy, latency, unit
from optimizer.kernels.amdgpu.scheduling.machine import Machine
from optimizer.kernels.amdgpu.scheduling.pressure import FILES, Change, Limits, Pressure, excess
from optimizer.process.work_limit import spend

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
