"""Addresses for buffers whose lifetimes are known: heuristics first, then exact engines, then a check.

The problem (dynamic storage allocation): buffers with a lifetime and a size get addresses in `[0, capacity)`
such that no two that live at the same time overlap. tt-metal takes no addresses, so this answers whether *any*
order of allocations could fit a plan, and serves programs that can place buffers themselves.

Addresses and sizes in any unit; callers round sizes up to their alignment first. Nothing here knows graphs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from itertools import count, pairwise
from math import gcd

from optimizer.errors import OptionError, StateError
from reference_solvers.placement_cpsat import solve_placement_cpsat
from reference_solvers.placement_search import PlacementSearch, SearchResult

DEFAULT_NODES = 20_000
"""Of the search in a turn, when no seconds are given."""
DEFAULT_DETERMINISTIC_TIME = 30.0
"""Of CP-SAT, when no seconds are given; roughly seconds of one core."""
FIRST_SECONDS = 2.0
"""Each engine's first turn; later ones are twice as long each."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A buffer that lives from `start` up to, but not at, `end`."""

    start: int
    end: int
    size: int


class PlacementStatus(StrEnum):
    PLACED = "placed"
    INFEASIBLE = "infeasible"
    """Proven: no addresses exist."""
    UNKNOWN = "unknown"
    """A limit was reached first."""


@dataclass(frozen=True, slots=True)
class PlacementResult:
    status: PlacementStatus
    engine: str
    """Who answered: `load`, `first-fit`, `search` or `cp-sat`."""
    addresses: tuple[int, ...] | None = None
    """Per buffer, if placed."""


def peak_load(buffers: Sequence[Lifetime]) -> int:
    """Most bytes that live at a time: a lower bound of the capacity that any addresses need."""
    changes = sorted([(b.end, -b.size) for b in buffers] + [(b.start, b.size) for b in buffers])
    live = peak = 0
    for _, change in changes:  # at equal times ends come first, their changes being negative
        live += change
        peak = max(peak, live)
    return peak


def placement_problem(buffers: Sequence[Lifetime], addresses: Sequence[int], capacity: int) -> str | None:
    """Why these addresses are wrong, None if they are right: a sweep over time that shares nothing with the engines."""
    if len(addresses) != len(buffers):
        return f"{len(addresses)} addresses for {len(buffers)} buffers"
    for index, (buffer, address) in enumerate(zip(buffers, addresses, strict=True)):
        if address < 0 or address + buffer.size > capacity:
            return f"buffer {index} at {address} leaves [0, {capacity})"
    for now in sorted({b.start for b in buffers}):
        live = sorted((addresses[i], i) for i, b in enumerate(buffers) if b.size and b.start <= now < b.end)
        for (low, below), (high, above) in pairwise(live):
            if low + buffers[below].size > high:
                return f"buffers {below} at {low} and {above} at {high} overlap at time {now}"
    return None


def place_first_fit(buffers: Sequence[Lifetime], capacity: int) -> tuple[int, ...] | None:
    """Addresses by first fit in several orders, None if none of them fits. Takes O(orders * buffers^2) steps."""
    for key in _ORDERS:
        addresses = _fitted(buffers, sorted(range(len(buffers)), key=lambda i: (key(buffers[i]), i)))
        if all(a + b.size <= capacity for a, b in zip(addresses, buffers, strict=True)):
            return tuple(addresses)
    return None


_ORDERS: tuple[Callable[[Lifetime], tuple[int, int]], ...] = (
    lambda b: (-b.size, b.start),
    lambda b: (b.start - b.end, -b.size),
    lambda b: ((b.start - b.end) * b.size, -b.size),
    lambda b: (b.start, -b.size),
)
"""Largest first, longest first, largest area first, earliest first."""


def _fitted(buffers: Sequence[Lifetime], order: Sequence[int]) -> list[int]:
    """Each buffer at the lowest address that is free over its whole life."""
    addresses = [0] * len(buffers)
    placed: list[int] = []
    for index in order:
        buffer = buffers[index]
        inside = [i for i in placed if buffers[i].start < buffer.end and buffer.start < buffers[i].end]
        address = 0
        for other in sorted(inside, key=lambda i: addresses[i]):
            if addresses[other] - address >= buffer.size:
                break
            address = max(address, addresses[other] + buffers[other].size)
        addresses[index] = address
        placed.append(index)
    return addresses


def place(buffers: Sequence[Lifetime], capacity: int, *, seconds: float | None = None) -> PlacementResult:
    """Addresses in `[0, capacity)`, or a proof that there are none, or neither within the limit.

    With `seconds` the search and CP-SAT take turns of growing length. Without, each has one turn with a limit in
    steps, so that the answer is the same in every run. OptionError for a lifetime without length, a negative
    size or a negative capacity; StateError if an engine's addresses do not pass the check.
    """
    _check_input(buffers, capacity)
    status, engine, addresses = _answer(buffers, capacity, seconds)
    if addresses is not None:
        problem = placement_problem(buffers, addresses, capacity)
        if problem is not None:
            raise StateError(f"{engine} gives a wrong placement: {problem}")
    return PlacementResult(status, engine, addresses)


def _check_input(buffers: Sequence[Lifetime], capacity: int) -> None:
    if capacity < 0:
        raise OptionError(f"a capacity cannot be {capacity}")
    for index, buffer in enumerate(buffers):
        if buffer.start >= buffer.end or buffer.size < 0:
            raise OptionError(f"buffer {index} lives from {buffer.start} to {buffer.end} with a size of {buffer.size}")


def _answer(
    buffers: Sequence[Lifetime], capacity: int, seconds: float | None
) -> tuple[PlacementStatus, str, tuple[int, ...] | None]:
    started = time.monotonic()
    if peak_load(buffers) > capacity:
        return PlacementStatus.INFEASIBLE, "load", None
    quick = place_first_fit(buffers, capacity)
    if quick is not None:
        return PlacementStatus.PLACED, "first-fit", quick
    unit = reduce(gcd, (b.size for b in buffers))
    sized = [i for i, b in enumerate(buffers) if b.size]
    plain = [(buffers[i].start, buffers[i].end, buffers[i].size // unit) for i in sized]
    left = None if seconds is None else max(0.0, seconds - (time.monotonic() - started))
    engine, found = _exact(plain, capacity // unit, left)
    if found.addresses is None:
        return (PlacementStatus.INFEASIBLE if found.complete else PlacementStatus.UNKNOWN), engine, None
    addresses = [0] * len(buffers)
    for index, address in zip(sized, found.addresses, strict=True):
        addresses[index] = address * unit
    return PlacementStatus.PLACED, engine, tuple(addresses)


def _exact(plain: Sequence[tuple[int, int, int]], capacity: int, seconds: float | None) -> tuple[str, SearchResult]:
    """The two exact engines in turns."""
    searching = PlacementSearch(plain, capacity)
    if seconds is None:
        found = searching.run(max_nodes=DEFAULT_NODES)
        if found.complete:
            return "search", found
        return "cp-sat", solve_placement_cpsat(plain, capacity, deterministic_time=DEFAULT_DETERMINISTIC_TIME)
    deadline = time.monotonic() + seconds
    for turn in count():
        pause = FIRST_SECONDS * 2**turn
        found = searching.run(seconds=max(0.0, deadline - time.monotonic()), pause_seconds=pause)
        if found.complete or time.monotonic() >= deadline:
            return "search", found
        # CP-SAT begins again each time, and its times vary much with the seed: two of them, each for longer next time
        left = max(0.0, deadline - time.monotonic())
        found = solve_placement_cpsat(plain, capacity, seconds=min(pause, left), seed=turn % 2)
        if found.complete or time.monotonic() >= deadline:
            break
    return "cp-sat", found
