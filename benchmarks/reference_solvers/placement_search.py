"""Exact search for addresses, after MiniMalloc (Moffitt, ASPLOS 2023).

Time is cut into *sections* at every start and end. Buffers are put one after the other, each on top of what is
already below it, so only *canonical* solutions are visited: addresses do not decrease from step to step, and at
equal addresses the static order decides. A branch ends when in some section the lowest address that a buffer
still to come can have, plus the sizes of all still to come, exceeds the capacity. A buffer is not tried where
another one would fit below it. Where no buffer to come spans a boundary any more, the two sides are solved
independently. Several static orders take turns, with limits that double.

Plain integers; sizes and the capacity in any unit. The search is deterministic for a limit in nodes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
GONE = np.int64(1) << 60
"""Lowest address of a buffer that has been placed: it takes part in no minimum."""
FIRST_NODES = 4
"""Nodes per buffer that each order gets in the first round."""
CLOCK_NODES = 64
"""How often the clock is looked at."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """`addresses` if there are any; without them, `complete` says that none exist."""

    addresses: tuple[int, ...] | None
    complete: bool
    nodes: int


class _LimitError(Exception):
    """The nodes or seconds of a search are used up."""


class PlacementSearch:
    """The static orders in turns. A search that has paused goes on where it was."""

    def __init__(self, buffers: Sequence[tuple[int, int, int]], capacity: int) -> None:
        """For buffers `(start, end, size)`, `end` exclusive, sizes above 0, and addresses in `[0, capacity)`."""
        self._sections = _Sections(buffers)
        self._capacity = capacity
        self._allowed = FIRST_NODES * len(buffers)
        self._orders = self._sections.orders()
        self._turn = 0
        self.nodes = 0

    def run(
        self, *, max_nodes: int | None = None, seconds: float | None = None, pause_seconds: float | None = None
    ) -> SearchResult:
        """Search until it is settled, the nodes of all runs reach `max_nodes` or `seconds` are over.

        After `pause_seconds` it stops as well, but where nothing is lost: between two orders.
        """
        started = time.monotonic()
        if not self._sections.count:
            return SearchResult((), True, 0)
        deadline = None if seconds is None else started + seconds
        with _deep_recursion(self._sections.count):
            while True:
                left = self._allowed if max_nodes is None else min(self._allowed, max_nodes - self.nodes)
                run = _Search(self._sections, self._capacity, self._orders[self._turn], left, deadline)
                try:
                    addresses = run.solve()
                    return SearchResult(addresses, True, self.nodes + run.nodes)
                except _LimitError:
                    self.nodes += run.nodes
                self._next_order()
                took = time.monotonic() - started
                over = any(limit is not None and took >= limit for limit in (seconds, pause_seconds))
                if over or (max_nodes is not None and self.nodes >= max_nodes):
                    return SearchResult(None, False, self.nodes)

    def _next_order(self) -> None:
        self._turn += 1
        if self._turn == len(self._orders):
            self._turn = 0
            self._allowed *= 2


def search(
    buffers: Sequence[tuple[int, int, int]],
    capacity: int,
    *,
    max_nodes: int | None = None,
    seconds: float | None = None,
) -> SearchResult:
    """`PlacementSearch` in one go."""
    return PlacementSearch(buffers, capacity).run(max_nodes=max_nodes, seconds=seconds)


@contextmanager
def _deep_recursion(depth: int) -> Iterator[None]:
    """Three frames per placed buffer."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + 3 * depth)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


class _Sections:
    """What of a problem does not change during a search."""

    def __init__(self, buffers: Sequence[tuple[int, int, int]]) -> None:
        self.count = len(buffers)
        times = sorted({t for start, end, _ in buffers for t in (start, end)})
        index = {t: i for i, t in enumerate(times)}
        self.spans = [(index[start], index[end]) for start, end, _ in buffers]
        self.sizes = np.array([size for _, _, size in buffers], dtype=np.int64)
        self.lengths = [end - start for start, end, _ in buffers]
        self.low = np.array([low for low, _ in self.spans])
        self.high = np.array([high for _, high in self.spans])
        self.sections = max(0, len(times) - 1)
        members: list[list[int]] = [[] for _ in range(self.sections)]
        for buffer, (low, high) in enumerate(self.spans):
            for section in range(low, high):
                members[section].append(buffer)
        # a buffer of no consequence keeps every section non-empty
        self.members = np.array([b for section in members for b in (*section, self.count)], dtype=np.int64)
        self.begins = np.cumsum([0, *(len(section) + 1 for section in members)])
        self.totals = np.array([sum(int(self.sizes[b]) for b in section) for section in members], dtype=np.int64)
        overlapping = (self.low[:, None] < self.high[None, :]) & (self.low[None, :] < self.high[:, None])
        np.fill_diagonal(overlapping, False)
        self.overlaps = [np.flatnonzero(row) for row in overlapping]

    def orders(self) -> list[Ints]:
        """Static orders: rank of each buffer by (lifetime, area, contention), in MiniMalloc's three sequences."""
        contention = [int(self.totals[low:high].max()) for low, high in self.spans]
        area = [length * int(size) for length, size in zip(self.lengths, self.sizes, strict=True)]
        w, a, t = self.lengths, area, contention
        found = []
        for first, second, third in ((w, a, t), (t, a, w), (t, w, a)):
            ordered = sorted(range(self.count), key=lambda b: (-first[b], -second[b], -third[b], b))
            rank = np.empty(self.count, dtype=np.int64)
            rank[ordered] = np.arange(self.count)
            found.append(rank)
        return found


class _Search:
    """One depth-first search with one static order."""

    def __init__(self, sections: _Sections, capacity: int, rank: Ints, max_nodes: int, deadline: float | None) -> None:
        self.given = sections
        self.capacity = capacity
        self.rank = rank
        self.max_nodes = max_nodes
        self.deadline = deadline
        self.nodes = 0
        self.lowest = np.zeros(sections.count + 1, dtype=np.int64)
        """Lowest address that each buffer can still have."""
        self.lowest[-1] = GONE
        self.floor = np.zeros(sections.sections, dtype=np.int64)
        self.left = sections.totals.copy()
        """Sizes still to come."""
        self.crossing = np.zeros(sections.sections + 1, dtype=np.int64)
        """Buffers to come that span the beginning of a section."""
        for low, high in sections.spans:
            self.crossing[low + 1 : high] += 1
        self.addresses = [0] * sections.count

    def solve(self) -> tuple[int, ...] | None:
        """Addresses, or None if there are none."""
        if int(self.left.max()) > self.capacity:
            return None
        everything = np.argsort(self.rank)
        for part, first, last in self._parts(everything, 0, self.given.sections):
            if not self._place_all(part, first, last, 0, 0):
                return None
        return tuple(self.addresses)

    def _parts(self, part: Ints, first: int, last: int) -> list[tuple[Ints, int, int]]:
        """The buffers to come, in ranges of sections that none of them leaves; smallest parts first."""
        part = part[self.lowest[part] < GONE]
        cuts = np.flatnonzero(self.crossing[first + 1 : last] == 0) + first + 1
        if not len(cuts):
            return [(part, first, last)] if len(part) else []
        bounds = [first, *cuts.tolist(), last]
        owner = np.searchsorted(cuts, self.given.low[part], side="right")
        found = [(part[owner == i], bounds[i], bounds[i + 1]) for i in np.unique(owner)]
        return sorted(found, key=lambda p: (len(p[0]), p[1]))

    def _place_all(self, part: Ints, first: int, last: int, address: int, rank: int) -> bool:
        """Place the buffers of a part, none of them below `address` or, there, of a lower rank."""
        if self.nodes >= self.max_nodes:
            raise _LimitError
        self.nodes += 1
        if self.deadline is not None and self.nodes % CLOCK_NODES == 0 and time.monotonic() >= self.deadline:
            raise _LimitError
        lowest, sizes = self.lowest[part], self.given.sizes[part]
        allowed = (lowest > address) | ((lowest == address) & (self.rank[part] >= rank))
        # later buffers lie no lower than this one, so all that is to come in any section must fit above it
        allowed &= lowest <= self.capacity - int(self.left[first:last].max())
        tried = np.flatnonzero(allowed & (lowest < int((lowest + sizes).min())))
        tried = tried[np.argsort(lowest[tried], kind="stable")]
        return any(self._place(int(part[i]), int(lowest[i]), part, first, last) for i in tried.tolist())

    def _place(self, buffer: int, address: int, part: Ints, first: int, last: int) -> bool:
        """Put a buffer there and everything else of its part after it; what was changed is changed back."""
        given = self.given
        top = address + int(given.sizes[buffer])
        low, high = given.spans[buffer]
        others = given.overlaps[buffer]
        raised = others[self.lowest[others] < top]
        if len(raised) and top + int(given.sizes[raised].max()) > self.capacity:
            return False
        before = self.lowest[raised]
        self.lowest[raised] = top
        self.lowest[buffer] = GONE
        from_, to = low, high
        if len(raised):
            from_, to = min(low, int(given.low[raised].min())), max(high, int(given.high[raised].max()))
        floors = self.floor[from_:to].copy()
        self._raise_floors(low, high, top, from_, to)
        self.left[low:high] -= given.sizes[buffer]
        self.crossing[low + 1 : high] -= 1
        placed = False
        if int((np.maximum(self.floor[first:last], address) + self.left[first:last]).max()) <= self.capacity:
            placed = True
            for inner, begin, end in self._parts(part, first, last):
                if not self._place_all(inner, begin, end, address, int(self.rank[buffer])):
                    placed = False
                    break
        self.crossing[low + 1 : high] += 1
        self.left[low:high] += given.sizes[buffer]
        self.floor[from_:to] = floors
        self.lowest[raised] = before
        self.lowest[buffer] = address
        if placed:
            self.addresses[buffer] = address
        return placed

    def _raise_floors(self, low: int, high: int, top: int, from_: int, to: int) -> None:
        """No buffer to come can lie below the least of their lowest addresses."""
        begins = self.given.begins
        begin = begins[from_]
        self.floor[low:high] = top
        least = np.minimum.reduceat(self.lowest[self.given.members[begin : begins[to]]], begins[from_:to] - begin)
        floor = self.floor[from_:to]
        np.maximum(floor, least, out=floor, where=least < GONE)
