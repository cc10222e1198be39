"""`PlanState`: a complete plan under change, and what every change costs in time and in L1.

A plan is a decision per op; where each value lives follows from them. A value produced in L1 stays there until the
last op that reads it, or a copy of it, in L1; an op that reads it from DRAM makes the producer write it there as well.
The timeline holds all those residencies, views with the value whose room they share; the replay holds times and
addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from optimizer.ir.graph import Op
from optimizer.layouts.memory_config import TensorLayout
from optimizer.opmodel.base import OpConstraints
from optimizer.sharding.base import OpDecision, PolicyInput
from optimizer.sharding.plan_replay import Overflow, ProgramSteps, is_view_of, result_layout_of
from optimizer.sharding.running_replay import Rerun, RunningReplay
from optimizer.solver.reservation_timeline import ReservationTimeline

Changes = Mapping[str, OpDecision]


@dataclass(frozen=True)
class Residency:
    """A value in L1 at the schedule positions start .. end, both included."""

    value: str
    start: int
    end: int
    bytes_per_core: int
    shares: str | None = None
    """The value whose buffer it is a view of."""


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


class PlanState:
    """Decisions of all ops of a schedule, with the L1 residencies they imply."""

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
        self._timeline: ReservationTimeline[str] = ReservationTimeline(max(1, len(self.schedule)))
        self._resident: dict[str, Residency] = {}
        self._hold(self._producer)
        steps = ProgramSteps(self.pricer, self._have, self._needed_in_dram)
        self._replay = RunningReplay(self.pricer, self.schedule, self.decisions, steps, self._last_read)
        self.overflows = tuple(self._replay.overflows)
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
        return result_layout_of(self.pricer, self._ops[producer], value_id, decision.candidate.output)

    def read_as(self, op_id: str, value_id: str) -> TensorLayout:
        """Layout in which an op reads a value."""
        return self.decisions[op_id].operands[self._ops[op_id].inputs.index(value_id)]

    def _have(self, value_id: str) -> TensorLayout | None:
        return self.layout(value_id) if value_id in self._producer else None

    def _last_read(self, value_id: str) -> int:
        return self._resident[value_id].end

    def _needed_in_dram(self, value_id: str) -> bool:
        if value_id in self._outputs:
            return True
        return any(not self.read_as(r, value_id).is_l1 for r in self.readers(value_id))

    def is_spilled(self, value_id: str) -> bool:
        """Whether a value produced in L1 is written to DRAM."""
        return self.layout(value_id).is_l1 and self._needed_in_dram(value_id)

    def bystander_bytes(self, position: int) -> int:
        """L1 per core that is held while an op runs, without its own operands and results."""
        op = self._ops[self.schedule[position]]
        return self._timeline.active_bytes(position, (*op.inputs, *op.outputs))

    def bystanders(self, position: int) -> tuple[str, ...]:
        """The values behind `bystander_bytes`."""
        op = self._ops[self.schedule[position]]
        own = {self._timeline.holder(v) for v in (*op.inputs, *op.outputs)}
        return tuple(r.value for r in self._timeline.active(position) if r.value not in own)

    # -- change --------------------------------------------------------------------------------------
    def apply(self, changes: Changes, slower_too: bool = True) -> Applied:
        """Take these decisions. Where they save nothing, what they do to L1 is left open unless `slower_too`; they must
        be undone then."""
        touched = self._grouped(self._touched(changes))
        ends = [held.end for v in touched if (held := self._resident.get(v)) is not None]
        before = {op_id: self.decisions[op_id] for op_id in changes}
        self._move(touched, changes)
        ends += [held.end for v in touched if (held := self._resident.get(v)) is not None]
        dirty = {*changes, *(self._producer[v] for v in touched), *(r for v in touched for r in self.readers(v))}
        positions = {self.position[op_id] for op_id in dirty}
        return Applied(before, tuple(touched), self._replay.rerun(positions, max((*positions, *ends)), slower_too))

    def undo(self, applied: Applied) -> None:
        """Take back the last change that is not taken back yet."""
        self._move(applied.touched, applied.before)
        self._replay.undo(applied.rerun)

    @property
    def time_ns(self) -> int:
        """Predicted time of the whole plan."""
        return self._replay.time_ns

    def answer(self, position: int) -> OpConstraints | None:
        """What the OpModel says of the op at a position as it runs now; None if it runs on the host."""
        return self._replay.answer(position)

    def _move(self, touched: Sequence[str], decisions: Changes) -> None:
        self._drop(touched)
        self.decisions.update(decisions)
        self._hold(touched)

    # -- residencies ---------------------------------------------------------------------------------
    def _touched(self, changes: Changes) -> list[str]:
        """Values whose residency a change may alter: what its ops read and give."""
        found = [v for op_id in changes for v in (*self._ops[op_id].inputs, *self._ops[op_id].outputs)]
        return [v for v in dict.fromkeys(found) if v in self._producer]

    def _grouped(self, values: Iterable[str]) -> list[str]:
        """The values and all that share their buffers now, producers first."""
        values = tuple(values)
        found = {*values, *(sharer for v in values for sharer in self._timeline.sharers(v))}
        return sorted(found, key=lambda v: (self.position[self._producer[v]], v))

    def _drop(self, values: Sequence[str]) -> None:
        for v in reversed(values):
            held = self._resident.pop(v, None)
            if held is not None:
                self._timeline.release(v)

    def _hold(self, values: Iterable[str]) -> None:
        for v in values:
            held = self._residency_of(v)
            if held is None:
                continue
            self._resident[v] = held
            if held.shares is not None:
                self._timeline.alias(v, held.shares, held.end)
            else:
                self._timeline.reserve(v, held.start, held.end, held.bytes_per_core)

    def _residency_of(self, value_id: str) -> Residency | None:
        layout = self.layout(value_id)
        if not layout.is_l1:
            return None
        producer = self._producer[value_id]
        start = self.position[producer]
        reads = [r for r in self.readers(value_id) if self.read_as(r, value_id).is_l1]
        end = self.position[reads[-1]] if reads else start
        size = self.pricer.value_bytes(value_id, layout)
        op = self._ops[producer]
        view = bool(op.inputs) and self._is_view(op)
        return Residency(value_id, start, end, size, op.inputs[0] if view else None)

    def _is_view(self, op: Op) -> bool:
        """Whether the result is a view of an operand that is read from L1 in place."""
        decision, source = self.decisions[op.id], op.inputs[0]
        produced = self._producer.get(source)
        if produced is None or not decision.operands[0].is_l1:
            return False
        direct = self.layout(source) == decision.operands[0]
        return direct and is_view_of(self.pricer, op, decision.operands[0], decision.candidate.output)
