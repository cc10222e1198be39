"""When the emitted program deallocates its tensors: right after the last read of everything in their buffer.

`ttnn.deallocate` frees a buffer even where another tensor lives in it, and freeing an already freed tensor
does nothing (both measured on mock devices), so tensors that share a buffer are freed together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from optimizer.errors import StateError

DEALLOCATE = "ttnn.deallocate"


@dataclass(frozen=True)
class Alias:
    """A result that lives in an operand's buffer."""

    result: str
    operand: str
    certain: bool
    """False where TTNN may make a copy instead: then both tensors are freed."""


@dataclass(frozen=True)
class Event:
    """One step as far as lifetimes go. Names are variables; host tensors are left out."""

    label: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    alias: Alias | None = None
    frees: tuple[str, ...] = ()
    """Operands that the op frees itself."""


def deallocations(events: Sequence[Event], kept: Iterable[str]) -> list[tuple[str, ...]]:
    """Variables to deallocate after each event, in order of definition; none of `kept` or of what shares with it.

    StateError when an op frees an operand whose buffer is read later.
    """
    shared = _by_buffer(events)
    views = {event.alias.result for event in events if event.alias is not None and event.alias.certain}
    last: dict[str, int] = {}
    freed_at: dict[str, int] = {}
    for at, event in enumerate(events):
        last |= {shared[name][0]: at for name in (*event.reads, *event.writes)}
        freed_at |= {shared[name][0]: at for name in event.frees}
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


def _by_buffer(events: Sequence[Event]) -> dict[str, list[str]]:
    """Variable -> all variables in its buffer, the one that it was made for first."""
    shared: dict[str, list[str]] = {}
    for event in events:
        for name in (*event.reads, *event.writes):
            shared.setdefault(name, [name])
        if event.alias is not None:
            joined = shared[event.alias.result]
            shared[event.alias.operand] += joined
            shared |= dict.fromkeys(joined, shared[event.alias.operand])
    return shared
