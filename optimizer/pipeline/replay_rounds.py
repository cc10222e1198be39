"""`optimize --check`: solve, replay the program on the judge, solve again without what it refused.

What a refusal is taken for (`refusals`):

    round  the judge refuses the op by itself           it refuses it only inside the program
    1      its answer; it is asked the whole class      no shards of that shape and class
    2      class and shape stay out of L1               the same; for want of room the shape only

A model thus needs at most `MAX_ROUNDS` replays; what is still refused in the last one is reported.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from optimizer.errors import InfeasibleError, TimeLimitError
from optimizer.opmodel.base import OpConstraints, OpModel, OpQuery, Rejection
from optimizer.opmodel.cached import CachedOpModel
from optimizer.pipeline.refusals import Refusals
from optimizer.pipeline.work import Stage, Work, run
from optimizer.process import logs
from optimizer.result.summary import Check, Refused, Repair

if TYPE_CHECKING:
    from optimizer.pipeline.replay import ReplayedStep, ReplayReport

_log = logs.room("pipeline")

MAX_ROUNDS = 3
"""Replays of one model; the graphs in `fixtures/` need one or two."""

WANT_OF_ROOM = (Rejection.OOM_L1, Rejection.CB_CLASH, Rejection.CB_TOO_BIG)
"""Refusals that say something of what lies in L1 then, nothing of other ops of their class."""


@dataclass
class _Repairs:
    """What was refused so far, in the order it was found."""

    refusals: Refusals
    records: list[Repair] = field(default_factory=list)
    known: set[OpQuery] = field(default_factory=set)

    def add(self, round_number: int, step: ReplayedStep, opmodel: CachedOpModel) -> bool:
        """Turn one failure into constraints of the next solve; False if it is none or has been one already."""
        if step.query is None or step.query in self.known:
            return False
        self.known.add(step.query)
        answer = correction(step)
        opmodel.correct(step.query, answer)
        if round_number > 1:
            self.refusals.refuse_shape(step.query, step.message)
            if answer.kind not in WANT_OF_ROOM:
                self.refusals.refuse_class(step.query, step.message)
        elif answer is step.alone:
            self.refusals.suspect(step.query)
        else:
            self.refusals.refuse_case(step.query, step.message)
        kind = "layout" if answer.valid or answer.kind is None else answer.kind.value
        self.records.append(Repair(round=round_number, op=step.op, kind=kind, message=step.message))
        return True


def correction(step: ReplayedStep) -> OpConstraints:
    """The answer that the judge's verdict on a failed step stands for."""
    alone = step.alone
    if alone is not None and (not alone.valid or step.differences):
        return alone
    return OpConstraints.rejected(step.answer.kind or Rejection.VALIDATION, f"refused in this program: {step.message}")


@dataclass(frozen=True)
class Replay(Stage):
    """Runs the emitted program on the real tt-metal, if that is asked for, and solves again without what it refuses."""

    name: ClassVar[str] = "replay"
    takes: ClassVar[tuple[str, ...]] = ("result", "report", "imported", "origin")
    gives: ClassVar[tuple[str, ...]] = ("result", "report")
    closing: ClassVar[bool] = True

    again: tuple[Stage, ...]
    """What makes a result of the imported graph."""

    def apply(self, work: Work) -> None:
        """The first result whose program the judge runs from end to end; else the last one, with the reason.

        `summary.check` says which, after how many replays, and what was repaired on the way.
        """
        if work.judge is None:
            return
        from optimizer.pipeline.replay import replay

        repairs = _Repairs(Refusals(work.judge))
        work.opmodel.correct_by(repairs.refusals.answer)
        given_up: str | None = None
        replayed: ReplayReport | None = None
        for number in range(1, MAX_ROUNDS + 1):
            before = work.result, work.report
            given_up = self._solve_again(work) if number > 1 else None
            if given_up is not None:
                break
            work.clock.say(f"round {number}")
            predicted = {step.op: step for step in work.report.steps}
            try:
                replayed = replay(work.result, work.judge, predicted, work.clock.poll_time)
            except TimeLimitError as error:
                work.result, work.report = before
                given_up = str(error)
                break
            _log.info("replayed", round=number, ok=replayed.ok, refused=[step.op for step in replayed.failures])
            if replayed.ok:
                break
            if number == MAX_ROUNDS:
                given_up = f"still refused after {MAX_ROUNDS} rounds"
                break
            added = [repairs.add(number, step, work.opmodel) for step in replayed.failures]
            if not any(added):
                given_up = "no decision is left that could be made otherwise"
                break
        if replayed is None:
            return  # the clock notes it, and the result says so
        check = _check(replayed, work.judge, number, tuple(repairs.records), given_up)
        work.result = replace(work.result, priced=work.result.summary.model_copy(update={"check": check}))

    def _solve_again(self, work: Work) -> str | None:
        """Another result of the same model; why there is none, and the last one stays."""
        attempt = work.fork()
        try:
            run(self.again, attempt)
        except InfeasibleError as error:
            return f"without what was refused no plan is left: {error}"
        except TimeLimitError as error:
            return str(error)
        work.result, work.report = attempt.result, attempt.report
        return None


def _check(
    report: ReplayReport, judge: OpModel, rounds: int, repaired: tuple[Repair, ...], given_up: str | None
) -> Check:
    return Check(
        opmodel=judge.name,
        ok=report.ok,
        rounds=rounds,
        ops=len(report.steps),
        refused=tuple(Refused(op=step.op, message=step.message) for step in report.failures),
        repaired=repaired,
        given_up=given_up,
        l1=report.l1_record(),
    )
