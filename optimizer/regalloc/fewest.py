"""An allocation with as few registers as can be found: linear scan, then other orders, then search.

Linear scan is optimal for single registers in strict SSA. With ranges it may leave holes that no range fits; so where
its result is above the lower bound, large ranges are placed first, then intervals are evicted and placed again in one
register less each time, and small problems are searched exhaustively.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from optimizer.regalloc.intervals import LiveInterval, pressure
from optimizer.regalloc.linear_scan import AllocationFailure, Hints, large_first, linear_scan, long_first
from optimizer.regalloc.search import Answer, evicting_scan, exact_search

EVICTION_WORK = 60_000
"""Comparisons of point sets per register count; a comparison takes well under a microsecond."""
QUICK_WORK = 15_000
EXACT_WORK = 500_000
"""Places looked at, plus a quarter of the square of the number of intervals for comparing them."""
TOTAL_WORK = 1_500_000
"""Together, over all register counts that are tried."""


@dataclass(frozen=True)
class Placement:
    """Interval -> first register, and one more than the highest register used or reserved."""

    assigned: dict[int, int]
    peak: int
    lower_bound: int
    """No allocation has a lower peak."""
    method: str
    """What found it: scan, large-first, long-first, eviction or exact."""
    proven: bool = False
    """Whether no lower peak exists: it is the lower bound, or exact search has excluded one register less."""


def fewest_registers(
    intervals: Sequence[LiveInterval],
    capacity: int,
    reserved: Collection[int] = (),
    hints: Hints | None = None,
    effort: int = 1,
) -> Placement | AllocationFailure:
    """The placement with the lowest peak found; the failure of linear scan if there is none at all.

    `effort` multiplies the work limits; 0 is linear scan and its two other orders alone.
    """
    bound = peak_bound(intervals, capacity, reserved)
    first = linear_scan(intervals, capacity, reserved, hints)
    best = None if isinstance(first, AllocationFailure) else _placement(intervals, first, reserved, bound, "scan")
    for order, name in ((large_first, "large-first"), (long_first, "long-first")):
        limit = capacity if best is None else best.peak - 1
        if best is not None and limit < bound:
            return best
        answer = linear_scan(intervals, limit, reserved, hints, order)
        if not isinstance(answer, AllocationFailure):
            best = _placement(intervals, answer, reserved, bound, name)
    best = _search(intervals, capacity, reserved, bound, best, effort)
    if best is not None:
        return best
    assert isinstance(first, AllocationFailure)
    return first


def _search(
    intervals: Sequence[LiveInterval],
    capacity: int,
    reserved: Collection[int],
    bound: int,
    best: Placement | None,
    effort: int,
) -> Placement | None:
    total = TOTAL_WORK * effort
    while total > 0 and bound <= capacity:
        limit = capacity if best is None else best.peak - 1
        if limit < bound:
            return best
        answer, method, spent = _within(intervals, limit, reserved, effort)
        if answer is Answer.IMPOSSIBLE and best is not None:
            return replace(best, proven=True)
        if isinstance(answer, Answer):
            return best
        total -= spent
        best = _placement(intervals, answer, reserved, bound, method)
    return best


def _within(
    intervals: Sequence[LiveInterval], limit: int, reserved: Collection[int], effort: int
) -> tuple[dict[int, int] | Answer, str, int]:
    """An allocation in `limit` registers, what found it, and the work: exactly if that is quick, else by eviction."""
    spent = 0
    for quick in (True, False):
        granted = (QUICK_WORK if quick else EXACT_WORK) * effort
        work = [granted]
        found = exact_search(intervals, limit, reserved, work)
        spent += granted - work[0]
        if isinstance(found, dict):
            return found, "exact", spent
        if found is Answer.IMPOSSIBLE:
            return found, "exact", spent
        if quick:
            work = [EVICTION_WORK * effort]
            placed = evicting_scan(intervals, limit, reserved, work)
            spent += EVICTION_WORK * effort - work[0]
            if placed is not None:
                return placed, "eviction", spent
    return Answer.GAVE_UP, "exact", spent


def peak_bound(intervals: Sequence[LiveInterval], capacity: int, reserved: Collection[int]) -> int:
    """A lower bound of the peak: so many registers that as many as the pressure are not reserved."""
    movable = [i for i in intervals if i.fixed is None or not set(range(i.fixed, i.fixed + i.size)) & set(reserved)]
    needed = pressure(movable)
    free = (r for r in range(capacity + needed) if r not in reserved)
    bound = max([r + 1 for r, _ in zip(free, range(needed), strict=False)], default=0)
    fixed = [i.fixed + i.size for i in intervals if i.fixed is not None]
    return max([bound, *fixed, *(r + 1 for r in reserved)], default=0)


def _placement(
    intervals: Sequence[LiveInterval], assigned: dict[int, int], reserved: Collection[int], bound: int, method: str
) -> Placement:
    ends = [assigned[i.id] + i.size for i in intervals]
    peak = max([*ends, *(r + 1 for r in reserved)], default=0)
    return Placement(assigned, peak, bound, method, peak <= bound)
