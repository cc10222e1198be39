"""Search for an allocation in a given number of registers by placing, evicting what is in the way, placing that again.

An interval that finds no place takes the one where the intervals in its way weigh least; they go back to the queue.
Each eviction makes the evicted heavier ("breakout", Morris 1993), so that the search does not go in circles: intervals
that are hard to place end up staying, the others move around them. Deterministic; ends after a fixed amount of work.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping

from optimizer.process.work_limit import spend
from optimizer.regalloc.intervals import LiveInterval
from optimizer.regalloc.register_file import Timeline

_PLACES_PER_STEP = 64
Work = list[int]
"""One number: comparisons of point sets that are left."""
STAYING = 4
"""How much heavier intervals are that hold a place already: moving one of them costs something."""


def evicting_scan(
    intervals: Iterable[LiveInterval],
    capacity: int,
    reserved: Collection[int],
    work: Work,
    held: Mapping[int, int] | None = None,
) -> dict[int, int] | None:
    """Interval -> first register; None if none was found before the work ran out.

    `held`: intervals that begin in a register, and stay there unless that costs others too much.
    """
    values = sorted(intervals, key=lambda i: i.id)
    search = _Search(values, capacity, reserved, work)
    return search.run(held or {})


class _Search:
    def __init__(self, values: list[LiveInterval], capacity: int, reserved: Collection[int], work: Work) -> None:
        self._values = {v.id: v for v in values}
        self._timeline = Timeline(values)
        self._held: list[dict[int, int]] = [{} for _ in range(capacity)]
        """Register -> interval -> the points it is held at."""
        self._taken = [0] * capacity
        self._capacity = capacity
        self._reserved = frozenset(reserved)
        self._weight = {v.id: v.size for v in values}
        self._assigned: dict[int, int] = {}
        self._work = work

    def run(self, held: Mapping[int, int]) -> dict[int, int] | None:
        queue: list[tuple[int, int, int, int]] = []
        for v in self._values.values():
            if v.fixed is None:
                continue
            if v.fixed + v.size > self._capacity or self._blockers(v, v.fixed):
                return None
            self._place(v, v.fixed)
        for v in self._values.values():
            if v.fixed is not None:
                continue
            if v.id in held and held[v.id] in self._places(v) and not self._blockers(v, held[v.id]):
                self._weight[v.id] *= STAYING
                self._place(v, held[v.id])
            else:
                heapq.heappush(queue, self._key(v))
        while queue:
            value = self._values[heapq.heappop(queue)[-1]]
            place = self._best_place(value)
            if place is None or self._work[0] <= 0:
                return None
            for other in self._blockers(value, place):
                self._remove(self._values[other])
                self._weight[other] += 1
                heapq.heappush(queue, self._key(self._values[other]))
            self._place(value, place)
        return self._assigned

    def _key(self, value: LiveInterval) -> tuple[int, int, int, int]:
        return -value.size, value.start, value.end, value.id

    def _places(self, value: LiveInterval) -> Iterable[int]:
        for r in range(value.phase, self._capacity - value.size + 1, value.alignment):
            if self._reserved.isdisjoint(range(r, r + value.size)):
                yield r

    def _best_place(self, value: LiveInterval) -> int | None:
        """The lowest free place, else the one whose blockers weigh least; None if all hold fixed intervals."""
        masks = self._timeline.masks(value)
        places = list(self._places(value))
        spend(1 + len(places) // _PLACES_PER_STEP)
        self._work[0] -= len(places)
        for r in places:
            if not any(taken & mask for taken, mask in zip(self._taken[r : r + value.size], masks, strict=True)):
                return r
        best: tuple[int, int] | None = None
        for r in places:
            blockers = self._blockers(value, r)
            if any(self._values[b].fixed is not None for b in blockers):
                continue
            cost = sum(self._weight[b] for b in blockers)
            if best is None or cost < best[0]:
                best = cost, r
        return None if best is None else best[1]

    def _blockers(self, value: LiveInterval, register: int) -> list[int]:
        found: dict[int, None] = {}
        for r, mask in enumerate(self._timeline.masks(value), register):
            if self._taken[r] & mask:
                self._work[0] -= len(self._held[r])
                found.update((other, None) for other, points in self._held[r].items() if points & mask)
        return list(found)

    def _place(self, value: LiveInterval, register: int) -> None:
        for r, mask in enumerate(self._timeline.masks(value), register):
            self._held[r][value.id] = mask
            self._taken[r] |= mask
        self._assigned[value.id] = register

    def _remove(self, value: LiveInterval) -> None:
        register = self._assigned.pop(value.id)
        for r, mask in enumerate(self._timeline.masks(value), register):
            del self._held[r][value.id]
            self._taken[r] &= ~mask
