"""A kernel's run in the model of one wave: what the interpreter executed, with the cycles that it takes."""

from __future__ import annotations

from collections.abc import Callable

from optimizer.kernels.amdgpu.emit import item_lines
from optimizer.kernels.amdgpu.ir import Instruction
from optimizer.kernels.amdgpu.pipeline import Assembly
from optimizer.kernels.amdgpu.scheduling.machine import Machine
from optimizer.kernels.amdgpu.witness.interpreter.run import Observer

Execute = Callable[[Observer], object]
"""Runs the kernel's text in the interpreter."""


def first_wave(assembly: Assembly, execute: Execute) -> Machine:
    """The first wave of the run, at its end."""
    items = _by_line(assembly)
    lines: list[int] = []

    def observe(wave: int, line: int) -> None:
        if wave == 0:
            lines.append(line)

    execute(observe)
    machine = Machine(finished=True)
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
