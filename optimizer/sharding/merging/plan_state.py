"""`PlanState`: a complete plan under change, and what every change costs in time and in L1.

A plan is a decision per op; where each value lives follows from them. A value produced in L1 stays there until the
last op that reads it, or a copy of it, in L1; an op that reads it from DRAM makes the producer write it there as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optimizer.ir.graph import Op
from optimizer.l1.program import Step
from optimizer.l1.run import Overflow
from optimizer.l1.running import Rerun, RunningProgram
from optimizer.layouts.legal_op_configs import OpCandidate
from optimizer.layouts.memory_config import TensorLayout
from optimizer.sharding.base import OpDecision, PolicyInput
from optimizer.sharding.plan_program import PlanSteps, bank_of
from optimizer.sharding.refusals import Refusal

Changes = Mapping[str, OpDecision]


@dataclass(frozen=True)
class Applied:
    """A change that was made, and how to take it back."""

    before: Changes
    touched: tuple[str, ...]
    rerun: Rerun

    @property
    def saved_ns(self) -> int:
        """How much faster the whole plan became."""
        return self.rerun.saved_ns

    @property
    def overflow(self) -> Overflow | None:
        """The first op that does not fit L1 any more."""
        return self.rerun.overflow


@dataclass(frozen=True)
class FastestWay:
    """The fastest candidate of an op with a given result that takes given operands."""

    time_ns: int
    candidate: OpCandidate | None
    """None if no candidate takes them."""
    refusal: Refusal | None
    """Of the first candidate that does not."""


class PlanState:
    """Decisions of all ops of a schedule, with the program that they make."""

    def __init__(self, problem: PolicyInput, schedule: Sequence[str], decisions: Changes) -> None:
        self.problem = problem
        self.pricer = problem.pricer
        self.graph = problem.graph
        self.schedule = tuple(schedule)
        self.position = {op_id: i for i, op_id in enumerate(self.schedule)}
        self.decisions = dict(decisions)
        self._outputs = frozenset(problem.graph.outputs)
        self._ops = {op_id: problem.graph.op(op_id) for op_id in self.schedule}
        self._producer = {v: op_id for op_id, op in self._ops.items() for v in op.outputs}
        self._readers: dict[str, tuple[str, ...]] = {}
        self._last_reads: dict[str, int] = {}
        """Known so far of the present decisions."""
        self.fastest_ways: dict[tuple[str, OpCandidate, tuple[TensorLayout, ...]], FastestWay] = {}
        """(op, present candidate, operands) -> what trials have found out; it depends on nothing else of the plan."""
        self._steps = PlanSteps(self.pricer, self._have, self._needed_in_dram)
        self._program = RunningProgram(len(self.schedule), self._row, self._last_read, bank_of(self.pricer))
        self.overflows = tuple(self._program.overflows)
        """Where the plan did not fit at first."""

    # -- what is where -------------------------------------------------------------------------------
    def op(self, op_id: str) -> Op:
        return self._ops[op_id]

    def producer(self, value_id: str) -> str | None:
        """The op of the schedule that computes a value; None for inputs and for what weights give."""
        return self._producer.get(value_id)

    def readers(self, value_id: str) -> tuple[str, ...]:
        """Ops of the schedule that read a value, in schedule order."""
        if value_id not in self._readers:
            found = {op.id for op in self.graph.consumers(value_id) if op.id in self.position}
            self._readers[value_id] = tuple(sorted(found, key=lambda op_id: self.position[op_id]))
        return self._readers[value_id]

    def layout(self, value_id: str, changes: Changes | None = None) -> TensorLayout:
        """Layout in which a value comes into being."""
        producer = self._producer.get(value_id)
        if producer is None:
            return self.pricer.default_layout(self.graph.value(value_id))
        decision = self.decisions[producer] if changes is None else changes.get(producer, self.decisions[producer])
        return self.pricer.result_layout(self._ops[producer], value_id, decision.candidate.output)

    def read_as(self, op_id: str, value_id: str) -> TensorLayout:
        """Layout in which an op reads a value."""
        return self.decisions[op_id].operands[self._ops[op_id].inputs.index(value_id)]

    def is_spilled(self, value_id: str) -> bool:
        """Whether a value produced in L1 is written to DRAM."""
        return self.layout(value_id).is_l1 and self._needed_in_dram(value_id)

    def _have(self, value_id: str) -> TensorLayout | None:
        return self.layout(value_id) if value_id in self._producer else None

    def _needed_in_dram(self, value_id: str) -> bool:
        if value_id in self._outputs:
            return True
        return any(not self.read_as(r, value_id).is_l1 for r in self.readers(value_id))

    def _last_read(self, value_id: str) -> int:
        """Position of the last op that reads a value, or a copy of it, in L1; its producer's if none does."""
        if value_id not in self._last_reads:
            reads = (r for r in reversed(self.readers(value_id)) if self.read_as(r, value_id).is_l1)
            self._last_reads[value_id] = self.position[next(reads, self._producer[value_id])]
        return self._last_reads[value_id]

    # -- the program ---------------------------------------------------------------------------------
    def _row(self, at: int) -> tuple[Step, ...]:
        op_id = self.schedule[at]
        return self._steps.row(op_id, self.decisions[op_id])

    @property
    def time_ns(self) -> int:
        """Predicted time of the whole plan."""
        return self._program.time_ns

    def refusal(self, position: int) -> str | None:
        """Why the OpModel refuses the op at a position as it is now; None if it does not, or the op is on the host."""
        return next((step.refusal for step in self._program.row(position) if not step.is_copy), None)

    # -- change --------------------------------------------------------------------------------------
    def apply(self, changes: Changes, slower_too: bool = True) -> Applied:
        """Take these decisions. Where they save nothing, what they do to L1 is left open unless `slower_too`; they must
        be undone then."""
        touched = self._touched(changes)
        ends = [self._last_read(v) for v in touched]
        before = {op_id: self.decisions[op_id] for op_id in changes}
        self._take(touched, changes)
        ends += [self._last_read(v) for v in touched]
        dirty = {*changes, *(self._producer[v] for v in touched), *(r for v in touched for r in self.readers(v))}
        positions = {self.position[op_id] for op_id in dirty}
        return Applied(before, touched, self._program.rerun(positions, max((*positions, *ends)), slower_too))

    def undo(self, applied: Applied) -> None:
        """Take back the last change that is not taken back yet."""
        self._take(applied.touched, applied.before)
        self._program.undo(applied.rerun)

    def _take(self, touched: Sequence[str], decisions: Changes) -> None:
        self.decisions.update(decisions)
        for v in touched:
            self._last_reads.pop(v, None)

    def _touched(self, changes: Changes) -> tuple[str, ...]:
        """Values that may be elsewhere, or for longer, after a change: what its ops read and give."""
        found = [v for op_id in changes for v in (*self._ops[op_id].inputs, *self._ops[op_id].outputs)]
        return tuple(v for v in dict.fromkeys(found) if v in self._producer)
