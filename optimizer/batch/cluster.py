"""`ClusterExecutor`: jobs on a Dask cluster, which sends the work of a machine that is lost to another one.

Dask places the work and finds out who is gone. What a job may do to a process (crash it, hang, take its memory) happens
in our own process beside the Dask worker, by the same code as on one machine.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from optimizer.batch.executor import ExecutorLost, Job, Outcome, WorkerDied
from optimizer.batch.local import LocalExecutor
from optimizer.errors import OptionError, StateError
from optimizer.process.extras import how_to_install

if TYPE_CHECKING:
    from distributed import Client, Future

CHUNK = 8
"""Jobs that travel together: the scheduler takes milliseconds for each thing that it is sent."""
CHUNK_BYTES = 64 * 1024**2
"""Models of one chunk together, but for a single one that is larger."""
QUEUED_PER_THREAD = 2
"""Chunks that wait at the cluster for each of its threads; the others wait here."""
CONNECT_SECONDS = 10
LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"
_kept = threading.local()
"""On a worker: the executor of each of its threads, whose process stays warm from one chunk to the next."""


@dataclass(frozen=True)
class _Queued:
    key: str
    job: Job
    sent_bytes: int = 0


class ClusterExecutor:
    """An `Executor` on the cluster whose scheduler listens at `address`, such as `tcp://host:8786`.

    A job past `deadline_s` seconds fails with DeadlineExceeded. Work of a Dask worker that is lost goes to another one;
    where that happens again and again its jobs are sent one by one, and the one that does it fails with WorkerDied.
    OptionError without `distributed`, or if nobody listens; ExecutorLost once nobody listens any more.
    """

    shares_files = False

    def __init__(self, address: str, deadline_s: float | None = None, chunk: int = CHUNK) -> None:
        self._client = _connected(address)
        self._address = address
        self._deadline_s = deadline_s
        self._chunk = chunk
        self._queue: deque[_Queued] = deque()
        self._alone: deque[_Queued] = deque()
        """Jobs of chunks that took workers with them."""
        self._under_way: dict[Future[Any], list[_Queued]] = {}
        self._ended: SimpleQueue[Future[Any]] = SimpleQueue()
        self._keys: set[str] = set()

    def submit(self, key: str, job: Job, sent_bytes: int = 0, /) -> None:
        if key in self._keys:
            raise StateError(f"job '{key}' was submitted twice")
        self._keys.add(key)
        self._queue.append(_Queued(key, job, sent_bytes))

    def as_completed(self) -> Iterator[Outcome]:
        while self._queue or self._alone or self._under_way:
            self._send()
            future = self._ended.get()
            for outcome in self._outcomes(future, self._under_way.pop(future, [])):
                if outcome.key in self._keys:  # else the caller has cancelled between two outcomes
                    self._keys.discard(outcome.key)
                    yield outcome

    def cancel(self) -> None:
        self._queue.clear()
        self._alone.clear()
        self._keys.clear()
        if self._client.status == "running":
            self._client.cancel(list(self._under_way))
        self._under_way.clear()

    def close(self) -> None:
        self.cancel()
        self._client.close()

    def _send(self) -> None:
        threads = max(self._threads(), 1)
        # Towards the end chunks shrink, so that no machine waits for the chunk of another one.
        size = max(1, min(self._chunk, len(self._queue) // (QUEUED_PER_THREAD * threads)))
        for _ in range(QUEUED_PER_THREAD * threads - len(self._under_way)):
            jobs = [self._alone.popleft()] if self._alone else self._next_chunk(size)
            if not jobs:
                return
            calls = [(queued.key, queued.job) for queued in jobs]
            with _no_warning_of_size():
                future = self._client.submit(work_off, calls, self._deadline_s, pure=False)
            self._under_way[future] = jobs
            future.add_done_callback(self._ended.put)

    def _next_chunk(self, size: int) -> list[_Queued]:
        """At most so many jobs; of large ones fewer, since the scheduler holds what waits."""
        jobs: list[_Queued] = []
        sent_bytes = 0
        while self._queue and len(jobs) < size and (not jobs or sent_bytes + self._queue[0].sent_bytes <= CHUNK_BYTES):
            sent_bytes += self._queue[0].sent_bytes
            jobs.append(self._queue.popleft())
        return jobs

    def _threads(self) -> int:
        """Of all workers at present."""
        try:
            return sum(self._client.nthreads().values())
        except (OSError, CancelledError) as error:
            raise self._lost() from error

    def _outcomes(self, future: Future[Any], jobs: list[_Queued]) -> list[Outcome]:
        """What became of a chunk; nothing of one that was cancelled."""
        from distributed import KilledWorker

        if not jobs:
            return []
        if future.status == "finished":
            outcomes: list[Outcome] = future.result()
            return outcomes
        if future.cancelled():  # by nobody here: the client does so to all of them when its scheduler is gone
            raise self._lost()
        error = future.exception()
        if isinstance(error, KilledWorker) and len(jobs) > 1:
            self._alone.extend(jobs)
            return []
        found = WorkerDied(None) if isinstance(error, KilledWorker) else error
        return [Outcome(queued.key, error=found) for queued in jobs]

    def _lost(self) -> ExecutorLost:
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # it would tell the same as tracebacks
        return ExecutorLost(
            f"the Dask scheduler at '{self._address}' has left, with the jobs that it had",
            alternatives=("`--resume` once it is back", "`--resume` without --cluster"),
        )


def _no_warning_of_size() -> AbstractContextManager[Any]:
    """Dask warns of chunks from 10 MiB on; ours hold models, of which the scheduler gets few at a time."""
    import dask

    quiet: AbstractContextManager[Any] = dask.config.set({LARGE_GRAPH: sys.maxsize})
    return quiet


def work_off(jobs: Sequence[tuple[str, Job]], deadline_s: float | None) -> list[Outcome]:
    """Runs on a Dask worker: do jobs one after another in a process beside it."""
    executors: dict[float | None, LocalExecutor] = _kept.__dict__.setdefault("executors", {})
    if deadline_s not in executors:
        executors[deadline_s] = LocalExecutor(1, deadline_s, ahead=0)
    executor = executors[deadline_s]
    for key, job in jobs:
        executor.submit(key, job)
    return list(executor.as_completed())


def _connected(address: str) -> Client:
    try:
        from distributed import Client
    except ImportError as error:
        raise OptionError(f"a cluster needs distributed; {how_to_install('dask')}", node="cluster") from error
    connect: Callable[..., Any] = Client
    try:
        client: Client = connect(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise OptionError(f"no Dask scheduler answers at '{address}': {error}", node="cluster") from error
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError as error:
        client.close()
        raise OptionError(f"the Dask cluster at '{address}' has no worker", node="cluster") from error
    return client
