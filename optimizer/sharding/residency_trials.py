"""Tries to keep values in L1: propose, validate the window, replay it, compare the time; keep or take back.

Every attempt is recorded with what it saved or why it was refused, so that the plan can be explained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from optimizer.sharding.base import OpDecision
from optimizer.sharding.plan_state import Applied, PlanState
from optimizer.sharding.reader_choice import ReaderChoice
from optimizer.sharding.refusals import Cause, Refusal
from optimizer.sharding.window_validation import fits_the_allocator

Check = Callable[[], Refusal | None]


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

    def to_json(self) -> dict[str, Any]:
        """As reasons of ops and statistics of chains show it."""
        record: dict[str, Any] = {"kind": self.kind, "ops": list(self.ops), "layout": self.layout, "taken": self.taken}
        if self.refusal is None:
            return {**record, "saved_ns": self.saved_ns}
        return {**record, "cause": self.refusal.cause.value, "because": self.refusal.describe()}


class ResidencyTrials:
    """Changes a plan for the better, one attempt at a time."""

    def __init__(self, state: PlanState) -> None:
        self.state = state
        self.log: list[Trial] = []

    def keep(
        self, kind: str, wanted: Mapping[str, OpDecision], check: Check | None = None, dram_too: bool = False
    ) -> Trial:
        """Give ops other results, and their readers other operands, if that fits and is faster.

        `check` validates the window once the change is made; `dram_too` lets some readers read from DRAM.
        TimeLimitError once the run shall end, with the plan complete.
        """
        self.state.problem.poll()
        changes = ReaderChoice(self.state, wanted, dram_too).changes()
        if isinstance(changes, Refusal):
            return self._record(kind, wanted, changes, 0)
        applied = self.state.apply(changes)
        refusal = self._judge(applied, next(iter(wanted)), check)
        if refusal is not None:
            self.state.undo(applied)
        return self._record(kind, wanted, refusal, applied.saved_ns)

    def _judge(self, applied: Applied, producer: str, check: Check | None) -> Refusal | None:
        if applied.saved_ns <= 0:
            message = f"predicted no faster: {-applied.saved_ns} ns more for the whole plan"
            return Refusal(producer, message, Cause.TIME)
        refusal = None if check is None else check()
        return fits_the_allocator(applied.overflow) if refusal is None else refusal

    def _record(self, kind: str, wanted: Mapping[str, OpDecision], refusal: Refusal | None, saved: int) -> Trial:
        layouts = dict.fromkeys(d.candidate.output.describe() for d in wanted.values())
        trial = Trial(kind, tuple(wanted), ", ".join(layouts), refusal is None, saved, refusal)
        self.log.append(trial)
        return trial
