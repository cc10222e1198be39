"""The clock of one run: it announces the stages, measures them, and knows when the run has to end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from optimizer import logs
from optimizer.errors import TimeLimitError
from optimizer.sharding.base import INTERRUPTED, SearchState

_log = logs.room("pipeline")

CLOSING_PER_BASELINE = 2.5
"""The stages after the policy, in terms of the stage that plans everything in DRAM (1.5 to 2.4 on graphs of 100 to
20,000 ops)."""
MOST_CLOSING = 0.4
"""Share of a time limit that is kept for them at most."""


@dataclass(frozen=True)
class ProgressEvent:
    """Stage `index` of `count` has begun, or has something to say."""

    stage: str
    index: int
    count: int
    detail: str = ""
    search: SearchState | None = None
    """How far the search is, where it has come further."""


Progress = Callable[[ProgressEvent], None]


@dataclass
class Clock:
    """Times are in seconds. Stages may run inside others: each is charged for its own time only."""

    names: tuple[str, ...] = ()
    """The stages of the pipeline, in order: what the events count."""
    progress: Progress | None = None
    time_limit: float | None = None
    interrupted: Callable[[], bool] = bool
    """Whether the user asked the run to end."""
    _begun: float = field(default_factory=time.monotonic)
    _since: float = field(default_factory=time.perf_counter)
    _seconds: dict[str, float] = field(default_factory=dict)
    _current: str = ""

    @contextmanager
    def stage(self, name: str, closing: bool = False) -> Iterator[None]:
        """One stage at work. TimeLimitError if the time is up, unless the stage closes a run that has its plan."""
        outer = self._current
        self._switch(name)
        try:
            if not closing:
                self.poll()
            self.say("")
            _log.info("stage", name=name)
            yield
        finally:
            self._switch(outer)

    def _switch(self, name: str) -> None:
        now = time.perf_counter()
        if self._current:
            self._seconds[self._current] = self._seconds.get(self._current, 0.0) + now - self._since
        self._current, self._since = name, now

    def say(self, line: str, state: SearchState | None = None) -> None:
        """Something of the present stage, for whoever watches."""
        if self.progress is not None:
            index = self.names.index(self._current)
            self.progress(ProgressEvent(self._current, index, len(self.names), line, state))

    def poll(self) -> None:
        """TimeLimitError, in stages that a run cannot do without, once it has to end."""
        if self._is_late(0.0) or self.interrupted():
            raise TimeLimitError(f"{self.stopped_because()} in stage '{self._current}': nothing to return")

    def search_is_over(self) -> bool:
        """Whether the policy has to return what it has, which is still to be applied, verified and predicted."""
        return self._is_late(self._closing_s()) or self.interrupted()

    def stopped_because(self) -> str:
        """Why the run has to end, for people."""
        if self.interrupted() or self.time_limit is None:
            return INTERRUPTED
        return f"time limit of {self.time_limit:g} s reached"

    def seconds(self) -> dict[str, float]:
        """Stage -> seconds, of the stages that have run."""
        return {name: round(spent, 6) for name, spent in self._seconds.items()}

    def _closing_s(self) -> float:
        """Seconds that the stages after the policy take, by what the plan in DRAM took."""
        return min(CLOSING_PER_BASELINE * self._seconds.get("baseline", 0.0), MOST_CLOSING * (self.time_limit or 0.0))

    def _is_late(self, reserved_s: float) -> bool:
        return self.time_limit is not None and time.monotonic() - self._begun > self.time_limit - reserved_s
