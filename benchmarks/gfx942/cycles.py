"""A kernel's run in the model of one wave: what the interpreter executed, with the cycles that it takes.

In finished programs `s_waitcnt` and `s_nop` hold up the wave explicitly, so that nothing is inserted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from optimizer.kernels.amdgpu.emit import item_lines
from optimizer.kernels.amdgpu.ir import Instruction
from optimizer.kernels.amdgpu.operands import Immediate, WaitCount
from optimizer.kernels.amdgpu.pipeline import Assembly
from optimizer.kernels.amdgpu.scheduling.machine import ISSUE, Machine
from optimizer.kernels.amdgpu.witness.interpreter.run import Observer

BRANCH = 16
"""Cycles of a branch that is taken, an assumption: the wave's instruction buffer is filled again."""


@dataclass(frozen=True, slots=True)
class Covered:
    """A load, and the wait that makes sure of it."""

    instructions: int
    """Issued between the two."""
    cycles: int
    """From the load's issue to where the wait begins."""


class FinishedMachine(Machine):
    """The state of one wave of a finished program."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        """Instructions issued."""
        self.waiting = {"vmcnt": 0, "lgkmcnt": 0}
        """Cycles spent in s_waitcnt, by counter."""
        self.covered: list[Covered] = []
        self._numbers: dict[int, int] = {}
        """Cycle of an issue -> instructions issued before."""

    def issue(self, item: Instruction, taken: bool = False) -> None:
        """One instruction; `taken`: a branch that leads away."""
        if item.name == "s_waitcnt":
            self._wait(item)
        start = self.start(item)
        cycles = BRANCH if taken else ISSUE
        if item.name == "s_nop":
            (count,) = item.uses
            assert isinstance(count, Immediate)
            cycles = ISSUE * (count.value + 1)
        self.number += 1
        self._numbers[start] = self.number
        self.record(item, start, cycles)

    def _wait(self, item: Instruction) -> None:
        for use in item.uses:
            if not isinstance(use, WaitCount) or use.counter not in self.outstanding:
                continue
            queue = self.outstanding[use.counter]
            done = queue[: len(queue) - use.value] if len(queue) > use.value else []
            self.outstanding[use.counter] = queue[len(done) :]
            for operation in done:
                if operation.loaded:
                    instructions = self.number - self._numbers[operation.issued]
                    self.covered.append(Covered(instructions, self.clock - operation.issued))
            arrived = max([self.clock, *(o.complete for o in done)])
            self.waiting[use.counter] += arrived - self.clock
            self.clock = arrived


Execute = Callable[[Observer], object]
"""Runs the kernel's text in the interpreter."""


def first_wave(assembly: Assembly, execute: Execute) -> FinishedMachine:
    """The first wave of the run, at its end."""
    items = _by_line(assembly)
    lines: list[int] = []

    def observe(wave: int, line: int) -> None:
        if wave == 0:
            lines.append(line)

    execute(observe)
    machine = FinishedMachine()
    for line, following in zip(lines, [*lines[1:], 0], strict=True):
        item = items[line]
        machine.issue(item, taken=item.target is not None and following != _next(items, line))
    return machine


def _by_line(assembly: Assembly) -> dict[int, Instruction]:
    """The instructions of the text by their line, from 1."""
    text = assembly.text.splitlines()
    number = text.index(f"{assembly.program.name}:") + 1
    found = {}
    for place, item in enumerate(assembly.program.body):
        for _ in item_lines(item, place):
            number += 1
            if isinstance(item, Instruction) and item.name != "_comment":
                found[number] = item
    return found


def _next(items: dict[int, Instruction], line: int) -> int:
    return min((n for n in items if n > line), default=0)
