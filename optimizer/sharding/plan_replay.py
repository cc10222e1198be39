"""What a plan takes in time and in L1, worked out before it is written into a graph.

The decisions are unrolled into the program the transform emits (spill right after the producer, load or reshard
right before the reader), every step is priced, and L1 is replayed: a sum of bytes that fits is not enough, since the
runtime places buffers first fit from the top and circular buffers must stay below the lowest one. Weights that are read
from L1 are there before the first step, at the top, and stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import TensorLayout, interleaved
from optimizer.layouts.tiling import round_up
from optimizer.opmodel.base import OpQuery
from optimizer.sharding.base import OpDecision
from optimizer.sharding.pricing import OpPricer
from optimizer.solver.l1_allocator import L1Allocator

Buffer = tuple[str, str]
"""A value and which form of it: `""` as produced, `spill`, or the reader of a copy."""


@dataclass(frozen=True)
class Overflow:
    """An op at which L1 does not suffice."""

    op_id: str
    excess_bytes: int
    residents: tuple[str, ...]
    """Values in L1 as produced, other than the op's own operands and results."""


@dataclass(frozen=True)
class PlanReplay:
    """Outcome: total time and every place where the plan does not fit."""

    time_ns: int
    overflows: tuple[Overflow, ...]
    spare_bytes: int = 0
    """L1 per core that no step takes: what could be kept at the top of every bank besides. Negative: see overflows."""


@dataclass(frozen=True)
class _Step:
    op_id: str
    query: OpQuery
    reads: tuple[Buffer, ...]
    writes: tuple[tuple[Buffer, int], ...]
    """L1 results and their bytes per core."""
    alias: bool = False
    """The result lives in the first operand's buffer."""


def result_layout_of(pricer: OpPricer, op: Op, value_id: str, output: TensorLayout) -> TensorLayout:
    """Layout of one result: the candidate's for the first, the same kind of memory interleaved for the others."""
    return output if value_id == op.outputs[0] else interleaved(output.memory.buffer_type, pricer.pages[value_id])


def is_view_of(pricer: OpPricer, op: Op, source: TensorLayout, target: TensorLayout) -> bool:
    """Whether the result shares its first operand's buffer: a view by its row, and the same tiled placement."""
    rule = opdef(op.op).view
    if rule is None or not op.inputs or source != target or not source.is_tile or source.is_sharded:
        return False
    values = pricer.graph
    return rule(opdef(op.op).full_attrs(op), values.value(op.inputs[0]).shape, values.value(op.outputs[0]).shape)


def weights_in_l1(
    pricer: OpPricer, schedule: Sequence[str], decisions: Mapping[str, OpDecision]
) -> dict[tuple[str, TensorLayout], int]:
    """Weights that ops read from L1, in the order of their first readers -> bytes per core, as the allocator rounds."""
    found: dict[tuple[str, TensorLayout], int] = {}
    unit = pricer.model.device.l1_buffer_alignment_bytes
    for op_id in schedule:
        for v, layout in zip(pricer.graph.op(op_id).inputs, decisions[op_id].operands, strict=True):
            if layout.is_l1 and pricer.is_weight(v):
                found[v, layout] = round_up(pricer.value_bytes(v, layout), unit)
    return found


class PlanProgram:
    """The program of a complete set of decisions, or of a part of the schedule that no value in L1 enters or leaves."""

    def __init__(
        self,
        pricer: OpPricer,
        schedule: Sequence[str],
        decisions: Mapping[str, OpDecision],
        in_dram: Iterable[str] = (),
    ) -> None:
        """`in_dram` are values that ops outside the schedule read from DRAM."""
        self._pricer = pricer
        self._schedule = schedule
        self._decisions = decisions
        self._have: dict[str, TensorLayout] = {}
        for op_id in schedule:
            op = pricer.graph.op(op_id)
            for v in op.outputs:
                self._have[v] = result_layout_of(pricer, op, v, decisions[op_id].candidate.output)
        self._in_dram = {*pricer.graph.outputs, *in_dram}
        for op_id in schedule:
            for v, wanted in zip(pricer.graph.op(op_id).inputs, decisions[op_id].operands, strict=True):
                if not wanted.is_l1:
                    self._in_dram.add(v)

    def replay(self) -> PlanReplay:
        """Time and overflows of the whole program."""
        model = self._pricer.model
        device, small = model.device, model.l1_small_bytes
        bank = device.l1_bank_bytes(small)
        steps = list(self._steps())
        alias: dict[Buffer, Buffer] = {}
        for step in steps:
            if step.alias and step.writes:
                alias[step.writes[0][0]] = alias.get(step.reads[0], step.reads[0])
        last = {alias.get(b, b): i for i, step in enumerate(steps) for b in step.reads}
        allocator = L1Allocator(0, 1 << 40, device.l1_buffer_alignment_bytes)
        kept = 0
        for size in weights_in_l1(self._pricer, self._schedule, self._decisions).values():
            allocator.allocate(size)
            kept += size
        live: dict[Buffer, tuple[int, int]] = {}
        overflows, time, worst = [], 0, kept - self._pricer.l1_limit_bytes
        for i, step in enumerate(steps):
            time += model.runtime_ns(step.query)
            answer = model.constraints(step.query)
            resident = kept + sum(size for _, size in live.values())
            before = _depth(allocator)
            mine = [(b, size) for b, size in step.writes if b not in alias]
            for b, size in mine:
                address = allocator.allocate(size)
                assert address is not None
                live[b] = (address, size)
            inside = max(0, answer.peak_bytes - sum(size for _, size in mine))
            extent = max(before + answer.cb_bytes, _depth(allocator) + inside)
            excess = max(resident + answer.peak_bytes - self._pricer.l1_limit_bytes, extent - bank)
            worst = max(worst, excess)
            if excess > 0:
                own = {*step.reads, *(b for b, _ in step.writes)}
                others = tuple(sorted(b[0] for b in live if b not in own and not b[1]))
                overflows.append(Overflow(step.op_id, excess, others))
            for b in [b for b in live if last.get(b, -1) <= i]:
                allocator.free(live.pop(b)[0])
        return PlanReplay(time, tuple(overflows), -worst)

    def _steps(self) -> Iterator[_Step]:
        for op_id in self._schedule:
            op, decision = self._pricer.graph.op(op_id), self._decisions[op_id]
            if opdef(op.op).opaque:
                continue
            reads = []
            for k, (v, wanted) in enumerate(zip(op.inputs, decision.operands, strict=True)):
                have = self._have.get(v)
                if have is None and (self._pricer.is_weight(v) or wanted.is_host):
                    continue  # made once, before the first step
                have = self._pricer.default_layout(self._pricer.graph.value(v)) if have is None else have
                if have == wanted or (wanted.is_dram and have.is_l1):
                    source = (v, "" if have == wanted else "spill")
                else:
                    source = (v, f"{op_id}:{k}")
                    yield self._copy(op_id, v, have, wanted, source)
                if wanted.is_l1:
                    reads.append((k, source))
            yield self._op(op, decision, dict(reads))
            for v in op.outputs:
                have = self._have[v]
                if have.is_l1 and v in self._in_dram:
                    target = self._pricer.default_layout(self._pricer.graph.value(v))
                    yield self._copy(op_id, v, have, target, (v, "spill"))

    def _op(self, op: Op, decision: OpDecision, reads: Mapping[int, Buffer]) -> _Step:
        candidate = decision.candidate
        query = self._pricer.query(op, decision.operands, candidate.config, candidate.request)
        layouts = [(v, self._have[v]) for v in op.outputs]
        writes = tuple(((v, ""), self._pricer.value_bytes(v, layout)) for v, layout in layouts if layout.is_l1)
        view = bool(op.inputs) and is_view_of(self._pricer, op, decision.operands[0], candidate.output)
        return _Step(op.id, query, tuple(reads.values()), writes, view and 0 in reads)

    def _copy(self, op_id: str, v: str, have: TensorLayout, wanted: TensorLayout, target: Buffer) -> _Step:
        reads = ((v, ""),) if have.is_l1 else ()
        writes = ((target, self._pricer.value_bytes(v, wanted)),) if wanted.is_l1 else ()
        return _Step(op_id, self._pricer.copy_query(v, have, wanted), reads, writes)


def _depth(allocator: L1Allocator) -> int:
    """Distance of the lowest buffer from the top."""
    lowest = allocator.lowest_address
    return 0 if lowest is None else (1 << 40) - lowest
