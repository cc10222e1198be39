"""Exact search for an allocation in a given number of registers: depth first with forward checking.

Every interval has the set of first registers it may still begin at, as the bits of an integer. Placing one removes from
its neighbours what would overlap, by a shift and a mask. The interval with the fewest places left per weight goes
first; weights grow with every dead end and survive restarts (dom/wdeg, Boussemart et al., "Boosting Systematic Search
by Weighting Constraints", ECAI 2004). Contiguous placement is NP-hard for sizes 1 and 2 already, so the work is
limited, by number of steps and not by time: the same input always gives the same answer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from optimizer.process.work_limit import spend
from optimizer.regalloc.eviction import Work
from optimizer.regalloc.intervals import LiveInterval
from optimizer.regalloc.register_file import Timeline

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
    search = _Search(neighbours, [v.size for v in values])
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


class _Search:
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
