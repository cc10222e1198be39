"""Pipes: which core sends to which, and what follows from it for every core that takes part.

A pipe net is a list of pipes that blocks of one circular buffer go through. Cores work through a net in the order of
its pipes: first those to one core, then those to several, then those whose sender receives as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Literal

from optimizer.kernels.tensix.dialect import PIPE, PIPE_NET
from optimizer.kernels.tensix.ir import Op

Core = tuple[int, ...]
"""Coordinates in the grid."""
Kind = Literal["unicast", "multicast", "loopback"]
MAX_SEMAPHORES = 16
"""Of a program, those of its pipes included (tt-metal `NUM_SEMAPHORES`)."""
MAX_CORES = 1024
"""Of a grid whose cores reach each other: more than any chip has."""
_ORDER: tuple[Kind, ...] = ("unicast", "multicast", "loopback")


@dataclass(frozen=True)
class Pipe:
    """From one core to all cores of a range per dimension, ends excluded."""

    source: Core
    ranges: tuple[tuple[int, int], ...]
    src_receives: bool = True
    """Whether the source receives as well, if it is in the range."""

    @property
    def cores(self) -> tuple[Core, ...]:
        """All that the range holds."""
        return tuple(product(*(range(*ends) for ends in self.ranges)))

    @property
    def around(self) -> bool:
        """Whether the range is around the source, which does not receive."""
        return not self.src_receives and self.source in self.cores

    @property
    def receivers(self) -> tuple[Core, ...]:
        return tuple(core for core in self.cores if self.src_receives or core != self.source)

    @property
    def kind(self) -> Kind:
        if len(self.cores) == 1:
            return "unicast"
        return "loopback" if self.source in self.receivers else "multicast"


@dataclass(frozen=True)
class PipeNet:
    """Pipes in the order in which cores work through them."""

    pipes: tuple[Pipe, ...]

    @staticmethod
    def of(pipes: Sequence[Pipe]) -> PipeNet:
        return PipeNet(tuple(sorted(pipes, key=lambda p: _ORDER.index(p.kind))))

    @property
    def sources(self) -> frozenset[Core]:
        return frozenset(p.source for p in self.pipes)

    @property
    def receivers(self) -> frozenset[Core]:
        return frozenset(core for p in self.pipes for core in p.receivers)

    @cached_property
    def _ends(self) -> tuple[dict[Core, list[int]], dict[Core, list[int]]]:
        """Numbers of pipes by the core that they come from, and by each that they go to."""
        sent: dict[Core, list[int]] = {}
        received: dict[Core, list[int]] = {}
        for number, pipe in enumerate(self.pipes):
            sent.setdefault(pipe.source, []).append(number)
            for core in pipe.receivers:
                received.setdefault(core, []).append(number)
        return sent, received

    def incoming(self, core: Core) -> tuple[int, ...]:
        """Numbers of the pipes that a core receives from."""
        return tuple(self._ends[1].get(core, ()))

    def outgoing(self, core: Core) -> tuple[int, ...]:
        """Numbers of the pipes that a core sends through."""
        return tuple(self._ends[0].get(core, ()))

    def turns(self, number: int) -> frozenset[tuple[int, int]]:
        """(place of a pipe among those that its receiver has, how many those are), of every receiver."""
        found = (self.incoming(core) for core in self.pipes[number].receivers)
        return frozenset((numbers.index(number), len(numbers)) for numbers in found)

    @property
    def turn(self) -> int:
        """Most pipes that one core sends through: each of them has a semaphore of its own there."""
        return max(len(self.outgoing(core)) for core in self.sources)

    def has_circle(self) -> bool:
        """Whether a core's blocks may go from core to core back to it."""
        after = {core: {r for p in self.pipes if p.source == core for r in p.receivers} for core in self.sources}
        left = set(self.sources)
        while left:
            ends = {core for core in left if not after[core] & left}
            if not ends:
                return True
            left -= ends
        return False


def pipe_of(op: Op) -> Pipe:
    """What a `ttl.create_pipe` says."""
    given = dict(op.attrs)
    if "dst_core" in given:
        return Pipe(op.integers("src_core"), tuple((n, n + 1) for n in op.integers("dst_core")))
    receives = bool(op.attr("src_receives", True))
    return Pipe(op.integers("src_core"), ranges_of(op, "dst_core_range"), receives)


def ranges_of(op: Op, name: str) -> tuple[tuple[int, int], ...]:
    """An attribute that is a list of [first, end] per dimension."""
    value = op.attr(name)
    assert isinstance(value, tuple)
    return tuple((int(str(ends[0])), int(str(ends[1]))) for ends in value if isinstance(ends, tuple))


def nets_of(program: Op) -> dict[str, PipeNet]:
    """Pipe nets of a program by the name of their value."""
    pipes = {op.result.name: pipe_of(op) for op in program.body.ops if op.name == PIPE}
    return {
        op.result.name: PipeNet.of([pipes[v.name] for v in op.operands])
        for op in program.body.ops
        if op.name == PIPE_NET
    }


@dataclass(frozen=True)
class Site:
    """An op, and the ops around it from its thread inwards."""

    op: Op
    around: tuple[Op, ...]

    @property
    def thread(self) -> Op:
        return self.around[0]

    @property
    def parent(self) -> Op:
        return self.around[-1]

    def within(self, name: str, operand: str) -> bool:
        """Whether an op of this name with this first operand is around it."""
        return any(op.name == name and op.operands[0].name == operand for op in self.around)


def sites(threads: Sequence[Op]) -> Iterator[Site]:
    """Every op of some threads, in program order."""
    for thread in threads:
        yield from _inside(thread, (thread,))


def _inside(op: Op, around: tuple[Op, ...]) -> Iterator[Site]:
    for region in op.regions:
        for inner in region.ops:
            yield Site(inner, around)
            yield from _inside(inner, (*around, inner))
