"""Live intervals with holes, in plain integers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from optimizer.errors import StateError

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
    """The first register's number is a multiple of it."""
    fixed: int | None = None
    """First register, if it is prescribed."""

    def __post_init__(self) -> None:
        if not self.segments:
            raise StateError(f"interval {self.id} is never live")
        flat = [point for segment in self.segments for point in segment]
        if flat != sorted(flat) or any(start >= end for start, end in self.segments):
            raise StateError(f"segments of interval {self.id} are not ascending and disjoint: {self.segments}")
        if self.size < 1 or self.alignment < 1:
            raise StateError(f"interval {self.id} has size {self.size} and alignment {self.alignment}")

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
        for start, end in interval.segments:
            events[start] = events.get(start, 0) + interval.size
            events[end] = events.get(end, 0) - interval.size
    live = highest = 0
    for point in sorted(events):
        live += events[point]
        highest = max(highest, live)
    return highest
