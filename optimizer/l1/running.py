"""A program under change: only what a change touches runs again.

The state of L1 before every position is kept. After a change the run goes on from the copy before the first position
concerned until L1 is as it was before the change: from there on nothing differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from optimizer.l1.program import Row
from optimizer.l1.run import Bank, LastRead, Overflow, Run


@dataclass
class Rerun:
    """What a change did, and what it replaced."""

    saved_ns: int
    overflow: Overflow | None
    """First op that no longer fits."""
    _rows: dict[int, Row] = field(default_factory=dict)
    _states: dict[int, Run] = field(default_factory=dict)


class RunningProgram:
    """The rows of a program, and L1 before each of them."""

    def __init__(self, positions: int, row_at: Callable[[int], Row], last_read: LastRead, bank: Bank) -> None:
        """`row_at` and `last_read` always tell the present program."""
        self._row_at = row_at
        self._last_read = last_read
        self._rows = [row_at(at) for at in range(positions)]
        self._states = [Run(bank)]
        self.overflows: list[Overflow] = []
        """Of the program at first."""
        for at in range(positions):
            now = self._states[at].copy()
            overflow = now.position(at, self._rows[at], last_read)
            self.overflows += [overflow] if overflow is not None else []
            self._states.append(now)

    @property
    def time_ns(self) -> int:
        """Predicted time of the whole program."""
        return sum(step.time_ns for row in self._rows for step in row)

    def row(self, at: int) -> Row:
        """The steps at a position as they are now."""
        return self._rows[at]

    def rerun(self, changed: Iterable[int], last: int, slower_too: bool = True) -> Rerun:
        """Take note of a change. `changed` are the positions whose rows may differ; nothing in L1 that the change
        touches is alive after position `last`. One that saves nothing is only priced unless `slower_too`; it must be
        undone then."""
        outcome = Rerun(0, None)
        positions = sorted(changed)
        for at in positions:
            outcome._rows[at] = before = self._rows[at]
            self._rows[at] = after = self._row_at(at)
            outcome.saved_ns += sum(s.time_ns for s in before) - sum(s.time_ns for s in after)
        if outcome.saved_ns <= 0 and not slower_too:
            return outcome
        now = self._states[positions[0]].copy()
        for at in range(positions[0], len(self._rows)):
            overflow = now.position(at, self._rows[at], self._last_read)
            if outcome.overflow is None:
                outcome.overflow = overflow
            same = now.live == self._states[at + 1].live
            outcome._states[at + 1] = self._states[at + 1]
            self._states[at + 1] = now.copy()
            if same and at >= last:
                break
        return outcome

    def undo(self, outcome: Rerun) -> None:
        """Back to before a `rerun`, the last one that is not undone yet."""
        for at, row in outcome._rows.items():
            self._rows[at] = row
        for at, state in outcome._states.items():
            self._states[at] = state
