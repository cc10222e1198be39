"""Bytes that several waves share (LDS, buffers), with a record of who touched them and whether that is ordered.

Two accesses of different waves to one byte, at least one of them a write, are ordered only by a barrier of their
workgroup: the first must be known done (its s_waitcnt passed) before its wave reaches the barrier, the second issued
after it. Everything else is a race, whatever order the interpreter happened to take.

Device memory: the buffers of one launch, at addresses that catch 32-bit address arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.int64]
_NEVER = np.iinfo(np.int32).max
_NOBODY = -1
_SEVERAL = -2


@dataclass(frozen=True, slots=True)
class Conflict:
    """The earlier of two unordered accesses to `byte`: its line, its wave, and whether it read or wrote."""

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
    """Record of the last write of each byte."""
    reader: npt.NDArray[np.int32] = field(init=False)
    """The only wave that read each byte since its last write, or that there are several."""
    # One entry per recorded access: who, in which workgroup, at which line, and the epoch in which it was done.
    agents: list[int] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    atomic: list[bool] = field(default_factory=list)

    reads: dict[int, npt.NDArray[np.int32]] = field(default_factory=dict)
    """Bytes of the reads that a later write may conflict with."""
    shared: bool = True
    """Whether anything may write here; reads of constant memory need no record."""

    def __post_init__(self) -> None:
        self.writer = np.full(self.data.size, _NOBODY, np.int32)
        self.reader = np.full(self.data.size, _NOBODY, np.int32)

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
        conflict = self._clash(flat, self.writer[flat], access, epoch)
        if self.shared:
            agent = self.agents[access]
            before = self.reader[flat]
            self.reader[flat] = np.where((before == _NOBODY) | (before == agent), agent, _SEVERAL)
            self.reads[access] = flat.astype(np.int32)
        return conflict

    def write(self, places: Indices, access: int, epoch: int) -> Conflict | None:
        """Note a write of the bytes at `places`; the conflict with an unordered read or write, if there is one."""
        flat = np.unique(places)
        conflict = self._clash(flat, self.writer[flat], access, epoch) or self._clash_with_reads(flat, access, epoch)
        self.writer[flat] = access
        if not self.atomic[access]:
            self.reader[flat] = _NOBODY
        self.initialised[flat] = True
        return conflict

    def _clash_with_reads(self, flat: Indices, access: int, epoch: int) -> Conflict | None:
        readers = self.reader[flat]
        suspicious = flat[(readers != _NOBODY) & (readers != self.agents[access])]
        if not suspicious.size:
            return None
        hit = np.zeros(self.data.size, np.bool_)
        hit[suspicious] = True
        for other, places in list(self.reads.items()):
            if self._is_ordered(other, access, epoch):
                # Ordered before every later access of this workgroup, too.
                if self.groups[other] == self.groups[access] and self.done[other] < epoch:
                    del self.reads[other]
                continue
            found = places[hit[places]]
            if found.size:
                return Conflict(int(found[0]), self.lines[other], self.agents[other], "read")
        return None

    def _is_ordered(self, other: int, access: int, epoch: int) -> bool:
        """Whether the access `other` is known to come before `access`, which is issued in `epoch`."""
        if self.agents[other] == self.agents[access] or (self.atomic[other] and self.atomic[access]):
            return True
        return self.groups[other] == self.groups[access] and self.done[other] < epoch

    def _clash(self, flat: Indices, earlier: npt.NDArray[np.int32], access: int, epoch: int) -> Conflict | None:
        for other in np.unique(earlier).tolist():
            if other != _NOBODY and not self._is_ordered(other, access, epoch):
                byte = int(flat[int(np.argmax(earlier == other))])
                return Conflict(byte, self.lines[other], self.agents[other], "written")
        return None


# -- device memory --------------------------------------------------------------------------------------
# Every buffer lies across a 4 GiB border, so that an addition without carry into the high half misses it.
_FIRST_BORDER = 0x7E10_0000_0000
_BORDER_STEP = 0x2_0000_0000
_ALIGNMENT = 256


@dataclass
class Region:
    """`size` bytes at `address`."""

    name: str
    address: int
    shared: SharedBytes
    writable: bool

    @property
    def size(self) -> int:
        return int(self.shared.data.size)


@dataclass
class DeviceMemory:
    """The regions of one launch, in order of address."""

    regions: list[Region] = field(default_factory=list)

    def add(self, name: str, content: npt.NDArray[Any], *, writable: bool) -> Region:
        """Place a copy of `content`'s bytes; its address is aligned to 256 bytes."""
        data = np.frombuffer(np.ascontiguousarray(content).tobytes(), np.uint8).copy()
        border = _FIRST_BORDER + _BORDER_STEP * len(self.regions)
        address = border - data.size // 2 // _ALIGNMENT * _ALIGNMENT
        region = Region(name, address, SharedBytes(data, np.ones(data.size, np.bool_), shared=writable), writable)
        self.regions.append(region)
        return region

    def find(self, address: int, size: int) -> Region | None:
        """The region that holds all of `size` bytes from `address`."""
        for region in self.regions:
            if region.address <= address and address + size <= region.address + region.size:
                return region
        return None
