"""Replays a finished result: its emitted program, step by step, on a backend that runs programs.

The tt-metal backend validates every op of the program, builds its device programs and places its tensors with
the real allocator, all tensors of the run being where the program puts them. `replay` reports, per step,
whether it was accepted, whether the results are what the plan states, and L1 against the prediction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from optimizer.errors import OptionError
from optimizer.export.ttnn_py import ProgramStep, TTNNProgram, placeholder_text, ttnn_program
from optimizer.ir.graph import Graph
from optimizer.ir.vocabulary import opdef
from optimizer.opmodel.base import OpConstraints, OpModel, OpQuery, ProgramRunner, ProgramSession, StepAnswer, TensorSpec
from optimizer.result import OptimizedGraph
from optimizer.sharding.pricing import OpPricer
from optimizer.verify import StepMemory


@dataclass(frozen=True)
class ReplayedStep:
    """One op of the program as the backend ran it. Bytes are per core."""

    op: str
    query: OpQuery
    answer: StepAnswer
    alone: OpConstraints | None
    """The backend's answer for the op by itself; None for an op that has no single query."""
    differences: tuple[str, ...] = ()
    """How the results differ from what the plan states."""
    predicted_bytes: int | None = None
    """Peak L1 while the op runs, as the plan says; None for ops on weights only."""

    @property
    def accepted(self) -> bool:
        return self.answer.valid and not self.differences

    @property
    def real_bytes(self) -> int | None:
        """Peak L1 while the op ran: what was resident, and the op's own peak."""
        if self.alone is None or not self.alone.valid or not self.answer.valid:
            return None
        return self.answer.l1_before_bytes + self.alone.peak_bytes

    @property
    def message(self) -> str:
        """What is wrong with the step, in the backend's own words."""
        if not self.answer.valid:
            return self.answer.error or "refused"
        return "; ".join(self.differences)


@dataclass
class ReplayReport:
    """Every step of one replay, ops on weights first, in order."""

    steps: list[ReplayedStep] = field(default_factory=list)
    stopped_at: str | None = None
    """Op after which nothing could go on, since not even a stand-in for its results could be made."""

    @property
    def failures(self) -> list[ReplayedStep]:
        return [step for step in self.steps if not step.accepted]

    @property
    def ok(self) -> bool:
        return not self.failures and self.stopped_at is None

    @property
    def peak_l1_bytes(self) -> int:
        return max((step.real_bytes or 0 for step in self.steps), default=0)

    @property
    def peak_cb_bytes(self) -> int:
        return max((step.alone.cb_bytes for step in self.steps if step.alone is not None), default=0)

    def l1_record(self) -> dict[str, Any]:
        """Predicted against real peak L1: `{steps, exact, below, worst_below, worst_below_op}`.

        `exact` and `below` (predicted less than the real peak) count steps; `worst_below` is the largest
        shortfall as a share of the real peak.
        """
        compared = [(s.op, s.predicted_bytes, s.real_bytes) for s in self.steps]
        pairs = [(op, ours, real) for op, ours, real in compared if ours is not None and real is not None]
        short = {op: (real - ours) / real for op, ours, real in pairs if ours < real}
        worst = max(short, key=lambda op: short[op], default=None)
        return {
            "steps": len(pairs),
            "exact": sum(ours == real for _, ours, real in pairs),
            "below": len(short),
            "worst_below": round(short[worst], 6) if worst is not None else 0.0,
            "worst_below_op": worst,
        }


def replay(result: OptimizedGraph, backend: OpModel, predicted: Mapping[str, StepMemory]) -> ReplayReport:
    """Run the emitted program of a result; `predicted` holds the verifier's steps by op id.

    A refused step gets a stand-in for its results, so that one replay finds every refused op. OptionError
    if the backend runs no programs.
    """
    if not isinstance(backend, ProgramRunner):
        raise OptionError(f"backend '{backend.name}' runs no programs", node="opmodel", alternatives=("ttmetal",))
    program = ttnn_program(result)
    with backend.program(program.prelude) as session:
        return _Replay(result, program, backend, session, predicted).run()


class _Replay:
    def __init__(
        self,
        result: OptimizedGraph,
        program: TTNNProgram,
        backend: OpModel,
        session: ProgramSession,
        predicted: Mapping[str, StepMemory],
    ) -> None:
        self.result, self.program, self.backend = result, program, backend
        self.session, self.predicted = session, predicted
        self.graph: Graph = result.graph
        pages = {v: layout.page_layout for v, layout in result.layouts.items()}
        self.pricer = OpPricer(self.graph, pages, backend, backend.device.cb_limit_bytes)

    def run(self) -> ReplayReport:
        report = ReplayReport()
        for step in (*self.program.parameter_steps, *self.program.run_steps):
            if step.op is None:
                self._plain(step)
                continue
            replayed = self._op(step)
            report.steps.append(replayed)
            if not replayed.answer.valid and not self._stand_in(step):
                report.stopped_at = step.op
                break
            for line in step.frees:
                self.session.step(line)
        return report
