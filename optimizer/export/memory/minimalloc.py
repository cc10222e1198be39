"""`l1_predicted.CAPACITY.csv`: the L1 buffers of a plan as a problem in MiniMalloc's format, with our solution.

MiniMalloc (github.com/google/minimalloc) reads `id,lower,upper,size` and answers with a column `offset`: a buffer is
there from `lower` up to but not including `upper`, and the capacity is part of the file's name, as in its own
benchmarks. Time counts events: a tick for every buffer that comes to life and for every program that runs, so that what
an op frees while it runs is gone for its later programs. Bytes are per core, offsets count from where circular buffers
may begin.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from optimizer.export.memory.occupancy import Block, Gone, Made, Occupancy, Ran, is_passing, l1_occupancy
from optimizer.process.csv_text import csv_text
from optimizer.process.files import written
from optimizer.result import OptimizedGraph
from optimizer.verify import verified

COLUMNS = ("id", "lower", "upper", "size", "offset")
_SEPARATORS = str.maketrans(dict.fromkeys(',"\r\n', "_"))
"""MiniMalloc splits lines at commas, whatever quotes there are."""


@dataclass(frozen=True)
class Lifetime:
    """One line of the file."""

    id: str
    lower: int
    upper: int
    size: int
    offset: int


def write(result: OptimizedGraph, folder: Path) -> Path:
    found = l1_occupancy(verified(result))
    return written(folder / f"l1_predicted.{found.bank.size_bytes}.csv", csv_text(COLUMNS, map(vars, lifetimes(found))))


def lifetimes(found: Occupancy) -> list[Lifetime]:
    """Tensors, what ops make on the way, and circular buffers, in the order in which they come to life."""
    return _Clock(found).lifetimes()


class _Clock:
    """Plays a run, a tick at a time."""

    def __init__(self, found: Occupancy) -> None:
        self._found = found
        self._now = 0
        self._alive: dict[str, tuple[str, int, Block]] = {}
        """Buffer -> its id, when it came to life, where it lies."""
        self._ended: list[Lifetime] = []
        self._ids: set[str] = set()

    def lifetimes(self) -> list[Lifetime]:
        for name, block in self._found.weights.items():
            self._begin(name, name, block)
        for op in self._found.ops:
            passing = 0
            for event in op.events:
                match event:
                    case Made(name, block):
                        passing += is_passing(name)
                        self._begin(name, f"{op.op} temporary {passing}" if is_passing(name) else name, block)
                    case Ran(cb_bytes):
                        self._run(op.op, cb_bytes)
                    case Gone(name):
                        self._end(name)
            for name in op.freed:
                self._end(name)
        for name in list(self._alive):
            self._end(name)
        return sorted(self._ended, key=lambda one: (one.lower, one.offset))

    def _begin(self, name: str, label: str, block: Block) -> None:
        self._alive[name] = (self._id(label), self._now, block)
        self._now += 1

    def _run(self, op: str, cb_bytes: int) -> None:
        """Circular buffers are there for one tick, from the start of the bank."""
        if cb_bytes:
            self._ended.append(Lifetime(self._id(f"{op} circular buffers"), self._now, self._now + 1, cb_bytes, 0))
        self._now += 1

    def _end(self, name: str) -> None:
        label, lower, block = self._alive.pop(name)
        offset = block.address - self._found.bank.address
        self._ended.append(Lifetime(label, lower, self._now, block.size_bytes, offset))

    def _id(self, label: str) -> str:
        plain = label.translate(_SEPARATORS)
        found, number = plain, 1
        while found in self._ids:
            number += 1
            found = f"{plain} {number}"
        self._ids.add(found)
        return found
