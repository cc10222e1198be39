"""`LocalExecutor`: jobs on this machine's processes."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import wait

from optimizer.batch.executor import DeadlineExceeded, Job, JobFailure, Outcome, OutOfMemory, WorkerDied
from optimizer.batch.worker import PRELOADED, Worker
from optimizer.errors import StateError, TtoptError

ATTEMPTS = 2
"""A job whose process dies is tried once more in a fresh one (the first death may have been the machine's
doing, such as memory taken by its neighbours)."""


@dataclass
class _Running:
    key: str
    job: Job
    attempt: int
    started: float


class LocalExecutor:
    """An `Executor` over `jobs` worker processes, started when first needed.

    Jobs start in the order of submission. A job past `deadline_s` seconds is stopped and fails with
    DeadlineExceeded; one whose process dies is tried once more, then fails with WorkerDied.
    """

    def __init__(self, jobs: int | None = None, deadline_s: float | None = None, preload: str | None = PRELOADED):
        self._limit = jobs or os.cpu_count() or 1
        self._deadline_s = deadline_s
        self._preload = preload
        self._keys: set[str] = set()
        self._queue: deque[tuple[str, Job, int]] = deque()
        self._idle: list[Worker] = []
        self._running: dict[Worker, _Running] = {}

    def submit(self, key: str, job: Job) -> None:
        if key in self._keys:
            raise StateError(f"job '{key}' was submitted twice")
        self._keys.add(key)
        self._queue.append((key, job, 1))

    def as_completed(self) -> Iterator[Outcome]:
        while self._queue or self._running:
            self._start_jobs()
            yield from self._finished()

    def cancel(self) -> None:
        self._queue.clear()
        for worker in self._running:
            worker.close()
        self._running.clear()

    def close(self) -> None:
        self.cancel()
        while self._idle:
            self._idle.pop().close()

    def _start_jobs(self) -> None:
        while self._queue and len(self._running) < self._limit:
            worker = self._idle.pop() if self._idle else Worker(self._preload)
            key, job, attempt = self._queue.popleft()
            self._running[worker] = _Running(key, job, attempt, time.monotonic())
            try:
                worker.send(job)
            except WorkerDied:
                # `receive` finds the same and decides about another attempt.
                continue

    def _finished(self) -> Iterator[Outcome]:
        """Wait until a worker answers or a deadline passes; outcomes of every job that ended."""
        ready = wait([worker.connection for worker in self._running], timeout=self._patience_s())
        for worker, running in list(self._running.items()):
            if worker not in self._running:
                # The caller cancelled between two outcomes.
                return
            seconds = time.monotonic() - running.started
            if worker.connection in ready:
                del self._running[worker]
                yield from self._collect(worker, running, seconds)
            elif self._deadline_s is not None and seconds > self._deadline_s:
                del self._running[worker]
                worker.close()
                yield Outcome(running.key, error=DeadlineExceeded(self._deadline_s), seconds=seconds)

    def _collect(self, worker: Worker, running: _Running, seconds: float) -> Iterator[Outcome]:
        try:
            outcome = Outcome(running.key, value=worker.receive(), seconds=seconds)
        except WorkerDied as error:
            worker.close()
            if running.attempt < ATTEMPTS:
                self._queue.append((running.key, running.job, running.attempt + 1))
            else:
                yield Outcome(running.key, error=error, seconds=seconds)
            return
        except OutOfMemory as error:
            worker.close()
            yield Outcome(running.key, error=error, seconds=seconds)
            return
        except (TtoptError, JobFailure) as error:
            outcome = Outcome(running.key, error=error, seconds=seconds)
        self._idle.append(worker)
        yield outcome

    def _patience_s(self) -> float | None:
        """Seconds until the nearest deadline; None: there is none."""
        if self._deadline_s is None:
            return None
        oldest = min(running.started for running in self._running.values())
        return max(oldest + self._deadline_s - time.monotonic(), 0.0) + 0.01
