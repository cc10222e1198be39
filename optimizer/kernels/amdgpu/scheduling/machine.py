"""One wave's time through instructions in order: a model of issue, shared units, results that arrive, waits.

Instructions issue in order, four cycles each. One whose operands are not there, or whose unit is occupied, holds up
everything behind it. In finished programs `s_waitcnt` and `s_nop` do that explicitly: memory operations are complete in
the order of their issue. Elsewhere (`finished` is false) the model inserts the waits itself. What it leaves out: other
waves, which run meanwhile or are waited for at barriers, caches (every load takes the same time), bank conflicts, and
the fetching of instructions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from optimizer.kernels.amdgpu.ir import Instruction
from optimizer.kernels.amdgpu.opcodes import Category, opcode
from optimizer.kernels.amdgpu.operands import Immediate, WaitCount
from optimizer.kernels.amdgpu.resources import Resource, read_resources, written_resources
from optimizer.kernels.amdgpu.scheduling.latencies import BRANCH, ISSUE, busy, delay, latency, unit

_RECENT = 24
"""Readers of a register that are remembered: hazards reach no further back."""


@dataclass(frozen=True, slots=True)
class Covered:
    """A load, and the wait that makes sure of it."""

    instructions: int
    """Issued between the two."""
    cycles: int
    """From the load's issue to where the wait begins."""


@dataclass(slots=True)
class _Operation:
    issued: int
    number: int
    complete: int
    loads: bool
    in_order: bool


@dataclass
class Machine:
    """The state of one wave."""

    finished: bool = False
    """The instructions have all the waits that they need; otherwise an s_waitcnt is issued where one will be due."""
    clock: int = 0
    """Cycle at which the next instruction may issue."""
    number: int = 0
    """Instructions issued."""
    waiting: dict[str, int] = field(default_factory=lambda: {"vmcnt": 0, "lgkmcnt": 0})
    """Cycles spent in s_waitcnt, by counter."""
    idle: int = 0
    """Cycles of s_nop."""
    covered: list[Covered] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._outstanding: dict[str, list[_Operation]] = {"vmcnt": [], "lgkmcnt": []}
        self._free: dict[str, int] = {}
        self._writer: dict[Resource, tuple[Instruction, int]] = {}
        self._readers: dict[Resource, list[tuple[Instruction, int]]] = {}
        self._loading: dict[str, list[tuple[tuple[Resource, ...], _Operation]]] = {"vmcnt": [], "lgkmcnt": []}

    def run(self, items: Iterable[Instruction]) -> int:
        """Issue instructions one after the other; the cycle behind the last one."""
        for item in items:
            self.issue(item)
        return self.clock

    def issue(self, item: Instruction, taken: bool = False) -> None:
        """One instruction; `taken`: a branch that leads away."""
        if item.name == "s_waitcnt":
            self._wait(item)
        if not self.finished:
            self._insert_wait(item)
        start = max(self.clock, self._ready(item))
        if item.name == "s_nop":
            count = item.uses[0]
            assert isinstance(count, Immediate)
            self.idle += ISSUE * (count.value + 1)
            self.clock = start + ISSUE * (count.value + 1)
        else:
            self.clock = start + (BRANCH if taken else ISSUE)
        self.number += 1
        self._record(item, start)

    def settled(self, resources: Iterable[Resource]) -> int:
        """The cycle at which all of these registers hold what was last written to them."""
        times = [self.clock]
        for resource in resources:
            if resource in self._writer:
                item, issued = self._writer[resource]
                times.append(issued + latency(item))
        return max(times)

    def _insert_wait(self, item: Instruction) -> None:
        """Issue an s_waitcnt if an instruction touches what is being loaded. It covers what was issued before, too; all
        of it while scalar loads are outstanding, which complete in any order."""
        touched = {*read_resources(item), *written_resources(item)}
        due = False
        for counter, loading in self._loading.items():
            found = [n for n, (loaded, _) in enumerate(loading) if not touched.isdisjoint(loaded)]
            if not found:
                continue
            due = True
            in_order = all(operation.in_order for _, operation in loading)
            covered = loading[: found[-1] + 1] if in_order else loading
            self._loading[counter] = loading[len(covered) :]
            self.clock = max([self.clock, *(operation.complete for _, operation in covered)])
        self.clock += ISSUE * due

    def _ready(self, item: Instruction) -> int:
        times = [self._free.get(unit(item) or "", 0)]
        for resource in (*read_resources(item), *written_resources(item)):
            if resource in self._writer:
                writer, issued = self._writer[resource]
                times.append(issued + delay(writer, item))
        for resource in written_resources(item):
            times += [issued + delay(reader, item) for reader, issued in self._readers.get(resource, ())]
        return max(times)

    def _record(self, item: Instruction, start: int) -> None:
        shared = unit(item)
        if shared is not None:
            self._free[shared] = start + busy(item)
        for resource in read_resources(item):
            recent = self._readers.setdefault(resource, [])
            recent.append((item, start))
            del recent[:-_RECENT]
        for resource in written_resources(item):
            self._writer[resource] = item, start
            self._readers.pop(resource, None)
        known = opcode(item.name)
        if known.counter is not None:
            queue = self._outstanding[known.counter]
            in_order = known.category is not Category.SMEM
            complete = max([start + latency(item), *(o.complete for o in queue if o.in_order and in_order)])
            loads = bool(written_resources(item))
            operation = _Operation(start, self.number, complete, loads, in_order)
            queue.append(operation)
            if not self.finished:
                self._loading[known.counter].append((written_resources(item), operation))

    def _wait(self, item: Instruction) -> None:
        for use in item.uses:
            if not isinstance(use, WaitCount) or use.counter not in self._outstanding:
                continue
            queue = self._outstanding[use.counter]
            done = queue[: len(queue) - use.value] if len(queue) > use.value else []
            self._outstanding[use.counter] = queue[len(done) :]
            self.covered += [Covered(self.number - o.number, self.clock - o.issued) for o in done if o.loads]
            arrived = max([self.clock, *(o.complete for o in done)])
            self.waiting[use.counter] += arrived - self.clock
            self.clock = arrived
