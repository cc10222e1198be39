"""What must stay in order in a straight run of instructions, and at which distance: a graph of dependences.

Registers and special registers: definition before use, use before the next definition, definitions in order. Memory:
LDS is one object, in which nothing passes a write, because lanes reach each other's words; so is memory, but for loads
from where nothing is stored. Nothing that other waves could notice passes a barrier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from optimizer.kernels.amdgpu.abi import KERNARG
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.opcodes import Category, opcode
from optimizer.kernels.amdgpu.operands import PhysicalReg
from optimizer.kernels.amdgpu.passes.insert_waits import (
    LDS_DMA,
    LDS_READ,
    LDS_WRITE,
    LOAD,
    SCALAR_LOAD,
    STORE,
    access_kinds,
)
from optimizer.kernels.amdgpu.resources import Resource, read_resources, writes_exec, written_resources
from optimizer.kernels.amdgpu.scheduling.machine import ISSUE, delay, latency
from optimizer.process.work_limit import spend

_BARRIER = "<barrier>"
_SCRATCH_LOAD, _SCRATCH_STORE = "<scratch load>", "<scratch store>"
_READS = {LDS_READ: "LDS", LOAD: "memory", SCALAR_LOAD: "memory", _SCRATCH_LOAD: "scratch"}
_WRITES = {LDS_WRITE: "LDS", LDS_DMA: "LDS", STORE: "memory", _SCRATCH_STORE: "scratch"}


@dataclass(frozen=True)
class MemoryOrder:
    """Which memory accesses of a program must stay in order."""

    loads_are_apart: bool = False
    """Loads and stores never touch the same memory (that of other waves included): loads pass stores and barriers."""
    several_waves: bool = True
    """Whether other waves of the workgroup see LDS: what is written there must be complete at a barrier."""

    def keeps(self, before: Sequence[str], after: Sequence[str]) -> bool:
        """Whether accesses of these kinds stay in order."""
        return any(self._conflict(a, b) for a in before for b in after)

    def _conflict(self, a: str, b: str) -> bool:
        if _BARRIER in (a, b):
            other = b if a == _BARRIER else a
            return not (self.loads_are_apart and other in (LOAD, SCALAR_LOAD)) and "scratch" not in other
        if a not in _WRITES and b not in _WRITES:
            return False
        spaces = [_WRITES.get(kind) or _READS[kind] for kind in (a, b)]
        if spaces[0] != spaces[1]:
            return False
        return not (self.loads_are_apart and spaces[0] == "memory" and (a in _READS or b in _READS))


def accesses(item: Instruction) -> tuple[str, ...]:
    """Kinds of memory accesses; none for loads of the kernel's arguments, which nothing changes."""
    known = opcode(item.name)
    if item.name == "s_barrier":
        return (_BARRIER,)
    if known.category is Category.SMEM and item.uses[:1] == (KERNARG,):
        return ()
    if known.format == "SCRATCH":
        return (_SCRATCH_STORE,) if known.stores else (_SCRATCH_LOAD,)
    return access_kinds(item)


def is_movable(item: Instruction) -> bool:
    """Whether an instruction may change places with others at all."""
    known = opcode(item.name)
    if item.name == "s_barrier":
        return True
    if known.is_pseudo or known.category in (Category.BRANCH, Category.CONTROL) or item.name == "s_memtime":
        return False
    return not writes_exec(item)


@dataclass(frozen=True)
class Dependences:
    """Of instructions by number, each on earlier ones: number -> cycles between the two issues."""

    items: tuple[Instruction, ...]
    before: tuple[dict[int, int], ...]

    @cached_property
    def after(self) -> tuple[dict[int, int], ...]:
        """The same edges from their sources."""
        found: tuple[dict[int, int], ...] = tuple({} for _ in self.items)
        for n, sources in enumerate(self.before):
            for source, cycles in sources.items():
                found[source][n] = cycles
        return found

    def closure(self, chosen: set[int]) -> set[int]:
        """The chosen instructions and all that must come before them."""
        found, pending = set(chosen), list(chosen)
        while pending:
            for source in self.before[pending.pop()]:
                if source not in found:
                    found.add(source)
                    pending.append(source)
        return found


def prescribed_homes(program: Program) -> dict[Resource, Resource]:
    """Precoloured registers -> the physical registers they are."""
    return {r: PhysicalReg(r.file, n) for r, n in program.precolored}


def dependences(
    items: Sequence[Instruction], order: MemoryOrder, homes: dict[Resource, Resource] | None = None
) -> Dependences:
    """The graph of a run of instructions."""
    homes = homes or {}
    before: list[dict[int, int]] = [{} for _ in items]
    writer: dict[Resource, int] = {}
    readers: dict[Resource, list[int]] = {}
    memory: list[tuple[int, tuple[str, ...]]] = []
    for n, item in enumerate(items):
        read = [homes.get(r, r) for r in read_resources(item)]
        written = [homes.get(r, r) for r in written_resources(item)]
        sources = {writer[r] for r in (*read, *written) if r in writer}
        sources.update(reader for r in written for reader in readers.get(r, ()))
        for source in sources - {n}:
            before[n][source] = delay(items[source], item)
        for source, cycles in _memory_before(items, n, memory, order):
            before[n][source] = max(cycles, before[n].get(source, 0))
        for r in read:
            readers.setdefault(r, []).append(n)
        for r in written:
            writer[r] = n
            readers[r] = []
        if kinds := accesses(item):
            memory.append((n, kinds))
    return Dependences(tuple(items), tuple(before))


def _memory_before(
    items: Sequence[Instruction], n: int, memory: Sequence[tuple[int, tuple[str, ...]]], order: MemoryOrder
) -> Iterator[tuple[int, int]]:
    kinds = accesses(items[n])
    if not kinds:
        return
    spend(1 + len(memory) // 8)
    for source, others in memory:
        if order.keeps(others, kinds):
            complete = kinds == (_BARRIER,) and order.several_waves and not {LDS_WRITE, LDS_DMA}.isdisjoint(others)
            yield source, latency(items[source]) if complete else ISSUE
