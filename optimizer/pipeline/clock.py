"""The clock of one run: it announces the stages, measures them, and knows when the run has to end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from optimizer.errors import TimeLimitError
from optimizer.process import logs
from optimizer.process.deadline import hard_deadline, last_moment_s
from optimizer.sharding.base import INTERRUPTED, SearchState

_log = logs.room("pipeline")

CLOSING_PER_FIRST = 2.5
"""The stages after the policy, and the writing of the document, in terms of those stages for everything in DRAM."""
WRITING_PER_FIRST = 1.2
"""The writing of the document alone, likewise."""
MOST_CLOSING = 0.4
"""Share of a time limit that is kept for them at most,"""
REPLAY_SHARE, KERNELS_S = 0.3, 1.0
"""and what is kept besides for a replay, and for choosing our kernels."""


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
    begun: float = field(default_factory=time.monotonic)
    """From when the limit counts, by `time.monotonic`."""
    is_replayed: bool = False
    """Whether the finished program is replayed, which takes time after the search."""
    has_kernels: bool = False
    """Whether our kernels are chosen for it, likewise."""
    first_closing_s: float = 0.0
    """What the stages after the policy took for everything in DRAM, once that is known."""
    cut_short: bool = False
    """Whether something ended early because the run had to end."""
    _since: float = field(default_factory=time.perf_counter)
    _seconds: dict[str, float] = field(default_factory=dict)
    _current: str = ""

    def apart(self, share: float = 1.0) -> Clock:
        """Of a trial inside a stage: this share of the limit, its stages announced and measured by nobody."""
        limit = None if self.time_limit is None else share * self.time_limit
        return Clock(time_limit=limit, interrupted=self.interrupted, begun=self.begun)

    @contextmanager
    def stage(self, name: str, closing: bool = False) -> Iterator[None]:
        """One stage at work. TimeLimitError at the last moment, and unless it closes a run, if the user ends that."""
        outer = self._current
        self._switch(name)
        try:
            if closing:
                self.poll_time()
            else:
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
        """For stages that a run cannot do without: TimeLimitError at the last moment, or once the user ends the run."""
        self.poll_time()
        if self.interrupted():
            raise self._end()

    def poll_time(self) -> None:
        """For whatever may take long, in any stage: TimeLimitError at the last moment."""
        writing_s = WRITING_PER_FIRST * self.first_closing_s
        if self.time_limit is not None and self._spent_s() > last_moment_s(self.time_limit, writing_s):
            raise self._end()

    def poll_closing(self) -> None:
        """For what a run can do without: TimeLimitError once there is only time left to close it, or it is ended."""
        if self._is_to_close() or self.interrupted():
            raise self._end()

    def poll_limit(self) -> None:
        """For what a run can do without once there is a plan to close it with: TimeLimitError at the limit."""
        if self.time_limit is not None and self._spent_s() > self.time_limit:
            raise self._end()

    def _end(self) -> TimeLimitError:
        self._cut()
        message = f"{self.stopped_because()} in stage '{self._current}': nothing to return"
        return TimeLimitError(message, limit=self.time_limit)

    @contextmanager
    def hard_end(self) -> Iterator[None]:
        """TimeLimitError inside the block at the last moment, in the main thread, for what does not ask."""
        with hard_deadline(self.time_limit, self._spent_s(), self._cut):
            yield

    def _cut(self) -> None:
        self.cut_short = True

    def search_is_over(self) -> bool:
        """Whether the policy has to return what it has, which is still to be applied, verified and predicted.

        Who is told so ends early.
        """
        over = self._is_to_close() or self.interrupted()
        self.cut_short = self.cut_short or over
        return over

    def stopped_because(self) -> str:
        """Why the run has to end, for people."""
        if self.interrupted() or self.time_limit is None:
            return INTERRUPTED
        return f"time limit of {self.time_limit:g} s reached"

    def seconds(self) -> dict[str, float]:
        """Stage -> seconds, of the stages that have run."""
        return {name: round(spent, 6) for name, spent in self._seconds.items()}

    def _is_to_close(self) -> bool:
        """Whether what is left of the limit is what the stages after the policy take."""
        if self.time_limit is None:
            return False
        closing_s = min(CLOSING_PER_FIRST * self.first_closing_s, MOST_CLOSING * self.time_limit)
        replay_s = REPLAY_SHARE * self.time_limit if self.is_replayed else 0.0
        kernels_s = min(KERNELS_S, MOST_CLOSING * self.time_limit) if self.has_kernels else 0.0
        return self._spent_s() > self.time_limit - closing_s - replay_s - kernels_s

    def _spent_s(self) -> float:
        return time.monotonic() - self.begun
