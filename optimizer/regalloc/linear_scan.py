"""Linear scan over live intervals with holes, register ranges, alignment, fixed and reserved registers.

Intervals are taken by their start. A register is free for an interval if no interval placed in it, nor any fixed one,
is live where the new one is (Wimmer and Franz, "Linear Scan Register Allocation on SSA Form", CGO 2010; holes as in
their section 6). The lowest free register is taken, so that the highest one used stays low. For intervals of one
register without holes that is optimal: first fit by start colours an interval graph with as many colours as it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from optimizer.regalloc.intervals import LiveInterval, segments_overlap


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


def linear_scan(
    intervals: Iterable[LiveInterval],
    capacity: int,
    reserved: Collection[int] = (),
    hints: Mapping[int, Sequence[int]] | None = None,
) -> dict[int, int] | AllocationFailure:
    """Interval -> first register, or the first interval that does not fit.

    `hints`: interval -> intervals whose first register it takes if that is free (moves that would vanish).
    """
    file = RegisterFile(capacity, reserved)
    ordered = sorted(intervals, key=lambda i: (i.start, -i.size, i.end, i.id))
    by_id = {interval.id: interval for interval in ordered}
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
        wanted = [assigned[h] for h in (hints or {}).get(interval.id, ()) if h in assigned and h in by_id]
        register = next((r for r in wanted if r % interval.alignment == 0 and file.is_free(interval, r)), None)
        if register is None:
            register = file.lowest_free(interval)
        if register is None:
            return _failure(interval, ordered, capacity, assigned)
        file.place(interval, register)
        assigned[interval.id] = register
    return assigned


class RegisterFile:
    """What is live where in each register."""

    def __init__(self, capacity: int, reserved: Collection[int] = ()) -> None:
        self._capacity = capacity
        self._reserved = frozenset(reserved)
        self._held: list[list[LiveInterval]] = [[] for _ in range(capacity)]

    def is_free(self, interval: LiveInterval, register: int) -> bool:
        """Whether the interval may begin at this register."""
        needed = range(register, register + interval.size)
        if register < 0 or register % interval.alignment or needed.stop > self._capacity:
            return False
        if interval.fixed is None and not self._reserved.isdisjoint(needed):
            return False
        return not any(segments_overlap(interval.segments, held.segments) for r in needed for held in self._held[r])

    def lowest_free(self, interval: LiveInterval) -> int | None:
        """The first register it may begin at, None if there is none."""
        return next((r for r in range(0, self._capacity, interval.alignment) if self.is_free(interval, r)), None)

    def place(self, interval: LiveInterval, register: int) -> None:
        for r in range(register, register + interval.size):
            self._held[r].append(interval)

    def remove(self, interval: LiveInterval, register: int) -> None:
        for r in range(register, register + interval.size):
            self._held[r].remove(interval)


def _failure(
    interval: LiveInterval, others: Sequence[LiveInterval], capacity: int, assigned: Mapping[int, int]
) -> AllocationFailure:
    overlapping = [o for o in others if o.id != interval.id and o.overlaps(interval)]
    overlapping.sort(key=lambda o: (-o.length, o.id))
    return AllocationFailure(interval, tuple(overlapping), capacity, dict(assigned))
