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
Change = tuple[int, ...]
"""By class, in the order of `FILES`."""


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
        self._changes: dict[int, Change] = {}
        """By number, as long as they hold."""
        self._touching: dict[Register, list[int]] = {}
        for n, registers in enumerate(zip(self._used, self._defined, strict=True)):
            for register in dict.fromkeys((*registers[0], *registers[1])):
                self._touching.setdefault(register, []).append(n)

    def change(self, n: int) -> Change:
        """Registers of each class more, or less, that hold something just behind an instruction if it came next, its
        results included."""
        found = self._changes.get(n)
        if found is None:
            counts = dict.fromkeys(FILES, 0)
            ended = [] if self._early[n] else [r for r in self._used[n] if self._ends(r)]
            for register in ended:
                counts[register.file] -= 1
            for register in self._defined[n]:
                if register not in self._live or register in ended:
                    counts[register.file] += 1
            found = self._changes[n] = tuple(counts[file] for file in FILES)
        return found

    def place(self, n: int) -> None:
        """Make an instruction the next one."""
        for file, more in zip(FILES, self.change(n), strict=True):
            self.peak[file] = max(self.peak[file], self._count[file] + more)
        touched = dict.fromkeys((*self._used[n], *self._defined[n]))
        before = [(r in self._live, self._ends(r)) for r in touched]
        for register in [r for r in self._used[n] if self._ends(r)]:
            self._live.discard(register)
            self._count[register.file] -= 1
        self._uses.subtract(self._used[n])
        self._definitions.subtract(self._defined[n])
        for register in self._defined[n]:
            if register not in self._live and self._is_wanted(register):
                self._live.add(register)
                self._count[register.file] += 1
        for register, state in zip(touched, before, strict=True):
            if state != (register in self._live, self._ends(register)):
                for other in self._touching[register]:
                    self._changes.pop(other, None)

    def room(self, limits: Limits) -> tuple[int, ...]:
        """Registers of each class that are left within limits; below zero where there are none."""
        return tuple(limits[file] - self._count[file] for file in FILES)

    def _is_wanted(self, register: Register) -> bool:
        return self._uses[register] > 0 or (register in self.needed and self._definitions[register] == 0)

    def _ends(self, register: Register) -> bool:
        """Whether no later instruction reads a register than one that does: it is read for the last time, or will be
        written before."""
        if register not in self._live or self._uses[register] != 1:
            return False
        return register not in self.needed or self._definitions[register] > 0


def excess(counts: Limits, limits: Limits) -> int:
    """Registers beyond the limits, over all classes."""
    return sum(max(0, counts[file] - limits[file]) for file in FILES)
