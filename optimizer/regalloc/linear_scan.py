"""Linear scan over live intervals with holes, register ranges, alignment, fixed and reserved registers.

Intervals are taken by their start. A register is free for an interval if no interval placed in it, nor any fixed one,
is live where the new one is (Wimmer and Franz, "Linear Scan Register Allocation on SSA Form", CGO 2010; holes as in
their section 6). The lowest free register is taken, so that the highest one used stays low. For intervals of one
register without holes that is optimal: first fit by start colours an interval graph with as many colours as it needs.
So it is with holes for strict SSA if points are numbered so that dominators come first: live ranges are subtrees of the
dominator tree then, what is live at a definition is a clique, and their interference graph is chordal (Hack, Grund and
Goos, "Register Allocation for Programs in SSA Form", CC 2006).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.process.work_limit import spend
from optimizer.regalloc.intervals import LiveInterval, RegisterFile, Timeline

_INTERVALS_PER_STEP = 4096
"""Whose points, as bit sets, take as long as an interval of its own."""


@dataclass(frozen=True)
class AllocationFailure:
    """The answer where no register is left for an interval: callers split, spill, search or report it."""

    interval: LiveInterval
    overlapping: tuple[LiveInterval, ...]
    """Those live together with it, longest first."""
    capacity: int
    assigned: Mapping[int, int]
    """Interval -> first register, of those placed before."""

    def __str__(self) -> str:
        return (
            f"no {self.interval.size} consecutive of {self.capacity} registers are free for interval "
            f"{self.interval.id} [{self.interval.start}, {self.interval.end}), which overlaps "
            f"{len(self.overlapping)} others"
        )


@dataclass(frozen=True, slots=True)
class Hint:
    """A wish: the first register of `interval`, plus `shift`."""

    interval: int
    shift: int = 0


Hints = Mapping[int, Sequence[Hint]]
"""Interval -> wishes, which come true where the register is free (moves that would vanish); earlier ones first."""
Order = Callable[[LiveInterval], Any]


def by_start(interval: LiveInterval) -> tuple[int, int, int, int]:
    """The order of linear scan."""
    return interval.start, -interval.size, interval.end, interval.id


def large_first(interval: LiveInterval) -> tuple[int, int, int, int]:
    """Ranges before single registers, each by start: a range never finds its place broken up by single ones."""
    return -interval.size, interval.start, interval.end, interval.id


def long_first(interval: LiveInterval) -> tuple[int, int, int, int]:
    """By what an interval takes, registers times points."""
    return -interval.size * interval.length, interval.start, interval.end, interval.id


def linear_scan(
    intervals: Iterable[LiveInterval],
    capacity: int,
    reserved: Collection[int] = (),
    hints: Hints | None = None,
    order: Order = by_start,
) -> dict[int, int] | AllocationFailure:
    """Interval -> first register, or the first interval that does not fit."""
    ordered = sorted(intervals, key=order)
    spend(len(ordered) * (1 + len(ordered) // _INTERVALS_PER_STEP))
    file = RegisterFile(Timeline(ordered), capacity, reserved)
    assigned: dict[int, int] = {}
    for interval in ordered:
        if interval.fixed is not None:
            if not file.is_free(interval, interval.fixed):
                return _failure(interval, ordered, capacity, assigned)
            file.place(interval, interval.fixed)
            assigned[interval.id] = interval.fixed
    for interval in ordered:
        if interval.fixed is not None:
            continue
        wishes = (hints or {}).get(interval.id, ())
        wanted = [assigned[wish.interval] + wish.shift for wish in wishes if wish.interval in assigned]
        register = next((r for r in wanted if file.is_free(interval, r)), None)
        if register is None:
            register = file.lowest_free(interval)
        if register is None:
            return _failure(interval, ordered, capacity, assigned)
        file.place(interval, register)
        assigned[interval.id] = register
    return assigned


def _failure(
    interval: LiveInterval, others: Sequence[LiveInterval], capacity: int, assigned: Mapping[int, int]
) -> AllocationFailure:
    overlapping = [o for o in others if o.id != interval.id and o.overlaps(interval)]
    overlapping.sort(key=lambda o: (-o.length, o.id))
    return AllocationFailure(interval, tuple(overlapping), capacity, dict(assigned))
