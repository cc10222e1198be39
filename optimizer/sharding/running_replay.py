"""The replay of a plan that changes: only what a change touches runs again.

Every op's programs are kept with their times and the OpModel's answers, and the state of L1 before every op. After a
change the allocator runs again from the first op concerned until L1 is as it was before the change: from there on
nothing differs. Times are those of `plan_replay.PlanProgram` on the whole plan; nothing fits that does not fit there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from optimizer.opmodel.base import OpConstraints
from optimizer.opmodel.pricing import OpPricer
from optimizer.sharding.base import OpDecision
from optimizer.sharding.plan_replay import Buffer, L1Run, Overflow, ProgramSteps, Step


@dataclass(frozen=True)
class _Program:
    """One step, priced."""

    step: Step
    answer: OpConstraints
    time_ns: int


@dataclass
class _Instant:
    """L1 before an op."""

    run: L1Run
    ends: dict[Buffer, int]
    """Live buffer -> position of the last op that reads it."""
    homes: dict[Buffer, Buffer]
    """Result of a view -> the live buffer that it shares."""

    def copy(self) -> _Instant:
        return _Instant(self.run.copy(), dict(self.ends), dict(self.homes))


@dataclass
class Rerun:
    """What a change did, and what it replaced."""

    saved_ns: int
    overflow: Overflow | None
    """First op that no longer fits."""
    _programs: dict[int, tuple[_Program, ...]] = field(default_factory=dict)
    _instants: dict[int, _Instant] = field(default_factory=dict)


class RunningReplay:
    """Times and L1 of every op of a plan."""

    def __init__(
        self,
        pricer: OpPricer,
        schedule: Sequence[str],
        decisions: Mapping[str, OpDecision],
        steps: ProgramSteps,
        last_read: Callable[[str], int],
    ) -> None:
        """`decisions`, `steps` and `last_read` always tell the present plan; `last_read` is the position of the last op
        that reads a value, or a copy of it, in L1."""
        self._model = pricer.model
        self._schedule = schedule
        self._decisions = decisions
        self._steps = steps
        self._last_read = last_read
        self._programs = [self._programs_of(p) for p in range(len(schedule))]
        self._instants = [_Instant(L1Run(pricer), {}, {})]
        self.overflows: list[Overflow] = []
        """Of the plan at first."""
        for p in range(len(schedule)):
            now = self._instants[p].copy()
            overflow = self._run(p, now)
            self.overflows += [overflow] if overflow is not None else []
            self._instants.append(now)

    @property
    def time_ns(self) -> int:
        """Predicted time of the whole plan."""
        return sum(program.time_ns for row in self._programs for program in row)

    def answer(self, position: int) -> OpConstraints | None:
        """What the OpModel says of the op at a position as it runs now; None if it runs on the host."""
        return next((p.answer for p in self._programs[position] if not p.step.is_copy), None)

    def rerun(self, dirty: Iterable[int], last: int, slower_too: bool = True) -> Rerun:
        """Take note of a change. `dirty` are the positions whose programs may differ; no value in L1 that the change
        touches is alive after position `last`. One that saves nothing is only priced unless `slower_too`; it must be
        undone then."""
        outcome = Rerun(0, None)
        positions = sorted(dirty)
        for p in positions:
            outcome._programs[p] = before = self._programs[p]
            self._programs[p] = after = self._programs_of(p)
            outcome.saved_ns += sum(x.time_ns for x in before) - sum(x.time_ns for x in after)
        if outcome.saved_ns <= 0 and not slower_too:
            return outcome
        now = self._instants[positions[0]].copy()
        for p in range(positions[0], len(self._schedule)):
            overflow = self._run(p, now)
            if outcome.overflow is None:
                outcome.overflow = overflow
            same = now.run.live == self._instants[p + 1].run.live
            outcome._instants[p + 1] = self._instants[p + 1]
            self._instants[p + 1] = now.copy()
            if same and p >= last:
                break
        return outcome

    def undo(self, outcome: Rerun) -> None:
        """Back to before a `rerun`, the last one that is not undone yet."""
        for p, row in outcome._programs.items():
            self._programs[p] = row
        for p, instant in outcome._instants.items():
            self._instants[p] = instant

    # -- inside --------------------------------------------------------------------------------------
    def _programs_of(self, position: int) -> tuple[_Program, ...]:
        op_id, model = self._schedule[position], self._model
        steps = self._steps.of(op_id, self._decisions[op_id])
        return tuple(_Program(s, model.constraints(s.query), model.runtime_ns(s.query)) for s in steps)

    def _run(self, position: int, now: _Instant) -> Overflow | None:
        """Run one op's programs on L1; the first that does not fit."""
        row, found = self._programs[position], None
        last_step: dict[Buffer, int] = {}
        for i, program in enumerate(row):
            step = program.step
            shared: tuple[Buffer, ...] = ()
            if step.alias is not None and step.writes:
                result, home = step.writes[0][0], now.homes.get(step.alias, step.alias)
                shared = (result,)
                now.homes[result] = home
                now.ends[home] = max(now.ends[home], self._end_of(result, position))
                last_step = _last_steps(row, now.homes)
            elif not last_step:
                last_step = _last_steps(row, now.homes)
            beside_holes = _clash_of_temporaries(now.run, program)
            excess = max(now.run.execute(step, program.answer, shared), beside_holes)
            if excess > 0 and found is None:
                found = now.run.overflow(step, excess)
            for b, _ in step.writes:
                if b not in shared:
                    now.ends[b] = self._end_of(b, position)
            gone = [b for b in now.run.live if now.ends[b] <= position and last_step.get(b, -1) <= i]
            now.run.free(gone)
            for b in gone:
                del now.ends[b]
        if any(home not in now.ends for home in now.homes.values()):
            now.homes = {b: home for b, home in now.homes.items() if home in now.ends}
        return found

    def _end_of(self, buffer: Buffer, position: int) -> int:
        """Last position at which a buffer is read; copies serve the op they are made for."""
        value_id, form = buffer
        return position if form else max(position, self._last_read(value_id))


def _clash_of_temporaries(run: L1Run, program: _Program) -> int:
    """Bytes by which an op with temporaries (a conv's halo) may overrun L1 before it runs, if there are holes.

    Its buffers come and go in an order of their own, and what falls into a hole and out again can leave as much room
    unusable below. Its peak in an empty L1, which is all the OpModel knows, is too little then (seen on tt-metal).
    """
    answer, holes = program.answer, run.hole_bytes
    has_temporaries = answer.l1_peak_bytes > sum(size for _, size in program.step.writes)
    return answer.peak_bytes + holes - run.room_bytes if holes and has_temporaries else 0


def _last_steps(row: Sequence[_Program], homes: Mapping[Buffer, Buffer]) -> dict[Buffer, int]:
    """Buffer -> the last of an op's steps that reads it."""
    return {homes.get(b, b): i for i, program in enumerate(row) for b in program.step.reads}
