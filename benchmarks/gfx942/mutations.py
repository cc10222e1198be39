"""Texts with one wait or nop taken away, to measure whether a witness notices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from optimizer.kernels.amdgpu.witness.interpreter.parse import COUNTER_LIMITS, parse_waits

_WAIT = re.compile(r"^(\s*)s_waitcnt\s+(.*?)(\s*(?://|;).*)?$")
_NOP = re.compile(r"^(\s*)s_nop\s+(\w+)")


@dataclass(frozen=True)
class Mutation:
    """`text` is the source with line `line` changed; `kind` is removed, counter-removed or weakened."""

    line: int
    kind: str
    description: str
    text: str


def mutations(text: str, *, weaken: bool = True) -> Iterator[Mutation]:
    """Every text that differs from `text` by one missing s_waitcnt, one missing counter of it, or one missing s_nop;
    with `weaken` also by one counter that allows one operation more, or one nop that is a wait state shorter.

    A changed line keeps its place (a comment stands for what is gone), so that line numbers stay true.
    """
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        if (match := _WAIT.match(line)) is not None:
            changes = _wait_mutations(match[1], parse_waits(match[2], number), weaken=weaken)
        elif (match := _NOP.match(line)) is not None:
            changes = _nop_mutations(match[1], int(match[2], 0), weaken=weaken)
        else:
            continue
        for kind, description, replacement in changes:
            changed = [*lines[: number - 1], replacement, *lines[number:]]
            yield Mutation(number, kind, f"line {number}: {description}", "\n".join(changed) + "\n")


def _wait_mutations(indent: str, counters: dict[str, str], *, weaken: bool) -> Iterator[tuple[str, str, str]]:
    written = _wait_text(counters)
    yield "removed", f"{written} removed", f"{indent}// removed"
    for name in counters if len(counters) > 1 else ():
        rest = {other: value for other, value in counters.items() if other != name}
        yield "counter-removed", f"{name} of {written} removed", indent + _wait_text(rest)
    for name, value in counters.items() if weaken else ():
        more = int(value, 0) + 1
        if more <= COUNTER_LIMITS[name]:
            yield "weakened", f"{written} to {name}({more})", indent + _wait_text(counters | {name: str(more)})


def _wait_text(counters: dict[str, str]) -> str:
    return "s_waitcnt " + " ".join(f"{name}({value})" for name, value in counters.items())


def _nop_mutations(indent: str, states: int, *, weaken: bool) -> Iterator[tuple[str, str, str]]:
    yield "removed", f"s_nop {states} removed", f"{indent}// removed"
    if states and weaken:
        yield "weakened", f"s_nop {states} to s_nop {states - 1}", f"{indent}s_nop {states - 1}"
