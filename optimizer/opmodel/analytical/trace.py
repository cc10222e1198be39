"""Peaks over a sequence of device programs, counted as tt-metal's resource report counts them.

Circular buffers and dataflow buffers are separate counters (their peaks are added up), and the buffers of a
program stay counted while the next one's output is allocated.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Trace:
    """Bytes per core while an op runs its programs one after the other."""

    tensors: int = 0
    program: int = 0
    peak_tensors: int = 0
    peak_total: int = 0
    peak_cb: int = 0
    peak_dfb: int = 0
    peak_scratch: int = 0
    room: int = 0
    """Most bytes that are really in use at once on one core."""

    def allocate(self, size: int) -> None:
        """An output or temporary appears."""
        self.tensors += size
        self.peak_tensors = max(self.peak_tensors, self.tensors)
        self.peak_total = max(self.peak_total, self.tensors + self.program)
        self.room = max(self.room, self.tensors)

    def free(self, size: int) -> None:
        self.tensors -= size

    def run(self, size: int, dataflow: bool = False, idle: int = 0, scratch: int = 0) -> None:
        """A program with `size` bytes of circular (or dataflow) buffers runs, `idle` of them on other cores;
        `scratch` bytes come on top."""
        self.peak_scratch = max(self.peak_scratch, scratch)
        self.program = size + scratch
        if dataflow:
            self.peak_dfb = max(self.peak_dfb, size)
        else:
            self.peak_cb = max(self.peak_cb, size)
        self.peak_total = max(self.peak_total, self.tensors + self.program)
        self.room = max(self.room, self.tensors + self.program - idle)

    @property
    def buffers(self) -> int:
        return self.peak_cb + self.peak_dfb + self.peak_scratch
