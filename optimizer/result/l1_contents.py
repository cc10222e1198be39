"""What lies in L1 while each op of a result runs, value by value.

It follows from the graph, its layouts and, for what an op takes while it runs, figures that the caller has: those of a
verifier's replay, or those that the result states. A value that lives in another's buffer, as a view or written in
place, is listed with the buffer's name and no bytes of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from optimizer.ir.graph import Op
from optimizer.layouts.tiling import l1_bytes_per_core, round_up
from optimizer.result import OptimizedGraph, Role


@dataclass(frozen=True)
class Item:
    """Something in L1 at one position. The fields are columns of the CSV, in this order."""

    kind: str
    """`weight`, `tensor` (there before the op), `result` (of the op), `alias` (of one of these), `circular_buffers`, or
    `temporaries` of the op."""
    value: str
    """Id of the value; empty for the last two kinds."""
    bytes: int
    """What it adds per core: those of a position add up to its total."""
    size_bytes: int
    """What it takes per core by itself. Circular buffers that are gone before the op's peak add less than they take. A
    result adds nothing while its op runs if the OpModel says that the op hands its operand back."""
    alias_of: str = ""
    """Of an alias: the value whose buffer it lives in."""
    reserved: int = 0
    """1 if the plan states a reservation of the value at this position."""


@dataclass(frozen=True)
class Taken:
    """What an op takes at its peak, in bytes per core."""

    total_bytes: int
    """With everything that is there before it."""
    cb_bytes: int


@dataclass(frozen=True)
class Contents:
    """L1 per core while one op runs."""

    position: int
    """Index in the `ops` of graph.json, as in its reservations."""
    op: Op
    items: tuple[Item, ...]
    resident_bytes: int
    """Of the buffers that are there before the op makes any."""


def contents(result: OptimizedGraph, taken: Mapping[str, Taken]) -> Iterator[Contents]:
    """Every op that the device runs and that `taken` knows by its id, in order."""
    listing = _Listing(result)
    for position, op in enumerate(result.graph.ops()):
        if result.records[op.id].role is not Role.HOST:
            resident = listing.enter(position, op)
            if op.id in taken:
                yield Contents(position, op, listing.items(position, resident, taken[op.id]), resident)
            listing.leave(position)


class _Listing:
    """Buffers and aliases as the schedule passes by."""

    def __init__(self, result: OptimizedGraph) -> None:
        self._result = result
        self._run = [(n, op) for n, op in enumerate(result.graph.ops()) if result.records[op.id].role is not Role.HOST]
        self._buffer_of = {v: b for v, b in result.buffers().items() if self._in_l1(v)}
        self._read = {v: n for n, op in self._run for v in op.inputs}
        self._freed = {self._buffer_of[v]: n for n, op in self._run for v in op.inputs if v in self._buffer_of}
        self._reserved = {r.value: r for r in result.reservations}
        self._weights = {v: self._aligned(v) for v in result.weights_in_l1()}
        self._live: dict[str, int] = {}
        self._results: dict[str, int] = {}
        self._aliases: dict[str, str] = {}

    def enter(self, position: int, op: Op) -> int:
        """Note the results of an op; bytes of the buffers that are there before it."""
        resident = sum(self._weights.values()) + sum(self._live.values())
        self._results = {v: self._size(v) for v in op.outputs if self._buffer_of.get(v) == v}
        self._aliases = {v: b for v, b in self._aliases.items() if self._read.get(v, -1) >= position}
        self._aliases |= {v: b for v in op.outputs if (b := self._buffer_of.get(v, v)) != v}
        return resident

    def leave(self, position: int) -> None:
        """Keep what is read later."""
        self._live |= {v: self._aligned(v) for v in self._results}
        self._live = {v: size for v, size in self._live.items() if self._freed.get(v, -1) > position}

    def items(self, position: int, resident: int, taken: Taken) -> tuple[Item, ...]:
        """What the op itself takes is shared out: results first, then circular buffers, then what is left."""
        listed = [self._item("weight", v, size, position) for v, size in self._weights.items()]
        listed += [self._item("tensor", v, size, position) for v, size in self._live.items()]
        own = [self._item("result", v, size, position) for v, size in self._results.items()]
        aliases = [
            Item("alias", v, 0, self._size(v), buffer, self._is_reserved(v, position))
            for v, buffer in self._aliases.items()
        ]
        left = max(0, taken.total_bytes - resident)
        for item in (*own, *aliases, Item("circular_buffers", "", taken.cb_bytes, taken.cb_bytes)):
            adds = min(item.bytes, left)
            left -= adds
            listed.append(replace(item, bytes=adds))
        if left:
            listed.append(Item("temporaries", "", left, left))
        return tuple(listed)

    def _item(self, kind: str, value: str, size: int, position: int) -> Item:
        return Item(kind, value, size, size, reserved=self._is_reserved(value, position))

    def _is_reserved(self, value: str, position: int) -> int:
        reservation = self._reserved.get(value)
        return int(reservation is not None and reservation.start <= position <= reservation.end)

    def _in_l1(self, value: str) -> bool:
        layout = self._result.layouts.get(value)
        return layout is not None and layout.is_l1

    def _size(self, value: str) -> int:
        described = self._result.graph.value(value)
        layout, device = self._result.layouts[value], self._result.device
        return l1_bytes_per_core(described.shape, described.dtype, layout, device)

    def _aligned(self, value: str) -> int:
        return round_up(self._size(value), self._result.device.l1_buffer_alignment_bytes)
