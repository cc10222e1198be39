"""Which points each register is taken at, as bit sets, and first-fit into them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from optimizer.regalloc.intervals import LiveInterval, Segment


class Timeline:
    """The points at which anything begins or ends, numbered: a set of points is an integer."""

    def __init__(self, intervals: Iterable[LiveInterval]) -> None:
        points = {p for i in intervals for part in (i.segments, *i.components) for segment in part for p in segment}
        self._rank = {point: n for n, point in enumerate(sorted(points))}
        self._masks: dict[int, tuple[int, ...]] = {}

    def mask(self, segments: Sequence[Segment]) -> int:
        """Bit set of the points in some segments."""
        rank = self._rank
        found = 0
        for start, end in segments:
            found += (1 << rank[end]) - (1 << rank[start])
        return found

    def masks(self, interval: LiveInterval) -> tuple[int, ...]:
        """Bit set per single register of an interval."""
        found = self._masks.get(interval.id)
        if found is None:
            if interval.components:
                found = tuple(map(self.mask, interval.components))
            else:
                found = (self.mask(interval.segments),) * interval.size
            self._masks[interval.id] = found
        return found


class RegisterFile:
    """Registers 0..capacity-1 over time. Reserved ones are only for intervals with fixed registers."""

    def __init__(self, timeline: Timeline, capacity: int, reserved: Collection[int] = ()) -> None:
        self._timeline = timeline
        self._capacity = capacity
        self._usable = [r not in reserved for r in range(capacity)]
        self._taken = [0] * capacity

    def is_free(self, interval: LiveInterval, register: int) -> bool:
        """Whether the interval may begin at this register."""
        end = register + interval.size
        if register < 0 or register % interval.alignment != interval.phase or end > self._capacity:
            return False
        if interval.fixed is None and not all(self._usable[register:end]):
            return False
        taken = self._taken
        for r, mask in enumerate(self._timeline.masks(interval), register):  # noqa: SIM110 - the hot loop
            if taken[r] & mask:
                return False
        return True

    def lowest_free(self, interval: LiveInterval) -> int | None:
        """The first register it may begin at, None if there is none."""
        if interval.size == 1 and interval.alignment == 1:
            mask = self._timeline.masks(interval)[0]
            for register, taken in enumerate(self._taken):
                if not taken & mask and self._usable[register]:
                    return register
            return None
        places = range(interval.phase, self._capacity - interval.size + 1, interval.alignment)
        return next((r for r in places if self.is_free(interval, r)), None)

    def place(self, interval: LiveInterval, register: int) -> None:
        for r, mask in enumerate(self._timeline.masks(interval), register):
            self._taken[r] |= mask

    def remove(self, interval: LiveInterval, register: int) -> None:
        for r, mask in enumerate(self._timeline.masks(interval), register):
            self._taken[r] &= ~mask
