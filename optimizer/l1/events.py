"""What one op does to L1, in the order in which it does it.

An op of several device programs makes and frees tensors on the way: where its result comes to lie depends on what is
there when it is made. Sizes are bytes per core; buffers go by numbers of the op's own.
"""

from __future__ import annotations

from dataclasses import dataclass

OPERAND = -1
"""The number of operand 0, which some ops free."""


@dataclass(frozen=True, slots=True)
class Made:
    """A tensor in L1 comes to life."""

    buffer: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Freed:
    buffer: int


@dataclass(frozen=True, slots=True)
class Ran:
    """A program runs with these circular buffers."""

    cb_bytes: int


L1Event = Made | Freed | Ran


@dataclass(frozen=True, slots=True)
class OpAllocations:
    """The events of one op; what it made and neither freed nor returns is gone once it returns."""

    events: tuple[L1Event, ...]
    results: tuple[int | None, ...]
    """The buffer of every result; None for one that is in DRAM or in an operand's buffer."""

    @property
    def is_plain(self) -> bool:
        """Whether nothing is made but the results, and nothing is freed: then the sums say as much."""
        return not any(
            isinstance(event, Freed) or (isinstance(event, Made) and event.buffer not in self.results)
            for event in self.events
        )


class EventLog:
    """Notes the events of an op while it is simulated."""

    def __init__(self) -> None:
        self._events: list[L1Event] = []
        self._made = 0

    def made(self, size_bytes: int) -> int:
        """The number of a new buffer."""
        self._events.append(Made(self._made, size_bytes))
        self._made += 1
        return self._made - 1

    def freed(self, buffer: int) -> None:
        self._events.append(Freed(buffer))

    def ran(self, cb_bytes: int) -> None:
        self._events.append(Ran(cb_bytes))

    def allocations(self, *results: int | None) -> OpAllocations:
        """All events so far."""
        return OpAllocations(tuple(self._events), results)


def plain_allocations(results: tuple[int, ...], temporary_bytes: int, cb_bytes: int) -> OpAllocations:
    """The events of an op of which only sums are known: what it makes on the way is one tensor, made first.

    `results` are the bytes of the results that are in L1.
    """
    log = EventLog()
    if temporary_bytes:
        log.made(temporary_bytes)
    made = tuple(log.made(size) for size in results)
    log.ran(cb_bytes)
    return log.allocations(*made)
