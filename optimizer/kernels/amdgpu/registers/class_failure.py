"""A class of registers that does not fit: what there was to place, and the complaint that names range and pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from optimizer.kernels.amdgpu.errors import AllocationError
from optimizer.kernels.amdgpu.registers.allocation_units import Units
from optimizer.kernels.amdgpu.registers.liveness import Liveness
from optimizer.regalloc.intervals import LiveInterval
from optimizer.regalloc.linear_scan import AllocationFailure

NAMES = {"v": "VGPR", "s": "SGPR", "a": "AGPR"}
SHOWN_OVERLAPS = 10


@dataclass(frozen=True)
class ClassFailure:
    """A class that does not fit, with what there was to place."""

    file: str
    units: Units
    liveness: Liveness
    failure: AllocationFailure
    reserved: frozenset[int]


def allocation_error(failed: ClassFailure) -> AllocationError:
    """Range, size and alignment, what overlaps it by length, and the pool."""
    interval, name = failed.failure.interval, NAMES[failed.file]
    overlaps = failed.failure.overlapping
    taken = sum(o.size for o in overlaps)
    pool = f"{failed.failure.capacity} {name}s, {len(failed.reserved)} of them reserved"
    longest = ", ".join(_shown(failed, o) for o in overlaps[:SHOWN_OVERLAPS]) or "nothing"
    place = _where(failed, interval)
    return AllocationError(
        f"no {_sort(interval, name)} left for {failed.units.name(interval.id)} ({place}): {pool}; pressure is "
        f"{failed.liveness.pressure(failed.file)}; {len(overlaps)} ranges with {taken} registers overlap it, "
        f"the longest: {longest}",
        node=failed.units.name(interval.id),
        limit=failed.failure.capacity,
        alternatives=("fewer values live at once", "spilling (--allow-spill)"),
        details=details(failed),
    )


def details(failed: ClassFailure) -> dict[str, Any]:
    """The failure as JSON."""
    interval = failed.failure.interval
    free = failed.failure.capacity - len([r for r in failed.reserved if r < failed.failure.capacity])
    return {
        "range": failed.units.name(interval.id),
        "class": NAMES[failed.file].lower(),
        "size": interval.size,
        "alignment": interval.alignment,
        "live": _span(failed, interval),
        "capacity": failed.failure.capacity,
        "reserved": sorted(failed.reserved),
        "allocatable": free,
        "pressure": failed.liveness.pressure(failed.file),
        "overlap_count": len(failed.failure.overlapping),
        "overlaps": [
            {"range": failed.units.name(o.id), "size": o.size, "length": _length(o), "live": _span(failed, o)}
            for o in failed.failure.overlapping[:SHOWN_OVERLAPS]
        ],
    }


def _sort(interval: LiveInterval, name: str) -> str:
    if interval.size == 1:
        return f"{name}"
    aligned = f" aligned to {interval.alignment}" if interval.alignment > 1 else ""
    return f"{interval.size} consecutive {name}s{aligned}"


def _shown(failed: ClassFailure, interval: LiveInterval) -> str:
    return f"{failed.units.name(interval.id)} ({_where(failed, interval)}, length {_length(interval)})"


def _where(failed: ClassFailure, interval: LiveInterval) -> str:
    first, last = _span(failed, interval)
    return f"live from {first} to {last}"


def _span(failed: ClassFailure, interval: LiveInterval) -> tuple[int, int]:
    item_at = failed.liveness.item_at
    places = [item_at[p // 2] for start, end in interval.segments for p in (start, end - 1)]
    return min(places), max(places)


def _length(interval: LiveInterval) -> int:
    """In items."""
    return sum((end + 1) // 2 - start // 2 for start, end in interval.segments)
