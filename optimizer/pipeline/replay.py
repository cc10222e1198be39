"""Replays a finished result: its emitted program, step by step, on a backend that runs programs.

The tt-metal backend validates every op of the program, builds its device programs and places its tensors with
the real allocator, all tensors of the run being where the program puts them. `replay` reports, per step,
whether it was accepted, whether the results are what the plan states, and L1 against the prediction.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optimizer.errors import OpModelError, OptionError
from optimizer.export.facts import query_of, tensor_spec
from optimizer.export.ttnn_py import FILE_NAME, ProgramStep, TTNNProgram, placeholder_text, ttnn_program, write_files
from optimizer.opmodel.base import (
    OpConstraints,
    OpModel,
    OpQuery,
    ProgramRunner,
    ProgramSession,
    StepAnswer,
    TensorSpec,
)
from optimizer.result import OptimizedGraph, Role
from optimizer.verify import StepMemory


@dataclass(frozen=True)
class ReplayedStep:
    """One op of the program as the backend ran it. Bytes are per core."""

    op: str
    query: OpQuery | None
    """The op's question to an OpModel; None for ops on weights and on the host, and for fused kernels."""
    answer: StepAnswer
    alone: OpConstraints | None
    """Of a step that is not accepted: the backend's answer to the question, for the op by itself."""
    differences: tuple[str, ...] = ()
    """How the results differ from what the plan states."""
    predicted_bytes: int | None = None
    """Peak L1 while the op runs, as the plan says; None for ops on weights only."""
    elsewhere: tuple[str, ...] = ()
    """Results in L1 that lie at another address than the verifier places them at."""
    placed: int = 0
    """Results whose addresses were compared."""

    @property
    def accepted(self) -> bool:
        return self.answer.valid and not self.differences

    @property
    def real_bytes(self) -> int | None:
        """Peak L1 while the op ran: what was resident, and the op's own peak."""
        return self.answer.l1_before_bytes + self.answer.peak_bytes if self.answer.valid else None

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
        return max((step.answer.cb_bytes for step in self.steps), default=0)

    def l1_record(self) -> dict[str, Any]:
        """Predicted against real L1: `{steps, exact, below, worst_below, worst_below_op, placed, elsewhere}`.

        `exact` and `below` (predicted less than the real peak) count steps; `worst_below` is the largest
        shortfall as a share of the real peak; `placed` counts tensors in L1, `elsewhere` those of them that are not at
        the predicted address. Steps after a refused one are left out: L1 is no longer the plan's.
        """
        first = next((k for k, step in enumerate(self.steps) if not step.answer.valid), len(self.steps))
        compared = [(s.op, s.predicted_bytes, s.real_bytes) for s in self.steps[:first]]
        pairs = [(op, ours, real) for op, ours, real in compared if ours is not None and real is not None]
        short = {op: (real - ours) / real for op, ours, real in pairs if ours < real}
        worst = max(short, key=lambda op: short[op], default=None)
        return {
            "steps": len(pairs),
            "exact": sum(ours == real for _, ours, real in pairs),
            "below": len(short),
            "worst_below": round(short[worst], 6) if worst is not None else 0.0,
            "worst_below_op": worst,
            "placed": sum(s.placed for s in self.steps[:first]),
            "elsewhere": sum(len(s.elsewhere) for s in self.steps[:first]),
        }


def replay(
    result: OptimizedGraph,
    backend: OpModel,
    predicted: Mapping[str, StepMemory],
    poll: Callable[[], None] = lambda: None,
) -> ReplayReport:
    """Run the emitted program of a result; `predicted` holds the verifier's steps by op id, `poll` is called for each.

    A refused step gets a stand-in for its results, so that one replay finds every refused op. OptionError
    if the backend runs no programs.
    """
    if not isinstance(backend, ProgramRunner):
        raise OptionError(f"backend '{backend.name}' runs no programs", node="opmodel", alternatives=("ttmetal",))
    program = ttnn_program(result)
    with module_source(program, program.prelude) as source, backend.program(source) as session:
        return _Replay(result, program, backend, session, predicted).run(poll)


@contextmanager
def module_source(program: TTNNProgram, text: str) -> Iterator[str]:
    """The text of a program's module, whole or its prelude, as that of one that lies beside the program's files."""
    if not program.files:
        yield text
        return
    with tempfile.TemporaryDirectory(prefix="ttopt-program-") as folder:
        write_files(Path(folder), program.files)
        yield f"__file__ = {str(Path(folder) / FILE_NAME)!r}\n{text}"


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
        self.graph = result.graph

    def run(self, poll: Callable[[], None]) -> ReplayReport:
        report = ReplayReport()
        for step in (*self.program.parameter_steps, *self.program.run_steps):
            poll()
            if step.op is None:
                self._unconditional(step.code)
            else:
                replayed = self._op(step, step.op)
                report.steps.append(replayed)
                if not replayed.answer.valid and not self._stand_in(step):
                    report.stopped_at = step.op
                    break
            for line in step.frees:
                self._unconditional(line)
        return report

    def _unconditional(self, code: str) -> None:
        """Statements that no layout decision is behind: tensors made, named or freed, weights prepared."""
        answer = self.session.step(code)
        if not answer.valid:
            raise OpModelError(f"the emitted program fails outside its ops: {code}: {answer.error}")

    def _op(self, step: ProgramStep, op_id: str) -> ReplayedStep:
        op, record = self.graph.op(op_id), self.result.records[op_id]
        answer = self.session.step(step.code, [name for name, _ in step.results])
        differences = self._differences(step, answer) if answer.valid else ()
        if record.role is Role.HOST or step.fused:
            return ReplayedStep(op_id, None, answer, None, differences)
        query = query_of(self.result, op)
        memory = self.predicted.get(op_id)
        predicted = None if memory is None else memory.total_bytes
        alone = None if answer.valid and not differences else self.backend.constraints(query)
        addresses = self._addresses(step, answer, memory)
        elsewhere = tuple(v for v, (ours, real) in addresses.items() if ours != real)
        return ReplayedStep(op_id, query, answer, alone, differences, predicted, elsewhere, len(addresses))

    def _addresses(
        self, step: ProgramStep, answer: StepAnswer, memory: StepMemory | None
    ) -> dict[str, tuple[int, int]]:
        """Predicted and real address of every result in L1 that has a buffer of its own."""
        top = self.result.device.worker_l1_bytes - self.result.options.l1_small_bytes
        depths = dict(memory.placed) if memory is not None and answer.valid else {}
        real = {v: address for (_, v), address in zip(step.results, answer.addresses, strict=False)}
        return {v: (top - depth, at) for v, depth in depths.items() if (at := real.get(v)) is not None}

    def _differences(self, step: ProgramStep, answer: StepAnswer) -> tuple[str, ...]:
        """How each result differs from the plan, one text per result that does."""
        found = []
        for (_, value_id), real in zip(step.results, answer.results, strict=True):
            stated = tensor_spec(self.result, value_id)
            if (real.layout, real.shape, real.dtype) != (stated.layout, stated.shape, stated.dtype):
                found.append(f"'{value_id}' is stated as {_described(stated)}, really is {_described(real)}")
        return tuple(found)

    def _stand_in(self, step: ProgramStep) -> bool:
        """Placeholders for the results of a refused op, so that the ops after it can be judged too."""
        for name, value_id in step.results:
            if not self.session.step(f"{name} = {placeholder_text(tensor_spec(self.result, value_id))}").valid:
                return False
        return True


def _described(spec: TensorSpec) -> str:
    return f"{spec.dtype.value} {list(spec.shape)} in {spec.layout.describe()}"
