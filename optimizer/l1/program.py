"""A plan as the steps that its program runs, as far as L1 and time go: buffers in plain bytes, no graph, no layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optimizer.l1.events import L1Event

Buffer = tuple[str, str]
"""A value and which form of it: `""` as produced, `spill`, or the reader that a copy is made for."""


@dataclass(frozen=True)
class Step:
    """One call: an op, or a copy before or after it. All bytes are per core."""

    op_id: str
    time_ns: int
    reads: tuple[Buffer, ...] = ()
    """What it reads in L1."""
    writes: tuple[tuple[Buffer, int], ...] = ()
    """Results in L1 and their bytes."""
    shares: Buffer | None = None
    """What the result lies in: the operand that it is a view of, or that it is written into."""
    events: tuple[L1Event, ...] = ()
    """What it does in L1, in order."""
    made: tuple[tuple[int, Buffer], ...] = ()
    """Which of the buffers that it makes are results; the others are gone when it returns."""
    operand: Buffer | None = None
    """Operand 0, if that is in L1: some ops free it."""
    peak_bytes: int = 0
    """Most that results, temporaries and circular buffers take together."""
    choice_room_bytes: int = 0
    """What must be free for TTNN to choose the program that the figures are of."""
    refusal: str | None = None
    """Why the OpModel does not take it as it stands."""
    is_copy: bool = False
    """Made for the op, or of its result."""


Row = tuple[Step, ...]
"""The steps at one position of the schedule: copies of the operands, the op, copies of its results."""


@dataclass(frozen=True)
class Program:
    """The steps of a whole plan."""

    rows: Sequence[Row]
    """By schedule position."""
    last_reads: Mapping[str, int]
    """Value -> last position that reads it, or a copy of it, in L1; absent if none does."""
    kept: tuple[tuple[str, int], ...] = ()
    """Weights that are in L1 before the first step and stay, with their bytes per core, once per layout; in the order
    of their first readers."""

    @property
    def time_ns(self) -> int:
        """Predicted time of all steps."""
        return sum(step.time_ns for row in self.rows for step in row)
