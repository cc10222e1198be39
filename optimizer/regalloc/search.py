"""Two searches for an allocation in a given number of registers, deterministic, of a fixed amount of work at most.

By eviction: an interval that finds no place takes the one where the intervals in its way weigh least; they go back to
the queue. Each eviction makes the evicted heavier ("breakout", Morris 1993), so that the search does not go in circles:
intervals that are hard to place end up staying, the others move around them.

Exactly, depth first with forward checking: every interval has the set of first registers it may still begin at, as the
bits of an integer. Placing one removes from its neighbours what would overlap, by a shift and a mask. The interval with
the fewest places left per weight goes first; weights grow with every dead end and survive restarts (dom/wdeg,
Boussemart et al., "Boosting Systematic Search by Weighting Constraints", ECAI 2004). Contiguous placement is NP-hard
for sizes 1 and 2 already, so the work is limited, by number of steps and not by time.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from optimizer.process.work_limit import spend
from optimizer.regalloc.intervals import LiveInterval, Timeline

# -- eviction --------------------------------------------------------------------------------------------
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
    search = _Eviction(values, capacity, reserved, work)
    return search.run(held or {})


class _Eviction:
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


# -- exactly ---------------------------------------------------------------------------------------------
_OPEN_PER_STEP = 64
FIRST_RESTART = 60
"""Dead ends before the first restart; each attempt has half as many more."""
WEIGHT_STEP = 20


class Answer(Enum):
    """What the search says if it has no allocation."""

    IMPOSSIBLE = "impossible"
    GAVE_UP = "gave up"


@dataclass(frozen=True, slots=True)
class _Neighbour:
    other: int
    collisions: int
    """Bit `d + offset`: the other may not begin `d` registers above."""
    offset: int


def exact_search(
    intervals: Sequence[LiveInterval], capacity: int, reserved: Collection[int], work: Work
) -> dict[int, int] | Answer:
    """Interval -> first register, or whether there is none, or the work ran out."""
    values = sorted(intervals, key=lambda i: i.id)
    work[0] -= len(values) ** 2 // 4
    if work[0] <= 0:
        return Answer.GAVE_UP
    domains = [_places(v, capacity, reserved) for v in values]
    if not all(domains):
        return Answer.IMPOSSIBLE
    neighbours = _neighbours(values, work)
    if neighbours is None:
        return Answer.GAVE_UP
    search = _DepthFirst(neighbours, [v.size for v in values])
    fails = FIRST_RESTART
    while work[0] > 0:
        answer = search.run(list(domains), work, fails)
        if answer is None:
            return {v.id: r for v, r in zip(values, search.chosen, strict=True)}
        if answer is Answer.IMPOSSIBLE:
            return answer
        fails += fails // 2
    return Answer.GAVE_UP


def _places(value: LiveInterval, capacity: int, reserved: Collection[int]) -> int:
    if value.fixed is not None:
        fits = value.fixed + value.size <= capacity and value.fixed % value.alignment == value.phase
        return 1 << value.fixed if fits else 0
    places = range(value.phase, capacity - value.size + 1, value.alignment)
    return sum(1 << r for r in places if not any(r + i in reserved for i in range(value.size)))


def _neighbours(values: Sequence[LiveInterval], work: Work) -> list[list[_Neighbour]] | None:
    """Who overlaps whom, and at which distances; None if comparing them is too much work."""
    spend(len(values) ** 2 // _OPEN_PER_STEP)
    timeline = Timeline(values)
    whole = [timeline.mask(v.segments) for v in values]
    found: list[list[_Neighbour]] = [[] for _ in values]
    for a, value in enumerate(values):
        for b in range(a):
            if not whole[a] & whole[b]:
                continue
            other = values[b]
            work[0] -= value.size * other.size
            up = down = 0
            for i, mine in enumerate(timeline.masks(value)):
                for j, theirs in enumerate(timeline.masks(other)):
                    if mine & theirs:
                        up |= 1 << (i - j + other.size - 1)
                        down |= 1 << (j - i + value.size - 1)
            if up:
                found[a].append(_Neighbour(b, up, other.size - 1))
                found[b].append(_Neighbour(a, down, value.size - 1))
    return found if work[0] > 0 else None


class _DepthFirst:
    """Depth first; what cannot be placed gets heavier and goes earlier, in the next attempt, too."""

    def __init__(self, neighbours: list[list[_Neighbour]], sizes: Sequence[int]) -> None:
        self._neighbours = neighbours
        self._weight = [size * (1 + len(n)) for size, n in zip(sizes, neighbours, strict=True)]
        self.chosen = [-1] * len(neighbours)
        self._open = set(range(len(neighbours)))
        self._domains: list[int] = []

    def run(self, domains: list[int], work: Work, fails: int) -> Answer | None:
        """None if everything is in `chosen`; GAVE_UP after so many dead ends."""
        self._domains = domains
        self.chosen = [-1] * len(domains)
        self._open = set(range(len(domains)))
        stack: list[tuple[int, int, list[tuple[int, int]]]] = []
        current = self._next()
        left = domains[current] if current is not None else 0
        while current is not None:
            if not left:
                if not stack:
                    return Answer.IMPOSSIBLE
                current, left, undo = stack.pop()
                self._undo(undo)
                self.chosen[current] = -1
                self._open.add(current)
                continue
            spend(1 + len(self._open) // _OPEN_PER_STEP)
            work[0] -= 2 + len(self._neighbours[current]) // 2
            if work[0] <= 0 or fails <= 0:
                return Answer.GAVE_UP
            lowest = left & -left
            left ^= lowest
            undo, failed = self._restrict(current, lowest.bit_length() - 1)
            if failed:
                fails -= 1
                self._undo(undo)
                continue
            self.chosen[current] = lowest.bit_length() - 1
            self._open.discard(current)
            stack.append((current, left, undo))
            current = self._next()
            left = domains[current] if current is not None else 0
        return None

    def _undo(self, undo: list[tuple[int, int]]) -> None:
        for other, domain in undo:
            self._domains[other] = domain

    def _restrict(self, value: int, register: int) -> tuple[list[tuple[int, int]], bool]:
        """Take what collides from the neighbours' places; returns what they were, and whether one has none left."""
        undo = []
        for n in self._neighbours[value]:
            if self.chosen[n.other] >= 0:
                continue
            shift = register - n.offset
            collisions = n.collisions << shift if shift >= 0 else n.collisions >> -shift
            before = self._domains[n.other]
            after = before & ~collisions
            if after != before:
                undo.append((n.other, before))
                self._domains[n.other] = after
                if not after:
                    self._weight[n.other] += WEIGHT_STEP
                    return undo, True
        return undo, False

    def _next(self) -> int | None:
        """Fewest places per weight; of several the first."""
        domains, weight = self._domains, self._weight
        chosen, least = None, float("inf")
        for v in self._open:
            share = domains[v].bit_count() / weight[v]
            if share < least or (share == least and chosen is not None and v < chosen):
                chosen, least = v, share
        return chosen
