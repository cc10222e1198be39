"""Solver processes behind the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from api.problems import BusyError, ClientGone, lost
from optimizer.batch.executor import Job, JobFailure, OutOfMemory, WorkerDied
from optimizer.batch.worker import Worker
from optimizer.errors import TimeLimitError, TtoptError

PRELOADED = "api.solve"


class WorkerPool:
    """`size` processes; further requests wait, up to `queue_limit` of them, then BusyError."""

    def __init__(self, size: int, queue_limit: int, memory_bytes: int = 0) -> None:
        """`memory_bytes`: what each may take for its data; 0: no limit."""
        self._size = size
        self._memory_bytes = memory_bytes
        # One waits for each worker's answer, one more for the end of a process.
        self._threads = ThreadPoolExecutor(size + 1, thread_name_prefix="worker")
        self._queue_limit = queue_limit
        self._free: asyncio.Queue[Worker] = asyncio.Queue()
        self._workers: set[Worker] = set()
        self._waiting = 0

    def start(self) -> None:
        for _ in range(self._size):
            self._add()

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()
        self._workers.clear()
        self._threads.shutdown(wait=False)

    @property
    def has_room(self) -> bool:
        """Whether a request would be taken now: a worker is free, or the queue has room."""
        return bool(self._workers) and (not self._free.empty() or self._waiting < self._queue_limit)

    def check_room(self) -> None:
        """BusyError unless a request would be taken now."""
        if not self.has_room:
            raise BusyError("every worker is busy and the queue is full", limit=self._queue_limit)

    async def run(
        self,
        job: Job,
        seconds: float,
        gone: Callable[[], Coroutine[Any, Any, None]],
        descriptors: Sequence[int] = (),
    ) -> Any:
        """The job's value. The job is called with the descriptors, which stay open here until it ended.

        Raises what the job raises; TimeLimitError after `seconds`; WorkerLostError if its process ends;
        ClientGone as soon as `gone()` returns. In the last three cases, and after an
        OutOfMemory, a fresh process takes over.
        """
        self.check_room()
        departure = asyncio.ensure_future(gone())
        try:
            worker = await self._take(departure)
            return await self._run_on(worker, job, seconds, departure, descriptors)
        finally:
            departure.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await departure

    async def _take(self, departure: asyncio.Future[None]) -> Worker:
        """A free worker, alive; ClientGone if the client leaves first."""
        self._waiting += 1
        taking = asyncio.ensure_future(self._free.get())
        either: set[asyncio.Future[Any]] = {taking, departure}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting -= 1
            if not taking.done():
                taking.cancel()
        if not taking.done() or taking.cancelled():
            raise ClientGone
        worker = taking.result()
        if departure.done():
            self._free.put_nowait(worker)
            raise ClientGone
        if not worker.is_alive:
            self._replace(worker)
            return await self._take(departure)
        return worker

    async def _run_on(
        self,
        worker: Worker,
        job: Job,
        seconds: float,
        departure: asyncio.Future[None],
        descriptors: Sequence[int],
    ) -> Any:
        answer = asyncio.get_running_loop().run_in_executor(self._threads, _call, worker, job, descriptors)
        try:
            await asyncio.wait({answer, departure}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped = not answer.done()
            if stopped:
                worker.kill()
        try:
            value = await answer
        except WorkerDied as error:
            self._replace(worker)
            if departure.done():
                raise ClientGone from error
            if stopped:
                raise TimeLimitError(f"stopped after {seconds:g} s", limit=seconds) from error
            raise lost(error) from error
        except OutOfMemory:
            self._replace(worker)
            raise
        except (TtoptError, JobFailure):
            self._free.put_nowait(worker)
            raise
        self._free.put_nowait(worker)
        return value

    def _add(self) -> None:
        worker = Worker(PRELOADED, self._memory_bytes)
        self._workers.add(worker)
        self._free.put_nowait(worker)

    def _replace(self, worker: Worker) -> None:
        self._workers.discard(worker)
        # The end of a process that held much memory takes a while.
        self._threads.submit(worker.close)
        self._add()


def _call(worker: Worker, job: Job, descriptors: Sequence[int]) -> Any:
    worker.send(job, descriptors)
    return worker.receive()
