"""`LocalExecutor`: jobs on this machine's processes."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import wait

from optimizer.batch.executor import DeadlineExceeded, Job, JobFailure, Outcome, OutOfMemory, WorkerDied
from optimizer.batch.worker import PRELOADED, Worker
from optimizer.errors import StateError, TtoptError

ATTEMPTS = 2
"""A job whose process dies is tried once more in a fresh one (the first death may have been the machine's
doing, such as memory taken by its neighbours)."""
AHEAD = 2
"""Jobs that a process holds besides the one it works on, so that it need not wait for this one between short jobs.
They must be short to send: nobody reads them before the answer to the job under way has been taken."""
JOBS_PER_PROCESS = 500
LARGEST_IDLE_BYTES = 1024**3
"""A process that holds more than that after a job is replaced, and so is one that has done so many."""


@dataclass
class _Queued:
    key: str
    job: Job
    attempt: int = 1


@dataclass(eq=False)
class _Process:
    """A worker, and the jobs that it was given, the one under way first."""

    worker: Worker
    given: deque[_Queued] = field(default_factory=deque)
    began: float | None = None
    """When it began with the job under way; None: it is still starting."""
    done: int = 0
    retires: bool = False
    """It gets no more jobs."""

    def __post_init__(self) -> None:
        self._send(_ready)

    def give(self, queued: _Queued) -> None:
        if not self.given and self.began is not None:
            self.began = time.monotonic()
        self.given.append(queued)
        self._send(queued.job)

    def seconds(self) -> float:
        """Since it began with the job under way."""
        return 0.0 if self.began is None else time.monotonic() - self.began

    def _send(self, job: Job) -> None:
        # Where the process is gone `receive` finds the same and decides about another attempt.
        with contextlib.suppress(WorkerDied):
            self.worker.send(job)


def _ready() -> None:
    """The first job of every process: its answer says that what comes now is the time of jobs."""


class LocalExecutor:
    """An `Executor` over `jobs` worker processes, started when first needed.

    Jobs start in the order of submission. A job past `deadline_s` seconds, the start of its process not counted, is
    stopped and fails with DeadlineExceeded; one whose process dies is tried once more, then fails with
    WorkerDied.
    """

    shares_files = True

    def __init__(
        self,
        jobs: int | None = None,
        deadline_s: float | None = None,
        preload: str | None = PRELOADED,
        ahead: int = AHEAD,
        jobs_per_process: int = JOBS_PER_PROCESS,
    ):
        self._limit = jobs or os.cpu_count() or 1
        self._deadline_s = deadline_s
        self._preload = preload
        self._ahead = ahead
        self._jobs_per_process = jobs_per_process
        self._keys: set[str] = set()
        self._queue: deque[_Queued] = deque()
        self._idle: list[_Process] = []
        self._busy: list[_Process] = []

    def submit(self, key: str, job: Job, _sent_bytes: int = 0, /) -> None:
        if key in self._keys:
            raise StateError(f"job '{key}' was submitted twice")
        self._keys.add(key)
        self._queue.append(_Queued(key, job))

    def as_completed(self) -> Iterator[Outcome]:
        while self._queue or self._busy:
            self._give_jobs()
            for outcome in self._finished():
                self._keys.discard(outcome.key)
                yield outcome

    def cancel(self) -> None:
        self._queue.clear()
        self._keys.clear()
        while self._busy:
            self._busy.pop().worker.close()

    def close(self) -> None:
        self.cancel()
        while self._idle:
            self._idle.pop().worker.close()

    def _give_jobs(self) -> None:
        while self._queue and len(self._busy) < self._limit:
            process = self._idle.pop() if self._idle else _Process(Worker(self._preload))
            self._busy.append(process)
            process.give(self._queue.popleft())
        for process in self._busy:
            # The last jobs are handed out one by one: none may wait behind a long one while a process is idle.
            while len(process.given) <= self._ahead < len(self._queue) // self._limit and not process.retires:
                process.give(self._queue.popleft())

    def _finished(self) -> Iterator[Outcome]:
        """Wait until a worker answers or a deadline passes; outcomes of every job that ended."""
        ready = wait([process.worker.connection for process in self._busy], timeout=self._patience_s())
        for process in list(self._busy):
            if process not in self._busy:
                # The caller cancelled between two outcomes.
                return
            seconds = process.seconds()
            if process.worker.connection in ready:
                yield from self._collect(process, seconds)
            elif self._deadline_s is not None and seconds > self._deadline_s:
                stopped = self._end(process)
                yield Outcome(stopped.key, error=DeadlineExceeded(self._deadline_s), seconds=seconds)

    def _collect(self, process: _Process, seconds: float) -> Iterator[Outcome]:
        """The answer of a process, or what its death means for the job under way."""
        key = process.given[0].key
        try:
            outcome = Outcome(key, value=process.worker.receive(), seconds=seconds)
            if process.began is None:
                process.began = time.monotonic()
                return
        except WorkerDied as error:
            lost = self._end(process)
            if lost.attempt < ATTEMPTS:
                self._queue.append(_Queued(lost.key, lost.job, lost.attempt + 1))
            else:
                yield Outcome(key, error=error, seconds=seconds)
            return
        except OutOfMemory as error:
            self._end(process)
            yield Outcome(key, error=error, seconds=seconds)
            return
        except (TtoptError, JobFailure) as error:
            outcome = Outcome(key, error=error, seconds=seconds)
        self._go_on(process)
        yield outcome

    def _go_on(self, process: _Process) -> None:
        """A process has answered: it has begun with its next job, waits for one, or is replaced."""
        process.given.popleft()
        process.began = time.monotonic()
        process.done += 1
        process.retires |= process.done >= self._jobs_per_process or process.worker.resident_bytes > LARGEST_IDLE_BYTES
        if not process.given:
            self._busy.remove(process)
            if process.retires:
                process.worker.close()
            else:
                self._idle.append(process)

    def _end(self, process: _Process) -> _Queued:
        """End a process; its job under way. Those that it had not begun with go back to the head of the queue."""
        self._busy.remove(process)
        process.worker.close()
        under_way = process.given.popleft()
        self._queue.extendleft(reversed(process.given))
        return under_way

    def _patience_s(self) -> float | None:
        """Seconds until the nearest deadline; None: there is none."""
        if self._deadline_s is None:
            return None
        longest = max(process.seconds() for process in self._busy)
        return max(self._deadline_s - longest, 0.0) + 0.01
