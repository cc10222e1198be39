"""What options take of a memory over time, and sums of that over all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes taken at every step from `first` to `last`, both included."""

    first: int
    last: int
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class UsageArrays:
    """The usages of a problem side by side, node by node. Options of a node that take the same tuple of usages share a
    *taker*."""

    first: Table
    last: Table
    size: Table
    taker: Table
    """Of every usage."""
    usages_before: Table
    """Of every node; then of all."""
    takers_before: Table
    of_options: tuple[Table, ...]
    """Per node, the taker of every option, counted from the node's first."""

    @staticmethod
    def of(usages: Sequence[Sequence[tuple[Usage, ...]]]) -> UsageArrays:
        """Per node and option, what it takes."""
        rows: list[tuple[int, int, int, int]] = []
        usages_before, takers_before, of_options = [0], [0], []
        for options in usages:
            known: dict[int, int] = {}
            for uses in options:
                if id(uses) not in known:
                    number = known[id(uses)] = len(known)
                    rows += [(u.first, u.last, u.size, takers_before[-1] + number) for u in uses]
            of_options.append(np.asarray([known[id(uses)] for uses in options], dtype=np.int64))
            usages_before.append(len(rows))
            takers_before.append(takers_before[-1] + len(known))
        first, last, size, taker = np.asarray(rows, dtype=np.int64).reshape(-1, 4).T
        before = np.asarray(usages_before), np.asarray(takers_before)
        return UsageArrays(first, last, size, taker, *before, tuple(of_options))

    def of_nodes(self, nodes: Sequence[int]) -> UsageArrays:
        """Those of some nodes alone."""
        chosen = np.asarray(nodes, dtype=np.int64)
        counts, takers = np.diff(self.usages_before)[chosen], np.diff(self.takers_before)[chosen]
        usages_before, takers_before = (np.concatenate(([0], np.cumsum(c))) for c in (counts, takers))
        at = np.repeat(self.usages_before[chosen] - usages_before[:-1], counts) + np.arange(counts.sum())
        moved = np.repeat(takers_before[:-1] - self.takers_before[chosen], counts)
        return UsageArrays(
            self.first[at], self.last[at], self.size[at], self.taker[at] + moved,
            usages_before, takers_before, tuple(self.of_options[v] for v in nodes),
        )  # fmt: skip

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last step that any option touches; (0, -1) where none takes anything."""
        return (int(self.first.min()), int(self.last.max())) if self.first.size else (0, -1)

    def from_step(self, begin: int) -> UsageArrays:
        """The same with steps counted from that one."""
        return replace(self, first=self.first - begin, last=self.last - begin)

    def charges(self, price: Sequence[float]) -> tuple[Table, ...]:
        """Per node and option, what its bytes cost at prices per byte and step, rounded down."""
        upto = np.concatenate(([0.0], np.cumsum(np.asarray(price, dtype=np.float64))))
        each = (upto[self.last + 1] - upto[self.first]) * self.size
        charge = np.floor(np.bincount(self.taker, weights=each, minlength=int(self.takers_before[-1]))).astype(np.int64)
        return tuple(charge[at + takers] for at, takers in zip(self.takers_before, self.of_options, strict=False))

    def loads(self, chosen: Sequence[int], steps: int) -> Table:
        """Bytes that a choice takes at every step."""
        taken = np.zeros(int(self.takers_before[-1]), dtype=bool)
        rows = zip(self.takers_before, self.of_options, chosen, strict=False)
        taken[[int(before + takers[i]) for before, takers, i in rows]] = True
        held = taken[self.taker]
        change = np.zeros(steps + 1, dtype=np.int64)
        np.add.at(change, self.first[held], self.size[held])
        np.subtract.at(change, self.last[held] + 1, self.size[held])
        return np.asarray(np.cumsum(change[:-1]), dtype=np.int64)
