"""The runtime's L1 allocator on plain intervals, and the replay of a program on it.

tt-metal places L1 buffers top-down and first-fit: a buffer goes to the upper end of the highest hole that
is large enough, at the same address on every core (lock-step), so one list of intervals stands for all
cores. Freed buffers join the holes beside them at once, so the order of frees alone decides nothing: what is
live when a buffer is allocated does. Circular buffers grow from the bottom of the same bank while an op runs;
a program is rejected when they reach the lowest live buffer, holes above it notwithstanding. Buffers of the
small region (`L1_SMALL`, halo tables and the like) have an allocator of their own above the bank.

Sources: tt-metal 0.81 `FreeListOpt::allocate` with `SearchPolicy::FIRST` and `bottom_up = false` (its lists by
size class are each sorted by address and the best of them is taken, so it is exact first fit), sizes rounded
up to the alignment and at least one alignment unit; `benchmarks/allocator_replay.py` compares address for
address with tt-metal's mock devices. Addresses and sizes are bytes per core. Nothing here raises for a
program that does not fit: the replay returns a `ReplayFailure` that names the step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from optimizer.l1.allocator import L1Allocator

BufferId = int | str


class Region(StrEnum):
    """Which of the two allocators of a core's L1 a buffer belongs to (TTNN's `BufferType`)."""

    L1 = "l1"
    SMALL = "l1_small"


@dataclass(frozen=True, slots=True)
class Alloc:
    """A buffer comes to life."""

    buffer: BufferId
    size_bytes: int
    region: Region = Region.L1


@dataclass(frozen=True, slots=True)
class Free:
    buffer: BufferId


@dataclass(frozen=True, slots=True)
class Execute:
    """An op runs with these circular buffers at the bottom of the bank."""

    cb_bytes: int


Event = Alloc | Free | Execute


class ReplayError(StrEnum):
    OUT_OF_MEMORY = "out-of-memory"
    """No hole is large enough for the buffer."""
    CB_CLASH = "cb-clash"
    """Circular buffers reach the lowest live buffer."""
    CB_TOO_BIG = "cb-too-big"
    """Circular buffers alone exceed L1."""
    UNKNOWN_BUFFER = "unknown-buffer"
    """A buffer is freed that is not live."""
    DUPLICATE_BUFFER = "duplicate-buffer"
    """A buffer is allocated that is live already."""


@dataclass(frozen=True, slots=True)
class ReplayFailure:
    """The first step that the runtime would reject."""

    step: int
    """Index into the events."""
    error: ReplayError
    needed_bytes: int
    """Size of the buffer, or of the circular buffers."""
    available_bytes: int
    """Largest hole, or the room below the lowest live buffer."""
    live_bytes: int
    """Sum of live buffers: with `needed_bytes` below the bank's size, the failure is fragmentation."""
    buffer: BufferId | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    step: int
    buffer: BufferId
    address: int
    size_bytes: int
    """Rounded up to the alignment."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What became of a program, up to its failure if there is one."""

    placements: tuple[Placement, ...]
    failure: ReplayFailure | None
    peak_extent_bytes: int
    """Highest of (depth of the live buffers, holes included, + circular buffers) over all steps."""
    peak_sum_bytes: int
    """Highest of (sum of live buffers + circular buffers): the difference is lost to holes."""

    @property
    def ok(self) -> bool:
        return self.failure is None


def replay(
    events: Iterable[Event],
    *,
    base_bytes: int,
    top_bytes: int,
    alignment_bytes: int,
    cb_end_bytes: int | None = None,
    small_end_bytes: int | None = None,
) -> Replay:
    """Run a program through the allocator.

    `base_bytes` is where circular buffers begin, `top_bytes` where tensors begin downwards (`worker_l1 -
    l1_small`), `cb_end_bytes` where circular buffers must end if no tensor is live (`worker_l1`; default
    `top_bytes`), `small_end_bytes` where the small region above `top_bytes` ends (`worker_l1`; by default it
    is empty).
    """
    run = AllocatorReplay(
        base_bytes=base_bytes,
        top_bytes=top_bytes,
        alignment_bytes=alignment_bytes,
        cb_end_bytes=cb_end_bytes,
        small_end_bytes=small_end_bytes,
    )
    failure = None
    for step, event in enumerate(events):
        failure = run.apply(step, event)
        if failure is not None:
            break
    return Replay(tuple(run.placements), failure, run.peak_extent, run.peak_sum)


class AllocatorReplay:
    """A replay event by event: `replay` for callers that decide as they go. A failed event changes nothing."""

    def __init__(
        self,
        *,
        base_bytes: int,
        top_bytes: int,
        alignment_bytes: int,
        cb_end_bytes: int | None = None,
        small_end_bytes: int | None = None,
    ) -> None:
        small_end = top_bytes if small_end_bytes is None else small_end_bytes
        self._allocator = L1Allocator(base_bytes, top_bytes, alignment_bytes)
        self._regions = {Region.L1: self._allocator, Region.SMALL: L1Allocator(top_bytes, small_end, alignment_bytes)}
        self._base = base_bytes
        self._top = top_bytes
        self._cb_end = top_bytes if cb_end_bytes is None else cb_end_bytes
        self._live: dict[BufferId, tuple[Region, int]] = {}
        self.placements: list[Placement] = []
        self.peak_extent = 0
        self.peak_sum = 0

    def address(self, buffer: BufferId) -> int | None:
        """Where a live buffer is; None if it is not live."""
        held = self._live.get(buffer)
        return None if held is None else held[1]

    def apply(self, step: int, event: Event) -> ReplayFailure | None:
        """Run one event; `step` is the number it goes by in results."""
        match event:
            case Alloc(buffer, size_bytes, region):
                failure = self._alloc(step, buffer, size_bytes, region)
            case Free(buffer):
                failure = self._free(step, buffer)
            case Execute(cb_bytes):
                return self._execute(step, cb_bytes)
        if failure is None:
            self._measure(0)
        return failure

    def _alloc(self, step: int, buffer: BufferId, size_bytes: int, region: Region) -> ReplayFailure | None:
        if buffer in self._live:
            return self._failure(step, ReplayError.DUPLICATE_BUFFER, size_bytes, 0, buffer)
        allocator = self._regions[region]
        size, address = allocator.rounded(size_bytes), allocator.allocate(size_bytes)
        if address is None:
            return self._failure(step, ReplayError.OUT_OF_MEMORY, size, allocator.largest_hole_bytes, buffer)
        self._live[buffer] = region, address
        self.placements.append(Placement(step, buffer, address, size))
        return None

    def _free(self, step: int, buffer: BufferId) -> ReplayFailure | None:
        held = self._live.pop(buffer, None)
        if held is None:
            return self._failure(step, ReplayError.UNKNOWN_BUFFER, 0, 0, buffer)
        region, address = held
        self._regions[region].free(address)
        return None

    def _execute(self, step: int, cb_bytes: int) -> ReplayFailure | None:
        """Circular buffers may end exactly where the lowest buffer begins (tt-metal compares with `<`)."""
        lowest = self._allocator.lowest_address
        if cb_bytes > self._cb_end - self._base:
            return self._failure(step, ReplayError.CB_TOO_BIG, cb_bytes, self._cb_end - self._base, None)
        if lowest is not None and self._base + cb_bytes > lowest:
            return self._failure(step, ReplayError.CB_CLASH, cb_bytes, lowest - self._base, None)
        self._measure(cb_bytes)
        return None

    def _measure(self, cb_bytes: int) -> None:
        lowest = self._allocator.lowest_address
        depth = 0 if lowest is None else self._top - lowest
        self.peak_extent = max(self.peak_extent, depth + cb_bytes)
        self.peak_sum = max(self.peak_sum, self._allocator.live_bytes + cb_bytes)

    def _failure(
        self, step: int, error: ReplayError, needed: int, available: int, buffer: BufferId | None
    ) -> ReplayFailure:
        return ReplayFailure(step, error, needed, available, self._allocator.live_bytes, buffer)
