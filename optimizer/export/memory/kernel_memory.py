"""Memory of a run whose kernels stand for their ops, from the replay of the plan op by op.

A kernel brings its results to life and reads its operands where it runs; values inside of it have no buffer. What is
there lies where the plan has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from optimizer.export.facts import KernelRun, kernel_runs
from optimizer.export.memory.occupancy import Block, DramOccupancy, Gone, Made, Occupancy, OpMemory, Ran
from optimizer.fusion.schedule import FusedSchedule
from optimizer.result import OptimizedGraph


@dataclass(frozen=True)
class RunMemory:
    """Memory at the steps of a run, by their ops; a kernel's is that of the op in whose place it runs."""

    l1: Mapping[str, OpMemory]
    dram: Mapping[str, Mapping[str, Block]]


def with_kernels(result: OptimizedGraph, l1: Occupancy, dram: DramOccupancy) -> RunMemory:
    """What the plan's replays become."""
    kernels = kernel_runs(result)
    plain = RunMemory({memory.op: memory for memory in l1.ops}, dram.ops)
    return _Moved(result, kernels, plain).memory() if kernels else plain


class _Moved:
    """Buffers that live from another step or to another one than in the plan, and those that are gone."""

    def __init__(self, result: OptimizedGraph, kernels: tuple[KernelRun, ...], plain: RunMemory) -> None:
        self._plain = plain
        self._kernels = {kernel.place.id: kernel for kernel in kernels}
        self._schedule = FusedSchedule(result)
        self._blocks = {v: b for memory in plain.l1.values() for v, b in memory.after().items()}
        self._dram_blocks = {v: b for blocks in plain.dram.values() for v, b in blocks.items()}
        names = [*self._blocks, *self._dram_blocks]
        known = {v for v in names if v in result.program.homes}
        before = {v: self._schedule.span(v) for v in known}
        for kernel in kernels:
            self._schedule.fuse(kernel.ops, kernel.place.id, kernel.outputs)
        self._spans = {v: span for v in names if v in known and (span := self._schedule.span(v)) != before[v]}

    def memory(self) -> RunMemory:
        index = self._schedule.index
        return RunMemory(
            {op: self._l1(memory, index[op]) for op, memory in self._plain.l1.items()},
            {op: self._held(blocks, self._dram_blocks, index[op]) for op, blocks in self._plain.dram.items()},
        )

    def _l1(self, plain: OpMemory, step: int) -> OpMemory:
        residents = self._held(plain.residents, self._blocks, step, made=False)
        freed = [v for v in plain.freed if v not in self._spans]
        ended = {event.name for event in plain.events if isinstance(event, Gone)}
        freed += [v for v in self._blocks if (span := self._spans.get(v)) and span[1] == step and v not in ended]
        kernel = self._kernels.get(plain.op)
        if kernel is None:
            return OpMemory(plain.op, residents, plain.events, tuple(freed))
        made = [Made(v, self._blocks[v]) for v in kernel.outputs if v in self._blocks and v not in residents]
        return OpMemory(plain.op, residents, (*made, Ran(kernel.circular_buffer_bytes)), tuple(freed))

    def _held(
        self, plain: Mapping[str, Block], blocks: Mapping[str, Block], step: int, made: bool = True
    ) -> dict[str, Block]:
        """What is there at a step, with what the step itself has made if `made`."""
        held = {v: block for v, block in plain.items() if v not in self._spans}
        for v, span in self._spans.items():
            if v in blocks and span is not None and span[0] < step + made and step <= span[1]:
                held[v] = blocks[v]
        return held
