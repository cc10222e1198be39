"""What a program holds in L1 when: reservations over schedule positions, with what shares a buffer marked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from optimizer.l1.program import Program


@dataclass(frozen=True)
class Reservation:
    """A value in L1 from the position that produces it to its last use, both included."""

    value: str
    start: int
    end: int
    bytes_per_core: int
    shares: str | None = None
    """The value whose buffer it lies in, as a view or written in place: it adds no bytes."""


@dataclass(frozen=True)
class ReservationTimeline:
    """All reservations of a program, weights first, then in the order in which they begin."""

    positions: int
    reservations: tuple[Reservation, ...]

    def held_bytes(self, without: Iterable[str] = ()) -> tuple[int, ...]:
        """Bytes per core at every position, `without` the buffers of some values."""
        left_out = frozenset(without)
        changes = [0] * (self.positions + 1)
        for r in self.reservations:
            if r.shares is None and r.value not in left_out:
                changes[r.start] += r.bytes_per_core
                changes[r.end + 1] -= r.bytes_per_core
        return tuple(accumulate(changes[:-1]))


def timeline(program: Program) -> ReservationTimeline:
    """Reservations of the values that are in L1 as their ops give them, and of weights that stay.

    A value in whose buffer a later one lies stays until that is read last. Copies for one op are none.
    """
    last = len(program.rows) - 1
    kept = [Reservation(v, 0, last, size) for v, size in program.kept]
    starts: dict[str, tuple[int, int, str | None]] = {}
    for at, row in enumerate(program.rows):
        for step in row:
            for (v, form), size in step.writes:
                if not form:
                    source = step.shares[0] if step.shares is not None and not step.shares[1] else None
                    starts[v] = at, size, source
    ends = {v: max(at, program.last_reads.get(v, at)) for v, (at, _, _) in starts.items()}
    for v, (_, _, source) in reversed(starts.items()):
        if source in ends:
            ends[source] = max(ends[source], ends[v])
    found = [Reservation(v, at, ends[v], size, source) for v, (at, size, source) in starts.items()]
    return ReservationTimeline(last + 1, (*kept, *found))
