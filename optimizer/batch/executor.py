"""What a batch needs of whatever runs its jobs: this machine's processes, or a cluster."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from optimizer.errors import LimitError, TtoptError

Job = Callable[..., Any]
"""A picklable call (`functools.partial` of a module's function) with a picklable result. Its arguments are the
descriptors that are handed over with it, mostly none."""


class JobFailure(Exception):
    """A job raised something that is not one of ttopt's errors: a defect, told by the text of its traceback."""

    def __init__(self, message: str, traceback: str) -> None:
        super().__init__(message, traceback)
        self.message = message
        self.traceback = traceback

    def __str__(self) -> str:
        return self.message


class WorkerDied(Exception):
    """The process running a job ended before it answered."""

    def __init__(self, exit_code: int | None) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code

    def __str__(self) -> str:
        if self.exit_code is None:
            return "the processes that worked on it were lost"
        if self.exit_code >= 0:
            return f"the worker process ended with status {self.exit_code}"
        hint = " (out of memory?)" if self.exit_code == -signal.SIGKILL else ""
        return f"the worker process was killed by signal {-self.exit_code}{hint}"


class OutOfMemory(LimitError):
    """A job needed more memory than its process may take, or than the machine has."""


class DeadlineExceeded(Exception):
    """A job ran longer than it may."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"stopped after {self.seconds:g} s"


class ExecutorLost(TtoptError):
    """Whatever runs the jobs is gone, with those that have not ended."""

    code = "executor-lost"


@dataclass(frozen=True)
class Outcome:
    """How a job ended: with a value, or with an error."""

    key: str
    value: Any = None
    error: Exception | None = None
    seconds: float = 0.0


class Executor(Protocol):
    """Runs jobs by key. One failing job never affects another."""

    shares_files: bool
    """Whether jobs see the files of this machine."""

    def submit(self, key: str, job: Job, sent_bytes: int = 0, /) -> None:
        """Queue a job, of about that size when it is sent. StateError if one of that key has not ended yet."""
        ...

    def as_completed(self) -> Iterator[Outcome]:
        """Outcomes in the order in which jobs end, until none is left. ExecutorLost if no more can come."""
        ...

    def cancel(self) -> None:
        """Forget queued jobs and stop running ones; `as_completed` then ends."""
        ...

    def close(self) -> None:
        """Release every process."""
        ...
