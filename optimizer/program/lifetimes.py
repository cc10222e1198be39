"""Which tensors share a buffer, and when the emitted program deallocates it: right after the last read of any of them.

`ttnn.deallocate` frees a buffer even where another tensor lives in it, and freeing an already freed tensor
does nothing (both measured on mock devices), so tensors that share a buffer are freed together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from optimizer.errors import StateError
from optimizer.ir.graph import Graph, Op
from optimizer.layouts.aliases import frees_operand, may_alias, may_keep_operand
from optimizer.layouts.memory_config import TensorLayout
from optimizer.layouts.op_config import OpConfig, overwritten_operand

DEALLOCATE = "ttnn.deallocate"


@dataclass(frozen=True)
class Event:
    """One step as far as lifetimes go. Host tensors are left out."""

    label: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    shares: str | None = None
    """The operand in whose buffer the first result lies, or may."""
    may_copy: bool = False
    """TTNN may make a copy instead: then both tensors are freed."""
    frees: tuple[str, ...] = ()
    """Operands that the op frees itself."""


def event_of(
    graph: Graph, op: Op, layouts: Mapping[str, TensorLayout], config: OpConfig | None, is_view: bool = False
) -> Event:
    """An op with its tensors where `layouts` says. A convolution that may keep its operand does not free it."""
    reads, writes = (tuple(v for v in ids if not layouts[v].is_host) for ids in (op.inputs, op.outputs))
    if not reads:
        return Event(op.id, reads, writes)
    first, into = layouts[op.inputs[0]], overwritten_operand(config)
    may_copy = into is None and not is_view and may_alias(graph, op, first, layouts[op.outputs[0]])
    into = 0 if is_view or may_copy else into
    frees = frees_operand(config, first) and not may_keep_operand(config, first)
    shares = None if into is None else op.inputs[into]
    return Event(op.id, reads, writes, shares, may_copy, op.inputs[:1] if frees else ())


def sharing(events: Sequence[Event], certain: bool = False) -> dict[str, list[str]]:
    """Name -> all names in its buffer, the one that it was made for first; if `certain`, those that may have one of
    their own are taken to have it."""
    shared: dict[str, list[str]] = {}
    for event in events:
        for name in (*event.reads, *event.writes):
            shared.setdefault(name, [name])
        if event.shares is not None and not (certain and event.may_copy):
            joined = shared[event.writes[0]]
            shared[event.shares] += joined
            shared |= dict.fromkeys(joined, shared[event.shares])
    return shared


def last_uses(events: Sequence[Event], shared: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The name that a buffer was made for -> the last event that reads or writes any that lives there."""
    return {shared[name][0]: at for at, event in enumerate(events) for name in (*event.reads, *event.writes)}


def deallocations(events: Sequence[Event], kept: Iterable[str]) -> list[tuple[str, ...]]:
    """Names to deallocate after each event, in order of definition; none of `kept` or of what shares with it.

    StateError when an op frees an operand whose buffer is read later.
    """
    shared = sharing(events)
    last = last_uses(events, shared)
    views = {event.writes[0] for event in events if event.shares is not None and not event.may_copy}
    freed_at = {shared[name][0]: at for at, event in enumerate(events) for name in event.frees}
    held = set(kept)
    placed: list[tuple[str, ...]] = [()] * len(events)
    for root, members in shared.items():
        if members[0] != root:
            continue
        keep = not held.isdisjoint(members)
        if root in freed_at:
            if keep or last[root] != freed_at[root]:
                label = events[freed_at[root]].label
                raise StateError(f"'{label}' frees its operand '{root}', whose buffer is needed later", node=label)
        elif not keep:
            placed[last[root]] += tuple(name for name in members if name not in views)
    return placed
