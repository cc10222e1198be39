"""Bytes that several waves share (LDS, buffers), with a record of who touched them and whether that is ordered.

Two accesses of different waves to one byte, at least one of them a write, are ordered only by a barrier of their
workgroup: the first must be known done (its s_waitcnt passed) before its wave reaches the barrier, the second issued
after it. Everything else is a race, whatever order the interpreter happened to take.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.int64]
_NEVER = np.iinfo(np.int32).max
_NOBODY = -1


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two unordered accesses: `first` is the number of the earlier one's record, `byte` the byte's position."""

    byte: int
    line: int
    agent: int
    verb: str


@dataclass
class SharedBytes:
    """`data` with its access records. `initialised` tells which bytes hold something defined."""

    data: Bytes
    initialised: npt.NDArray[np.bool_]
    writer: npt.NDArray[np.int32] = field(init=False)
    # One entry per recorded access: who, in which workgroup, at which line, and the epoch in which it was done.
    agents: list[int] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    atomic: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.writer = np.full(self.data.size, _NOBODY, np.int32)
        self.other_readers: dict[int, npt.NDArray[np.int32]] = {}

    def record(self, agent: int, group: int, line: int, *, atomic: bool = False) -> int:
        """A new access record, not yet done; the number to pass on. Two atomic ones never conflict."""
        self.atomic.append(atomic)
        self.agents.append(agent)
        self.groups.append(group)
        self.lines.append(line)
        self.done.append(_NEVER)
        return len(self.agents) - 1

    def finish(self, access: int, epoch: int) -> None:
        self.done[access] = epoch

    def read(self, places: Indices, access: int, epoch: int) -> Conflict | None:
        """Note a read of the bytes at `places`; the conflict with an unordered write, if there is one."""
        flat = np.unique(places)
        conflict = self._clash(flat, self.writer[flat], access, epoch, "written")
        readers = self.other_readers.setdefault(self.agents[access], np.full(self.data.size, _NOBODY, np.int32))
        readers[flat] = access
        return conflict

    def write(self, places: Indices, access: int, epoch: int) -> Conflict | None:
        """Note a write of the bytes at `places`; the conflict with an unordered read or write, if there is one."""
        flat = np.unique(places)
        conflict = self._clash(flat, self.writer[flat], access, epoch, "written")
        for agent in sorted(self.other_readers):
            if conflict is None and agent != self.agents[access]:
                conflict = self._clash(flat, self.other_readers[agent][flat], access, epoch, "read")
        self.writer[flat] = access
        self.initialised[flat] = True
        return conflict

    def _clash(
        self, flat: Indices, earlier: npt.NDArray[np.int32], access: int, epoch: int, verb: str
    ) -> Conflict | None:
        for other in np.unique(earlier).tolist():
            if other == _NOBODY or self.agents[other] == self.agents[access]:
                continue
            if self.atomic[other] and self.atomic[access]:
                continue
            if self.groups[other] == self.groups[access] and self.done[other] < epoch:
                continue
            byte = int(flat[int(np.argmax(earlier == other))])
            return Conflict(byte, self.lines[other], self.agents[other], verb)
        return None
