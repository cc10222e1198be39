"""What is held in L1 when: reservations over schedule positions, and how much is active at each.

A reservation is a value that stays in L1 from the position that produces it to its last use, both included.
Views and results of in-place ops take no room of their own: they are aliases that keep their source alive.
Reserving, releasing, and the bytes at a position or their maximum over a window take O(log positions) steps,
by a segment tree that adds over ranges and keeps the maximum below each node.

Bytes are per core, as the lock-step allocator takes them on every core. Sums say nothing of holes; where
addresses matter, `l1_allocator` replays them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from optimizer.errors import StateError


class RangeMaximum:
    """Integers at positions 0 .. size-1, all 0 at first: add to a range, ask for the maximum of one."""

    def __init__(self, size: int) -> None:
        self._leaves = 1 << max(0, size - 1).bit_length()
        self._added = [0] * (2 * self._leaves)
        """What was added to all positions below a node."""
        self._highest = [0] * (2 * self._leaves)
        """Maximum below a node, without what was added above it."""

    def add(self, start: int, end: int, amount: int) -> None:
        """Add to the positions start .. end, both included."""
        low, high = start + self._leaves, end + self._leaves
        first, last = low, high
        while low <= high:
            if low & 1:
                self._apply(low, amount)
                low += 1
            if not high & 1:
                self._apply(high, amount)
                high -= 1
            low, high = low >> 1, high >> 1
        self._pull(first)
        self._pull(last)

    def maximum(self, start: int, end: int) -> int:
        """Maximum over the positions start .. end, both included."""
        return self._maximum(start, end, 1, 0, self._leaves - 1)

    def _apply(self, node: int, amount: int) -> None:
        self._added[node] += amount
        self._highest[node] += amount

    def _pull(self, node: int) -> None:
        """Renew what the nodes above a changed one say."""
        while node > 1:
            node >>= 1
            below = max(self._highest[2 * node], self._highest[2 * node + 1])
            self._highest[node] = below + self._added[node]

    def _maximum(self, start: int, end: int, node: int, low: int, high: int) -> int:
        if start <= low and high <= end:
            return self._highest[node]
        middle = (low + high) // 2
        if end <= middle:
            found = self._maximum(start, end, 2 * node, low, middle)
        elif start > middle:
            found = self._maximum(start, end, 2 * node + 1, middle + 1, high)
        else:
            left = self._maximum(start, end, 2 * node, low, middle)
            found = max(left, self._maximum(start, end, 2 * node + 1, middle + 1, high))
        return found + self._added[node]


@dataclass(frozen=True, slots=True)
class Reservation[V: Hashable]:
    """A value's room in L1, at the positions start .. end, both included."""

    value: V
    start: int
    end: int
    """Last use of the value or of any of its aliases."""
    bytes_per_core: int


class ReservationTimeline[V: Hashable]:
    """The reservations of a schedule. A value is reserved at most once, or is an alias of one source."""

    def __init__(self, positions: int) -> None:
        """For schedule positions 0 .. positions-1; StateError if there are none."""
        if positions <= 0:
            raise StateError(f"a schedule cannot have {positions} positions")
        self._positions = positions
        self._bytes = RangeMaximum(positions)
        self._own: dict[V, Reservation[V]] = {}
        """As reserved, without what aliases add."""
        self._sources: dict[V, V] = {}
        self._aliases: dict[V, dict[V, int]] = {}
        """Last use of each alias, by the reserved value whose room it shares."""

    # -- changes ---------------------------------------------------------------------------------------------
    def reserve(self, value: V, start: int, end: int, bytes_per_core: int) -> None:
        """Hold a value; StateError if it is held already, the window is outside the schedule, or bytes negative."""
        self._must_be_new(value)
        if not 0 <= start <= end < self._positions:
            raise StateError(f"{value}: no window {start} .. {end} in a schedule of {self._positions} positions")
        if bytes_per_core < 0:
            raise StateError(f"{value}: cannot take {bytes_per_core} bytes")
        self._own[value] = Reservation(value, start, end, bytes_per_core)
        self._aliases[value] = {}
        self._bytes.add(start, end, bytes_per_core)

    def alias(self, value: V, source: V, end: int) -> None:
        """Let `value` (a view, or the result of an op in place) share its source's room until `end`.

        The source may be an alias itself. StateError if it is not held, or the alias ends before it is made.
        """
        self._must_be_new(value)
        root = self.holder(source)
        if root is None:
            raise StateError(f"{value}: its source {source} is not in L1")
        if not self._own[root].start <= end < self._positions:
            raise StateError(f"{value}: cannot last until {end}, its source begins at {self._own[root].start}")
        before = self._end(root)
        self._sources[value] = root
        self._aliases[root][value] = end
        self._move_end(root, before)

    def release(self, value: V) -> None:
        """Forget a reservation, or an alias and what it added; StateError if others still share the room."""
        root = self.holder(value)
        if root is None:
            raise StateError(f"{value} is not in L1")
        if value in self._sources:
            before = self._end(root)
            del self._sources[value], self._aliases[root][value]
            self._move_end(root, before)
            return
        if self._aliases[value]:
            raise StateError(f"{value}: its room is shared by {', '.join(map(str, self._aliases[value]))}")
        gone = self._own.pop(value)
        del self._aliases[value]
        self._bytes.add(gone.start, gone.end, -gone.bytes_per_core)

    # -- questions -------------------------------------------------------------------------------------------
    def holder(self, value: V) -> V | None:
        """The reserved value whose room this one has: itself, or the source of an alias; None if not in L1."""
        return value if value in self._own else self._sources.get(value)

    def sharers(self, value: V) -> tuple[V, ...]:
        """All values in the room that this one has, the reserved one first; none if it is not in L1."""
        root = self.holder(value)
        return () if root is None else (root, *self._aliases[root])

    def reservation(self, value: V) -> Reservation[V] | None:
        """The room that a value or alias has, with the last use of all who share it."""
        root = self.holder(value)
        if root is None:
            return None
        own = self._own[root]
        return Reservation(root, own.start, self._end(root), own.bytes_per_core)

    def active_bytes(self, position: int, without: Iterable[V] = ()) -> int:
        """Bytes held at a position, `without` the room of some values (say, an op's own operands)."""
        total = self.peak_bytes(position, position)
        left_out = {root for value in without if (root := self.holder(value)) is not None}
        return total - sum(self._own[r].bytes_per_core for r in left_out if self._is_active(r, position))

    def active(self, position: int) -> tuple[Reservation[V], ...]:
        """The reservations at a position, in the order in which they were made."""
        self._must_be_inside(position, position)
        found = (self.reservation(root) for root in self._own if self._is_active(root, position))
        return tuple(r for r in found if r is not None)

    def peak_bytes(self, start: int, end: int) -> int:
        """Most bytes held at any position of start .. end, both included."""
        self._must_be_inside(start, end)
        return self._bytes.maximum(start, end)

    def fits(self, start: int, end: int, bytes_per_core: int, limit_bytes: int) -> bool:
        """Whether so many more bytes would stay within the limit at each position of the window."""
        return self.peak_bytes(start, end) + bytes_per_core <= limit_bytes

    # -- inside ----------------------------------------------------------------------------------------------
    def _end(self, root: V) -> int:
        return max([self._own[root].end, *self._aliases[root].values()])

    def _move_end(self, root: V, before: int) -> None:
        after, size = self._end(root), self._own[root].bytes_per_core
        if after > before:
            self._bytes.add(before + 1, after, size)
        elif after < before:
            self._bytes.add(after + 1, before, -size)

    def _is_active(self, root: V, position: int) -> bool:
        return self._own[root].start <= position <= self._end(root)

    def _must_be_new(self, value: V) -> None:
        if self.holder(value) is not None:
            raise StateError(f"{value} is in L1 already")

    def _must_be_inside(self, start: int, end: int) -> None:
        if not 0 <= start <= end < self._positions:
            raise StateError(f"no window {start} .. {end} in a schedule of {self._positions} positions")
