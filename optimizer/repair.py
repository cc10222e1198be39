"""`optimize --check`: solve, replay the program on the judge, solve again without what it refused.

What a refusal is taken for (`optimizer.refusals`):

    round  the judge refuses the op by itself           it refuses it only inside the program
    1      its answer; it is asked the whole class      no shards of that shape and class
    2      class and shape stay out of L1               the same; for want of room the shape only

A model thus needs at most `MAX_ROUNDS` replays; what is still refused in the last one is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from optimizer import logs
from optimizer.errors import InfeasibleError, TimeLimitError
from optimizer.opmodel.base import OpConstraints, OpModel, OpQuery, Rejection
from optimizer.opmodel.cached import CachedOpModel
from optimizer.refusals import Refusals
from optimizer.replay import ReplayedStep, ReplayReport, replay
from optimizer.result import OptimizedGraph
from optimizer.verify import VerifyReport

if TYPE_CHECKING:
    from optimizer.pipeline import Stages

_log = logs.room("pipeline")

MAX_ROUNDS = 3
"""Replays of one model; the graphs in `fixtures/` need one or two."""

WANT_OF_ROOM = (Rejection.OOM_L1, Rejection.CB_CLASH, Rejection.CB_TOO_BIG)
"""Refusals that say something of what lies in L1 then, nothing of other ops of their class."""
Solve = Callable[[], tuple[OptimizedGraph, VerifyReport]]


@dataclass
class _Repairs:
    """What was refused so far, in the order it was found."""

    refusals: Refusals
    records: list[dict[str, Any]] = field(default_factory=list)
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
        self.records.append({"round": round_number, "op": step.op, "kind": kind, "message": step.message})
        return True


def correction(step: ReplayedStep) -> OpConstraints:
    """The answer that the judge's verdict on a failed step stands for."""
    alone = step.alone
    if alone is not None and (not alone.valid or step.differences):
        return alone
    return OpConstraints.rejected(step.answer.kind or Rejection.VALIDATION, f"refused in this program: {step.message}")


def solve_checked(solve: Solve, opmodel: CachedOpModel, judge: OpModel, stages: Stages) -> OptimizedGraph:
    """The first result whose program the judge runs from end to end; else the last one, with the reason.

    `summary["check"]` says which, after how many replays, and what was repaired on the way.
    """
    refusals = Refusals(judge)
    opmodel.correct_by(refusals.answer)
    repairs = _Repairs(refusals)
    given_up: str | None = None
    for number in range(1, MAX_ROUNDS + 1):
        try:
            result, verified = solve()
        except InfeasibleError as error:
            if number == 1:
                raise
            given_up = f"without what was refused no plan is left: {error}"
            break
        except TimeLimitError as error:
            if number == 1:
                raise
            given_up = str(error)
            break
        with stages.run("replay"):
            stages.say(f"round {number}")
            report = replay(result, judge, {step.op: step for step in verified.steps})
        _log.info("replayed", round=number, ok=report.ok, refused=[step.op for step in report.failures])
        if report.ok:
            break
        if number == MAX_ROUNDS:
            given_up = f"still refused after {MAX_ROUNDS} rounds"
            break
        added = [repairs.add(number, step, opmodel) for step in report.failures]
        if not any(added):
            given_up = "no decision is left that could be made otherwise"
            break
    result.summary["check"] = check_summary(report, judge, number, repairs.records, given_up)
    return result


def check_summary(
    report: ReplayReport, judge: OpModel, rounds: int, repaired: list[dict[str, Any]], given_up: str | None
) -> dict[str, Any]:
    """The `check` object of the summary."""
    return {
        "opmodel": judge.name,
        "ok": report.ok,
        "rounds": rounds,
        "ops": len(report.steps),
        "refused": [{"op": step.op, "message": step.message} for step in report.failures],
        "repaired": repaired,
        "given_up": given_up,
        "l1": report.l1_record(),
    }
