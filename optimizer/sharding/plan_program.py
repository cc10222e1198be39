"""A plan's decisions as the program that the transform will write, priced step by step; `l1` runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import opdef
from optimizer.l1.program import Buffer, Program, Row, Step
from optimizer.l1.rules import shared_operand
from optimizer.l1.run import Bank, Outcome, replay
from optimizer.layouts.memory_config import TensorLayout
from optimizer.layouts.tiling import round_up
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.pricing import OpPricer
from optimizer.opmodel.steps import step_of
from optimizer.sharding.base import OpDecision
from optimizer.sharding.copies import Source, needed_in_dram, source_of

Decisions = Mapping[str, OpDecision]


def plan_program(pricer: OpPricer, schedule: Sequence[str], decisions: Decisions) -> Program:
    """The program of a complete set of decisions."""
    have: dict[str, TensorLayout] = {}
    last_reads: dict[str, int] = {}
    in_dram = needed_in_dram(pricer.graph, schedule, decisions)
    for at, op_id in enumerate(schedule):
        op, decision = pricer.graph.op(op_id), decisions[op_id]
        for v, wanted in zip(op.inputs, decision.operands, strict=True):
            if wanted.is_l1 and v in have:
                last_reads[v] = at
        have.update({v: pricer.result_layout(op, v, decision.candidate.output) for v in op.outputs})
    steps = PlanSteps(pricer, have.get, in_dram.__contains__)
    rows = [steps.row(op_id, decisions[op_id]) for op_id in schedule]
    kept = tuple((v, size) for (v, _), size in weights_in_l1(pricer, schedule, decisions).items())
    return Program(rows, last_reads, kept)


def replay_plan(pricer: OpPricer, schedule: Sequence[str], decisions: Decisions) -> Outcome:
    """Time and overflows of a plan, as it runs from an empty L1."""
    return replay(plan_program(pricer, schedule, decisions), bank_of(pricer))


def bank_of(pricer: OpPricer) -> Bank:
    """The L1 that plans priced here may use."""
    return Bank.of(pricer.model.device, pricer.model.l1_small_bytes, pricer.l1_limit_bytes)


def weights_in_l1(
    pricer: OpPricer, schedule: Sequence[str], decisions: Decisions
) -> dict[tuple[str, TensorLayout], int]:
    """Weights that ops read from L1, in the order of their first readers -> bytes per core, as the allocator rounds."""
    found: dict[tuple[str, TensorLayout], int] = {}
    unit = pricer.model.device.l1_buffer_alignment_bytes
    for op_id in schedule:
        for v, layout in zip(pricer.graph.op(op_id).inputs, decisions[op_id].operands, strict=True):
            if layout.is_l1 and pricer.is_weight(v):
                found[v, layout] = round_up(pricer.value_bytes(v, layout), unit)
    return found


class PlanSteps:
    """The steps of one op, given where every value is."""

    def __init__(
        self, pricer: OpPricer, have: Callable[[str], TensorLayout | None], in_dram: Callable[[str], bool]
    ) -> None:
        """`have` gives the layout of what an op of the schedule produces, `in_dram` whether it is needed there."""
        self._pricer = pricer
        self._have = have
        self._in_dram = in_dram

    def row(self, op_id: str, decision: OpDecision) -> Row:
        """Copies of the operands, the op, copies of its results to DRAM; for an op on the host only its transfers."""
        op = self._pricer.graph.op(op_id)
        if opdef(op.op).opaque:
            return tuple(self._step(op_id, query) for query in self._pricer.transfers(op))
        return tuple(self._steps(op, decision))

    def _steps(self, op: Op, decision: OpDecision) -> Iterator[Step]:
        reads = []
        for k, (v, wanted) in enumerate(zip(op.inputs, decision.operands, strict=True)):
            have = self._have(v)
            if have is None and (self._pricer.is_weight(v) or wanted.is_host):
                continue  # made once, before the first step
            have = self._pricer.default_layout(self._pricer.graph.value(v)) if have is None else have
            found = source_of(have, wanted, is_static=False)
            source = (v, {Source.PRODUCED: "", Source.SPILLED: "spill"}.get(found, f"{op.id}:{k}"))
            if found is Source.COPIED:
                yield self._copy(op.id, v, have, wanted, source)
            if wanted.is_l1:
                reads.append((k, source))
        yield self._op(op, decision, dict(reads))
        for v in op.outputs:
            have = self._have(v)
            if have is not None and have.is_l1 and self._in_dram(v):
                target = self._pricer.default_layout(self._pricer.graph.value(v)).typed(have.dtype)
                yield self._copy(op.id, v, have, target, (v, "spill"))

    def _op(self, op: Op, decision: OpDecision, reads: Mapping[int, Buffer]) -> Step:
        candidate, pricer = decision.candidate, self._pricer
        query = pricer.query(candidate.of(op), decision.operands, candidate.config, candidate.request)
        layouts = [(v, pricer.result_layout(op, v, candidate.output)) for v in op.outputs]
        writes = tuple(((v, ""), pricer.value_bytes(v, layout)) for v, layout in layouts if layout.is_l1)
        shared = shared_operand(pricer.graph, op, decision.operands, candidate.output, candidate.config)
        shares = None if shared is None else reads.get(shared)
        more = {"shares": shares, "operand": reads.get(0), "wanted": candidate.output}
        return self._step(op.id, query, tuple(reads.values()), writes, is_copy=False, **more)

    def _copy(self, op_id: str, v: str, have: TensorLayout, wanted: TensorLayout, target: Buffer) -> Step:
        reads = ((v, ""),) if have.is_l1 else ()
        writes = ((target, self._pricer.value_bytes(v, wanted)),) if wanted.is_l1 else ()
        return self._step(op_id, self._pricer.copy_query(v, have, wanted), reads, writes)

    def _step(
        self,
        op_id: str,
        query: OpQuery,
        reads: tuple[Buffer, ...] = (),
        writes: tuple[tuple[Buffer, int], ...] = (),
        is_copy: bool = True,
        **more: Any,
    ) -> Step:
        model = self._pricer.model
        return step_of(op_id, model.constraints(query), model.runtime_ns(query), reads, writes, is_copy=is_copy, **more)
