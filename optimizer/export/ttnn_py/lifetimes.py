"""When the emitted program deallocates its tensors: right after the last read of everything in their buffer.

`ttnn.deallocate` frees a buffer even where another tensor lives in it, and freeing an already freed tensor
does nothing (both measured on mock devices), so tensors that share a buffer are freed together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from optimizer.errors import StateError


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


class _Groups:
    """Variables by shared buffer (union-find by first member)."""

    def __init__(self) -> None:
        self.members: dict[str, list[str]] = {}
        self._root: dict[str, str] = {}

    def add(self, name: str) -> None:
        if name not in self._root:
            self._root[name] = name
            self.members[name] = [name]

    def root(self, name: str) -> str:
        return self._root[name]

    def join(self, result: str, operand: str) -> None:
        target = self._root[operand]
        for name in self.members.pop(self._root[result]):
            self._root[name] = target
            self.members[target].append(name)


def deallocations(events: Sequence[Event], kept: Iterable[str]) -> list[tuple[str, ...]]:
    """Variables to deallocate after each event, in order of definition; none of `kept` or of what shares with it.

    StateError when an op frees an operand whose buffer is read later.
    """
    groups = _Groups()
    views: set[str] = set()
    last: dict[str, int] = {}
    freed_at: dict[str, int] = {}
    for event in events:
        for name in (*event.reads, *event.writes):
            groups.add(name)
        if event.alias is not None:
            groups.join(event.alias.result, event.alias.operand)
            if event.alias.certain:
                views.add(event.alias.result)
    for at, event in enumerate(events):
        for name in (*event.reads, *event.writes):
            last[groups.root(name)] = at
        for name in event.frees:
            freed_at[groups.root(name)] = at
    return _placed(events, groups, views, last, freed_at, set(kept))


def _placed(
    events: Sequence[Event],
    groups: _Groups,
    views: set[str],
    last: dict[str, int],
    freed_at: dict[str, int],
    kept: set[str],
) -> list[tuple[str, ...]]:
    placed: list[list[str]] = [[] for _ in events]
    for root, members in groups.members.items():
        keep = not kept.isdisjoint(members)
        if root in freed_at:
            if keep or last[root] != freed_at[root]:
                label = events[freed_at[root]].label
                raise StateError(f"'{label}' frees its operand '{root}', whose buffer is needed later", node=label)
        elif not keep:
            placed[last[root]].extend(name for name in members if name not in views)
    return [tuple(names) for names in placed]
