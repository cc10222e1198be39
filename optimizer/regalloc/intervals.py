"""Live intervals with holes, in plain integers; which points each register is taken at, as bit sets, and first fit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from optimizer.errors import StateError

# -- intervals -------------------------------------------------------------------------------------------
Segment = tuple[int, int]
"""Half-open: live at `start`, no longer live at `end`."""


@dataclass(frozen=True, slots=True)
class LiveInterval:
    """When a value needs its registers, and which it may take."""

    id: int
    segments: tuple[Segment, ...]
    """Ascending and disjoint; the gaps are lifetime holes."""
    size: int = 1
    """Consecutive registers."""
    alignment: int = 1
    """The first register's number is a multiple of it, plus `phase`."""
    fixed: int | None = None
    """First register, if it is prescribed."""
    phase: int = 0
    components: tuple[tuple[Segment, ...], ...] = ()
    """When each single register is live, where they differ; `segments` is their union. A component may never be."""

    def __post_init__(self) -> None:
        if not self.segments:
            raise StateError(f"interval {self.id} is never live")
        flat = [point for segment in self.segments for point in segment]
        if flat != sorted(flat) or any(start >= end for start, end in self.segments):
            raise StateError(f"segments of interval {self.id} are not ascending and disjoint: {self.segments}")
        if self.size < 1 or self.alignment < 1 or not 0 <= self.phase < self.alignment:
            raise StateError(
                f"interval {self.id} has size {self.size}, alignment {self.alignment} and phase {self.phase}"
            )
        if self.components and len(self.components) != self.size:
            raise StateError(f"interval {self.id} has size {self.size}, but {len(self.components)} components")

    @property
    def start(self) -> int:
        return self.segments[0][0]

    @property
    def end(self) -> int:
        return self.segments[-1][1]

    @property
    def length(self) -> int:
        """Points at which it is live."""
        return sum(end - start for start, end in self.segments)

    @property
    def parts(self) -> tuple[tuple[Segment, ...], ...]:
        """Segments of every single register."""
        return self.components or (self.segments,) * self.size

    def overlaps(self, other: LiveInterval) -> bool:
        """Whether both are live at some point."""
        return segments_overlap(self.segments, other.segments)


def segments_overlap(a: Sequence[Segment], b: Sequence[Segment]) -> bool:
    """Whether two ascending lists of segments share a point."""
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i][0] < b[j][1] and b[j][0] < a[i][1]:
            return True
        if a[i][1] <= b[j][1]:
            i += 1
        else:
            j += 1
    return False


def union(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """Segments joined where they touch or overlap."""
    joined: list[Segment] = []
    for start, end in sorted(segments):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return tuple(joined)


def pressure(intervals: Iterable[LiveInterval]) -> int:
    """Most registers needed at one point: no allocation uses fewer."""
    events: dict[int, int] = {}
    for interval in intervals:
        for part in interval.parts:
            for start, end in part:
                events[start] = events.get(start, 0) + 1
                events[end] = events.get(end, 0) - 1
    live = highest = 0
    for point in sorted(events):
        live += events[point]
        highest = max(highest, live)
    return highest


# -- registers over time ---------------------------------------------------------------------------------
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
