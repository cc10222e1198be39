"""What a plan takes in time and in L1, worked out before it is written into a graph.

The decisions are unrolled into the program the transform emits (spill right after the producer, load or reshard
right before the reader), every step is priced, and L1 is replayed: a sum of bytes that fits is not enough, since the
runtime places buffers first fit from the top and circular buffers must stay below the lowest one. Weights that are read
from L1 are there before the first step, at the top, and stay.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import opdef
from optimizer.l1.allocator import L1Allocator
from optimizer.layouts.memory_config import TensorLayout, interleaved
from optimizer.layouts.op_config import overwritten_operand
from optimizer.layouts.tiling import round_up
from optimizer.opmodel.base import OpConstraints, OpQuery
from optimizer.opmodel.pricing import OpPricer
from optimizer.sharding.base import OpDecision

_ENDLESS = 1 << 40
"""Top of an address space in which every allocation succeeds; whether it fits L1 is asked afterwards."""

Buffer = tuple[str, str]
"""A value and which form of it: `""` as produced, `spill`, or the reader of a copy."""


@dataclass(frozen=True)
class Overflow:
    """An op at which L1 does not suffice."""

    op_id: str
    excess_bytes: int
    residents: tuple[str, ...]
    """Values in L1 as produced, other than the op's own operands and results."""
    fragmented: bool = False
    """Whether the bytes alone would fit: holes between tensors push them into the circular buffers."""


@dataclass(frozen=True)
class PlanReplay:
    """Outcome: total time and every place where the plan does not fit."""

    time_ns: int
    overflows: tuple[Overflow, ...]
    spare_bytes: int = 0
    """L1 per core that no step takes: what could be kept at the top of every bank besides. Negative: see overflows."""


@dataclass(frozen=True)
class Step:
    """One program of the plan: an op, or a copy before or after it."""

    op_id: str
    query: OpQuery
    reads: tuple[Buffer, ...]
    writes: tuple[tuple[Buffer, int], ...]
    """L1 results and their bytes per core."""
    alias: Buffer | None = None
    """What the result shares the buffer of: the operand that it is a view of, or that it is written into."""
    is_copy: bool = False
    """Made for the op, or of its result."""


def result_layout_of(pricer: OpPricer, op: Op, value_id: str, output: TensorLayout) -> TensorLayout:
    """Layout of one result: the candidate's for the first, the same kind of memory interleaved for the others."""
    return output if value_id == op.outputs[0] else interleaved(output.memory.buffer_type, pricer.pages[value_id])


def is_view_of(pricer: OpPricer, op: Op, source: TensorLayout, target: TensorLayout) -> bool:
    """Whether the result shares its first operand's buffer: a view by its row, and the same tiled placement."""
    return source == target and may_be_view(pricer, op, target)


def shared_operand(pricer: OpPricer, op: Op, decision: OpDecision) -> int | None:
    """Position of the operand whose buffer the result takes, as a view or in place; None if it has one of its own."""
    if op.inputs and is_view_of(pricer, op, decision.operands[0], decision.candidate.output):
        return 0
    return overwritten_operand(decision.candidate.config)


def may_be_view(pricer: OpPricer, op: Op, layout: TensorLayout) -> bool:
    """Whether the op's result in this layout lies in its operand's buffer if that has it too."""
    row = opdef(op.op)
    if row.view is None or not op.inputs or not layout.is_tile or (layout.is_sharded and not row.view_of_shards):
        return False
    values = pricer.graph
    return row.view(row.full_attrs(op), values.value(op.inputs[0]).shape, values.value(op.outputs[0]).shape)


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


class ProgramSteps:
    """The programs of one op, given where every value is."""

    def __init__(
        self, pricer: OpPricer, have: Callable[[str], TensorLayout | None], in_dram: Callable[[str], bool]
    ) -> None:
        """`have` gives the layout of what an op of the schedule produces, `in_dram` whether it is needed there."""
        self._pricer = pricer
        self._have = have
        self._in_dram = in_dram

    def of(self, op_id: str, decision: OpDecision) -> Iterator[Step]:
        """Copies of the operands, the op, copies of its results to DRAM; for an op on the host only its transfers."""
        op = self._pricer.graph.op(op_id)
        if opdef(op.op).opaque:
            for query in self._pricer.transfers(op):
                yield Step(op.id, query, (), (), is_copy=True)
            return
        reads = []
        for k, (v, wanted) in enumerate(zip(op.inputs, decision.operands, strict=True)):
            have = self._have(v)
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
            have = self._have(v)
            if have is not None and have.is_l1 and self._in_dram(v):
                target = self._pricer.default_layout(self._pricer.graph.value(v))
                yield self._copy(op_id, v, have, target, (v, "spill"))

    def _op(self, op: Op, decision: OpDecision, reads: Mapping[int, Buffer]) -> Step:
        candidate = decision.candidate
        query = self._pricer.query(op, decision.operands, candidate.config, candidate.request)
        layouts = [(v, result_layout_of(self._pricer, op, v, candidate.output)) for v in op.outputs]
        writes = tuple(((v, ""), self._pricer.value_bytes(v, layout)) for v, layout in layouts if layout.is_l1)
        shared = shared_operand(self._pricer, op, decision)
        return Step(op.id, query, tuple(reads.values()), writes, None if shared is None else reads.get(shared))

    def _copy(self, op_id: str, v: str, have: TensorLayout, wanted: TensorLayout, target: Buffer) -> Step:
        reads = ((v, ""),) if have.is_l1 else ()
        writes = ((target, self._pricer.value_bytes(v, wanted)),) if wanted.is_l1 else ()
        return Step(op_id, self._pricer.copy_query(v, have, wanted), reads, writes, is_copy=True)


class PlanProgram:
    """The program of a complete set of decisions."""

    def __init__(self, pricer: OpPricer, schedule: Sequence[str], decisions: Mapping[str, OpDecision]) -> None:
        self._pricer = pricer
        self._schedule = schedule
        self._decisions = decisions
        have: dict[str, TensorLayout] = {}
        for op_id in schedule:
            op = pricer.graph.op(op_id)
            for v in op.outputs:
                have[v] = result_layout_of(pricer, op, v, decisions[op_id].candidate.output)
        needed = set(pricer.graph.outputs)
        for op_id in schedule:
            for v, wanted in zip(pricer.graph.op(op_id).inputs, decisions[op_id].operands, strict=True):
                if not wanted.is_l1:
                    needed.add(v)
        self._steps = ProgramSteps(pricer, have.get, needed.__contains__)

    def replay(self) -> PlanReplay:
        """Time and overflows of the whole program."""
        model = self._pricer.model
        steps = [step for op_id in self._schedule for step in self._steps.of(op_id, self._decisions[op_id])]
        alias: dict[Buffer, Buffer] = {}
        for step in steps:
            if step.alias is not None and step.writes:
                alias[step.writes[0][0]] = alias.get(step.alias, step.alias)
        last = {alias.get(b, b): i for i, step in enumerate(steps) for b in step.reads}
        run = L1Run(self._pricer, weights_in_l1(self._pricer, self._schedule, self._decisions).values())
        overflows, time = [], 0
        worst = run.kept_bytes - self._pricer.l1_limit_bytes
        for i, step in enumerate(steps):
            time += model.runtime_ns(step.query)
            excess = run.execute(step, model.constraints(step.query), alias)
            worst = max(worst, excess)
            if excess > 0:
                overflows.append(run.overflow(step, excess))
            run.free([b for b in run.live if last.get(b, -1) <= i])
        return PlanReplay(time, tuple(overflows), -worst)


class L1Run:
    """The runtime's L1 while a program runs: which buffers are alive, and at which addresses."""

    def __init__(self, pricer: OpPricer, kept_bytes: Iterable[int] = ()) -> None:
        """`kept_bytes` are buffers, per core, that are there before the program and stay."""
        device = pricer.model.device
        self._bank_bytes = device.l1_bank_bytes(pricer.model.l1_small_bytes)
        self._limit_bytes = pricer.l1_limit_bytes
        self._allocator = L1Allocator(0, _ENDLESS, device.l1_buffer_alignment_bytes)
        self.live: dict[Buffer, tuple[int, int]] = {}
        """Address and bytes per core."""
        self._adds_up = True
        self.kept_bytes = 0
        for size in kept_bytes:
            self._allocator.allocate(size)
            self.kept_bytes += size

    def copy(self) -> L1Run:
        """A run in the same state."""
        other = copy(self)
        other._allocator = self._allocator.copy()
        other.live = dict(self.live)
        return other

    def execute(self, step: Step, answer: OpConstraints, shared: Container[Buffer]) -> int:
        """Allocate a step's results, but for those in `shared` buffers; bytes by which L1 is too small, if positive."""
        resident = self.kept_bytes + sum(size for _, size in self.live.values())
        before = self._depth()
        mine = [(b, size) for b, size in step.writes if b not in shared]
        for b, size in mine:
            address = self._allocator.allocate(size)
            assert address is not None
            self.live[b] = (address, size)
        inside = max(0, answer.peak_bytes - sum(size for _, size in mine))
        extent = max(before + answer.cb_bytes, self._depth() + inside)
        extent = max(extent, before + answer.choice_room_bytes)
        self._adds_up = resident + answer.peak_bytes <= self._limit_bytes
        return max(resident + answer.peak_bytes - self._limit_bytes, extent - self._bank_bytes)

    def free(self, buffers: Iterable[Buffer]) -> None:
        for b in buffers:
            self._allocator.free(self.live.pop(b)[0])

    def overflow(self, step: Step, excess_bytes: int) -> Overflow:
        """The step just executed, which does not fit, with what else is alive."""
        own = {*step.reads, *(b for b, _ in step.writes)}
        others = tuple(sorted(b[0] for b in self.live if b not in own and not b[1]))
        return Overflow(step.op_id, excess_bytes, others, self._adds_up)

    @property
    def hole_bytes(self) -> int:
        """Room between the live buffers."""
        return self._depth() - self._allocator.live_bytes

    @property
    def room_bytes(self) -> int:
        """Room below the live buffers."""
        return self._bank_bytes - self._depth()

    def _depth(self) -> int:
        """Distance of the lowest buffer from the top."""
        lowest = self._allocator.lowest_address
        return 0 if lowest is None else _ENDLESS - lowest
