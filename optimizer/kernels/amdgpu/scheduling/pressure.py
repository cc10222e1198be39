"""How many registers an order of instructions needs, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from optimizer.kernels.amdgpu.ir import Instruction
from optimizer.kernels.amdgpu.opcodes import opcode
from optimizer.kernels.amdgpu.operands import Register

FILES = ("v", "s", "a")
Limits = Mapping[str, int]
"""Registers of each class that may be live at once."""


@dataclass
class Pressure:
    """Registers live while the instructions of a run are placed one by one, by number, from the first on."""

    items: Sequence[Instruction]
    live: frozenset[Register]
    """At the start of the run."""
    needed: frozenset[Register]
    """At its end."""
    peak: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._used = [tuple(dict.fromkeys(item.used)) for item in self.items]
        self._defined = [tuple(dict.fromkeys(item.defined)) for item in self.items]
        self._early = [opcode(item.name).early_clobber for item in self.items]
        self._uses = Counter(r for found in self._used for r in found)
        self._definitions = Counter(r for found in self._defined for r in found)
        self._live = set(self.live)
        self._count = dict.fromkeys(FILES, 0)
        for register in self._live:
            self._count[register.file] += 1
        self.peak = dict(self._count)

    def with_item(self, n: int) -> dict[str, int]:
        """Registers that hold something just behind an instruction if it came next, its results included."""
        counts = dict(self._count)
        ended = [] if self._early[n] else self._ended_by(n)
        for register in ended:
            counts[register.file] -= 1
        for register in self._defined[n]:
            if register not in self._live or register in ended:
                counts[register.file] += 1
        return counts

    def place(self, n: int) -> None:
        """Make an instruction the next one."""
        counts = self.with_item(n)
        self.peak = {file: max(self.peak[file], counts[file]) for file in FILES}
        for register in self._ended_by(n):
            self._live.discard(register)
            self._count[register.file] -= 1
        self._uses.subtract(self._used[n])
        self._definitions.subtract(self._defined[n])
        for register in self._defined[n]:
            if register not in self._live and self._is_wanted(register):
                self._live.add(register)
                self._count[register.file] += 1

    def _is_wanted(self, register: Register) -> bool:
        return self._uses[register] > 0 or (register in self.needed and self._definitions[register] == 0)

    def _ended_by(self, n: int) -> list[Register]:
        """What no later instruction reads: used here for the last time, or to be written before."""
        return [
            r
            for r in self._used[n]
            if r in self._live and self._uses[r] == 1 and (r not in self.needed or self._definitions[r] > 0)
        ]


def excess(counts: Limits, limits: Limits) -> int:
    """Registers beyond the limits, over all classes."""
    return sum(max(0, counts[file] - limits[file]) for file in FILES)
