"""Tries to keep values in L1: propose, validate the window, replay it, compare the time; keep or take back.

Every attempt is recorded with what it saved or why it was refused, so that the plan can be explained.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from optimizer.process import logs
from optimizer.sharding.base import OpDecision
from optimizer.sharding.merging.plan_state import Applied, Changes, PlanState
from optimizer.sharding.merging.reader_choice import ReaderChoice
from optimizer.sharding.merging.window_validation import first_refusal, fits_the_allocator
from optimizer.sharding.refusals import Cause, Refusal

_log = logs.room("policy")


@dataclass(frozen=True)
class Trial:
    """One attempt to keep the results of some ops in L1."""

    kind: str
    """`merge`, `3-way merge`, `concat`, `fork`, `reshape`, `interleaved` or `leave`."""
    ops: tuple[str, ...]
    """Producers of the values."""
    layout: str
    taken: bool
    saved_ns: int = 0
    refusal: Refusal | None = None

    @property
    def rank(self) -> int:
        """How far a refused attempt came: a refusal for want of L1 tells more than one of layouts."""
        return -1 if self.refusal is None else list(Cause).index(self.refusal.cause)

    def to_json(self) -> dict[str, Any]:
        """As reasons of ops and statistics of chains show it."""
        record: dict[str, Any] = {"kind": self.kind, "ops": list(self.ops), "layout": self.layout, "taken": self.taken}
        if self.refusal is None:
            return {**record, "saved_ns": self.saved_ns}
        return {**record, "cause": self.refusal.cause.value, "because": self.refusal.describe()}


@dataclass(frozen=True)
class _Attempt:
    """A trial that was taken back, and the changes that repeat it."""

    changes: Changes
    trial: Trial


class ResidencyTrials:
    """Changes a plan for the better, one attempt at a time."""

    def __init__(self, state: PlanState) -> None:
        self.state = state
        self.log: list[Trial] = []
        self.proposals: list[Changes] = []
        """What was tried and accepted by the ops, taken or not."""

    def keep(
        self,
        kind: str,
        wanted: Mapping[str, OpDecision],
        window: Sequence[int] = (),
        dram_too: bool = False,
        as_wanted: bool = False,
    ) -> Trial:
        """Give ops other results, and their readers other operands, if that fits and is faster.

        The ops at the positions `window` are validated once the change is made; `dram_too` lets some readers read from
        DRAM; `as_wanted` leaves the wanted ops' operands as they are given.
        TimeLimitError once the run has to end, with the plan complete.
        """
        applied, trial = self._attempt(kind, wanted, window, dram_too, as_wanted)
        if applied is not None and not trial.taken:
            self.state.undo(applied)
        self._record(trial)
        return trial

    def keep_best(
        self, kind: str, proposals: Iterable[Mapping[str, OpDecision]], window: Sequence[int], ops: tuple[str, ...]
    ) -> bool:
        """Of several proposals about `ops`, each with and without readers from DRAM, take the one that saves most.

        One record tells of all of them: the best, or the refusal that came furthest.
        """
        attempts = self._attempts(kind, proposals, window)
        best = self._take_best(attempts)
        shown = best or max(attempts, key=lambda attempt: attempt.trial.rank, default=None)
        if shown is not None:
            self._record(replace(shown.trial, ops=ops))
        return best is not None

    def propose(self, ways: Iterable[Mapping[str, OpDecision]]) -> None:
        """Note what each way would change, with and without readers from DRAM; nothing is tried."""
        for wanted in ways:
            for dram_too in (False, True):
                changes = ReaderChoice(self.state, wanted, dram_too).changes()
                if not isinstance(changes, Refusal):
                    self.proposals.append(changes)

    def _attempts(
        self, kind: str, proposals: Iterable[Mapping[str, OpDecision]], window: Sequence[int]
    ) -> list[_Attempt]:
        """Every proposal that changes the plan, with and without readers from DRAM, made and taken back."""
        found = []
        for wanted in proposals:
            for dram_too in (False, True):
                applied, trial = self._attempt(kind, wanted, window, dram_too)
                after: Changes = {}
                if applied is not None:
                    after = {op_id: self.state.decisions[op_id] for op_id in applied.before}
                    self.state.undo(applied)
                if applied is None or any(self.state.decisions[op_id] != d for op_id, d in after.items()):
                    found.append(_Attempt(after, trial))
        return found

    def _take_best(self, attempts: Sequence[_Attempt]) -> _Attempt | None:
        """The attempt that saves most, made for good; the first of equal ones, None if all are refused."""
        taken = [attempt for attempt in attempts if attempt.trial.taken]
        best = max(taken, key=lambda attempt: attempt.trial.saved_ns, default=None)
        if best is not None:
            self.state.apply(best.changes)
        return best

    def _record(self, trial: Trial) -> None:
        self.log.append(trial)
        if _log.tells_info:
            _log.info("trial", **trial.to_json())

    def _attempt(
        self,
        kind: str,
        wanted: Mapping[str, OpDecision],
        window: Sequence[int],
        dram_too: bool,
        as_wanted: bool = False,
    ) -> tuple[Applied | None, Trial]:
        """The change as it was made, if its ops accept it, and what came of it; nothing is taken back yet."""
        self.state.problem.poll()
        changes = ReaderChoice(self.state, wanted, dram_too, as_wanted).changes()
        if isinstance(changes, Refusal):
            return None, _trial(kind, wanted, changes, 0)
        self.proposals.append(changes)
        applied = self.state.apply(changes, slower_too=False)
        refusal = self._judge(applied, next(iter(wanted)), window)
        return applied, _trial(kind, wanted, refusal, applied.saved_ns)

    def _judge(self, applied: Applied, producer: str, window: Sequence[int]) -> Refusal | None:
        if applied.saved_ns <= 0:
            message = f"predicted no faster: {-applied.saved_ns} ns more for the whole plan"
            return Refusal(producer, message, Cause.TIME)
        return first_refusal(self.state, window) or fits_the_allocator(applied.overflow)


def _trial(kind: str, wanted: Mapping[str, OpDecision], refusal: Refusal | None, saved_ns: int) -> Trial:
    layouts = dict.fromkeys(d.candidate.output.describe() for d in wanted.values())
    return Trial(kind, tuple(wanted), ", ".join(layouts), refusal is None, saved_ns, refusal)
