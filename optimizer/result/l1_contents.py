"""What lies in L1 while each op of a result runs, value by value.

It follows from the graph, its layouts and, for what an op takes while it runs, figures that the caller has: those of a
verifier's replay, or those that the result states. A value that lives in another's buffer, as a view or written in
place, is listed with the buffer's name and no bytes of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from optimizer.ir.graph import Op
from optimizer.layouts.memory_config import BufferType
from optimizer.layouts.tiling import l1_bytes_per_core
from optimizer.program.placed import Buffer
from optimizer.result import OptimizedGraph


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
    program = result.program
    live: dict[str, Buffer] = {}
    aliases: list[str] = []
    for step in program.steps:
        made = [buffer for buffer in step.makes if buffer.place is BufferType.L1]
        aliases = [v for v in aliases if program.last_read.get(v, -1) >= step.position]
        aliases += [v for v in step.event.writes if program.homes[v] != v and result.layouts[v].is_l1]
        if step.op.id in taken:
            there = [Item("weight", b.value, b.allocated_bytes, b.allocated_bytes) for b in program.weights]
            there += [Item("tensor", b.value, b.allocated_bytes, b.allocated_bytes) for b in live.values()]
            own = [Item("result", b.value, b.size_bytes, b.size_bytes) for b in made]
            own += [Item("alias", v, 0, _size(result, v), program.homes[v]) for v in aliases]
            resident = sum(item.bytes for item in there)
            items = (*there, *_shared_out(own, max(0, taken[step.op.id].total_bytes - resident), taken[step.op.id]))
            reserved = {r.value for r in result.reservations if r.start <= step.position <= r.end}
            marked = tuple(replace(item, reserved=int(item.value in reserved)) for item in items)
            yield Contents(step.position, step.op, marked, resident)
        live |= {buffer.value: buffer for buffer in made}
        for buffer in step.frees:
            live.pop(buffer.value, None)


def _shared_out(own: Sequence[Item], left: int, taken: Taken) -> Iterator[Item]:
    """What the op itself takes is shared out: results first, then circular buffers, then what is left."""
    for item in (*own, Item("circular_buffers", "", taken.cb_bytes, taken.cb_bytes)):
        adds = min(item.bytes, left)
        left -= adds
        yield replace(item, bytes=adds)
    if left:
        yield Item("temporaries", "", left, left)


def _size(result: OptimizedGraph, value_id: str) -> int:
    value = result.graph.value(value_id)
    return l1_bytes_per_core(value.shape, value.dtype, result.layouts[value_id], result.device)
