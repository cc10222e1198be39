"""`ttopt timeline`: what lies in L1 while each op of a plan runs, value by value.

The figures are those of the verifier's replay (`verify.memory_rules`), so that every position adds up to the total that
the plan was checked with. A value that lives in another's buffer, as a view or written in place, is listed with the
buffer's name and no bytes of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from optimizer.ir.graph import Op
from optimizer.layouts.tiling import l1_bytes_per_core
from optimizer.result import OptimizedGraph
from optimizer.verify import StepMemory, Subject, verified
from optimizer.verify.memory_rules import Beginning, Watch, buffers, replay


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
class Position:
    """L1 per core while one op runs, at its peak."""

    position: int
    """Index in the `ops` of graph.json, as in its reservations."""
    op: str
    role: str
    items: tuple[Item, ...]
    memory: StepMemory

    def bytes_of(self, *kinds: str) -> int:
        return sum(item.bytes for item in self.items if item.kind in kinds)


@dataclass(frozen=True)
class Timeline:
    """Every op that the device runs, in order."""

    positions: tuple[Position, ...]
    limit_bytes: int
    """What a plan may take per core."""
    bank_bytes: int
    """What tensors, the holes between them and circular buffers may reach into."""

    @property
    def peak(self) -> Position:
        """The position that takes most; the first of several."""
        return max(self.positions, key=lambda p: p.memory.total_bytes)

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row per item and position, with the position's own figures in each: `COLUMNS`."""
        for p in self.positions:
            whole = (p.memory.total_bytes, self.limit_bytes, p.memory.extent_bytes, self.bank_bytes)
            for item in p.items:
                own = (getattr(item, f.name) for f in fields(Item))
                yield dict(zip(COLUMNS, (p.position, p.op, p.role, *own, *whole), strict=True))

    def to_json(self) -> dict[str, Any]:
        """`{limit_bytes, bank_bytes, positions: [{position, op, role, total_bytes, extent_bytes, items}]}`."""
        return {
            "limit_bytes": self.limit_bytes,
            "bank_bytes": self.bank_bytes,
            "positions": [
                {
                    "position": p.position,
                    "op": p.op,
                    "role": p.role,
                    "total_bytes": p.memory.total_bytes,
                    "extent_bytes": p.memory.extent_bytes,
                    "items": [{f.name: getattr(item, f.name) for f in fields(Item)} for item in p.items],
                }
                for p in self.positions
            ],
        }


COLUMNS = (
    "position", "op", "role", *(f.name for f in fields(Item)),
    "total_bytes", "limit_bytes", "extent_bytes", "bank_bytes",
)  # fmt: skip
"""Of the CSV. New ones may be added at the end."""


def timeline(result: OptimizedGraph) -> Timeline:
    """Replay a result on its own OpModel. VerificationError if it does not verify: its L1 means nothing then."""
    subject = verified(result)
    listing = _Listing(subject)
    steps = replay(subject, listing)
    found = zip(steps, listing.found, strict=True)
    positions = tuple(listing.position(step, *at) for step, at in found)
    return Timeline(positions, subject.limit_bytes, subject.bank_bytes)


class _Listing(Watch):
    """The items of every step, as the replay passes by."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        ops = list(subject.run_ops())
        self._at = {op.id: n for n, op in enumerate(subject.graph.ops())}
        self._weights = frozenset(subject.result.weights_in_l1())
        self._reserved = {r.value: r for r in subject.result.reservations}
        self._last_read = {v: self._at[op.id] for op in ops for v in op.inputs}
        self._aliases = {v: b for v, b in buffers(subject, ops).items() if v != b}
        self._alive: dict[str, str] = {}
        """Aliases that are still read."""
        self.found: list[tuple[Op, tuple[Item, ...]]] = []

    def begins(self, step: Beginning) -> None:
        op, at = step.op, self._at[step.op.id]
        self._alive = {v: b for v, b in self._alive.items() if self._last_read.get(v, -1) >= at}
        self._alive |= {v: self._aliases[v] for v in op.outputs if v in self._aliases}
        items = [
            self._item("weight" if v in self._weights else "tensor", v, end - start, at)
            for v, (start, end) in step.residents.items()
        ]
        items += [self._item("result", v, size, at) for v, size in step.results.items()]
        items += [self._alias(v, buffer, at) for v, buffer in self._alive.items()]
        self.found.append((op, tuple(items)))

    def position(self, step: StepMemory, op: Op, items: tuple[Item, ...]) -> Position:
        """The step with its own peak shared out: results first, then circular buffers, then what is left."""
        left, listed = step.own_peak_bytes, []
        for item in (*items, Item("circular_buffers", "", step.cb_bytes, step.cb_bytes)):
            adds = min(item.bytes, left) if item.kind in ("result", "circular_buffers") else item.bytes
            left -= adds if item.kind in ("result", "circular_buffers") else 0
            listed.append(replace(item, bytes=adds))
        if left:
            listed.append(Item("temporaries", "", left, left))
        return Position(self._at[op.id], op.id, self._subject.role(op).value, tuple(listed), step)

    def _item(self, kind: str, value: str, size: int, at: int) -> Item:
        return Item(kind, value, size, size, reserved=self._is_reserved(value, at))

    def _alias(self, value: str, buffer: str, at: int) -> Item:
        described, layout = self._subject.graph.value(value), self._subject.layout(value)
        size = l1_bytes_per_core(described.shape, described.dtype, layout, self._subject.device)
        return Item("alias", value, 0, size, buffer, self._is_reserved(value, at))

    def _is_reserved(self, value: str, at: int) -> int:
        reservation = self._reserved.get(value)
        return int(reservation is not None and reservation.start <= at <= reservation.end)
