"""Where routes hand in jobs and wait for them, without ever blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from api.access import Caller, Gate, KeyStore
from api.jobs.contents import Contents, unpacked
from api.jobs.database import Database
from api.jobs.queue import JobQueue
from api.jobs.records import Job
from api.jobs.retention import Retention
from api.jobs.room import Room
from api.jobs.store import JobStore
from api.jobs.watching import LOOK_SECONDS, Marks, Page, Watchers, changed_within
from api.metrics import Metrics
from api.problems import DrainingError
from api.settings import Settings
from api.workers.supervisor import CANCEL, Supervisor
from optimizer.errors import TtoptError

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 16
"""For what waits for the database."""
LISTS, REST = 1, 3.0
"""Pages of jobs put together at once, and how many times its seconds of the processor the next one waits: the
event loop needs its part."""
HOUSEKEEPING_SECONDS = 1.0


class Desk:
    """The store, the workers behind it, and who waits for what."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.database = Database(settings.store_url)
        room = Room(settings.store_bytes)
        self.store = JobStore(self.database, room)
        self._queue = JobQueue(self.database, settings.lease_seconds, settings.attempts, room)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="store")
        self._listing = asyncio.Semaphore(LISTS)
        self.watchers = Watchers(self._marks, self._page)
        self.supervisor = Supervisor(settings, self._queue, self.watchers.changed)
        self.gate = Gate(settings, KeyStore(self.database))
        self.metrics = Metrics()
        self._retention = Retention(self.database, room, settings.retention_seconds)
        self._keepers: list[asyncio.Task[None]] = []
        """Tasks that go on as long as the service runs."""
        self.warm = 0
        """Solver processes that would take a job at once, or work on one."""
        self.is_draining = False
        self._expires_from = 0.0
        """Of the event loop's clock: when jobs may be taken from workers whose leases have ended."""

    async def open(self) -> None:
        """Bring the store up to date and start the workers."""
        await self.call(self.database.migrate)
        await self.call(self.store.recount)
        self.supervisor.start()
        works = ((self.look_around, HOUSEKEEPING_SECONDS), (self._look, LOOK_SECONDS))
        self._keepers = [asyncio.create_task(self._keep(work, pause)) for work, pause in works]

    async def close(self) -> None:
        self.is_draining = True
        for keeper in self._keepers:
            keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeper
        await self.supervisor.close()
        self._threads.shutdown(wait=True)
        self.database.close()

    async def call(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Do in a thread what waits for the database."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: function(*arguments, **named))

    async def listed(self, page: Callable[[], bytes]) -> bytes:
        """A page of jobs, when it is its turn."""
        rest = 0.0

        def measured() -> bytes:
            nonlocal rest
            began = time.thread_time()
            try:
                return page()
            finally:
                rest = REST * (time.thread_time() - began)

        await self._listing.acquire()
        try:
            return await self.call(measured)
        finally:
            asyncio.get_running_loop().call_later(rest, self._listing.release)

    # -- jobs --------------------------------------------------------------------------------------------------
    def check_takes_work(self) -> None:
        """DrainingError if the service is about to end."""
        if self.is_draining:
            raise DrainingError("the service is about to end")

    def submitted(self, job: Job) -> None:
        """A job has come into the store."""
        if not job.state.is_final:
            self.supervisor.tell()
        self.metrics.submitted(job)

    async def wait(self, job: Job, seconds: float) -> Job:
        """The job as soon as it is finished; as it is then, after so many seconds or when the service ends."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        with self.watchers.watching(job.id) as changed:
            while not job.state.is_final and loop.time() < ends and not self.is_draining:
                await changed_within(changed, ends - loop.time())
                job = await self.call(self.store.job, job.id, job.owner)
        return job

    async def cancel(self, job_id: str, owner: str) -> Job:
        """End a job; a running one may take a moment."""
        job = await self.call(self.store.cancel, job_id, owner)
        self.watchers.changed(job_id)
        self.supervisor.tell(CANCEL)
        return job

    async def retry(self, job_id: str, caller: Caller) -> Job:
        """Queue a job again that failed or was cancelled."""
        self.check_takes_work()
        job = await self.call(self.store.retry, job_id, caller.owner, caller.quota)
        self.watchers.changed(job_id)
        self.supervisor.tell()
        return job

    async def _marks(self, jobs: Sequence[str]) -> Marks:
        return await self.call(self.store.marks, jobs)

    async def _page(self, job_id: str, after: int) -> Page:
        return await self.call(self.store.page, job_id, after)

    # -- contents ----------------------------------------------------------------------------------------------
    async def pieces(self, content_id: str, encoding: str, as_stored: bool) -> AsyncIterator[bytes]:
        """The bytes of a content, compressed as they are stored or not."""
        contents: Contents = self.store.contents
        stored = contents.stored_pieces(content_id)
        pieces = stored if as_stored else unpacked(stored, encoding)
        while (piece := await self.call(next, pieces, None)) is not None:
            if piece:
                yield piece

    # -- housekeeping ------------------------------------------------------------------------------------------
    async def _keep(self, work: Callable[[], Awaitable[None]], pause_seconds: float) -> None:
        """Do something again and again, whatever becomes of it."""
        while True:
            try:
                await work()
            except TtoptError as error:
                self.warm = 0
                # Nobody could renew a lease meanwhile: workers get the time to do so before it counts as ended.
                self._expires_from = asyncio.get_running_loop().time() + self._settings.lease_seconds
                log.warning("housekeeping: %s", error)
            except Exception:
                log.exception("a defect of the housekeeping, which goes on")
            await asyncio.sleep(pause_seconds)

    async def _look(self) -> None:
        """Wake those whose job has changed; before the service ends, all."""
        if self.is_draining:
            self.watchers.wake_all()
        await self.watchers.look()

    async def look_around(self) -> None:
        """Take back jobs of silent workers, delete what has been kept for long enough, and count."""
        if asyncio.get_running_loop().time() >= self._expires_from:
            for job_id in await self.call(self._queue.expire):
                self.watchers.changed(job_id)
                self.supervisor.tell()
        self.warm = await self.call(self._queue.warm_slots)
        await self.call(self._retention.sweep_if_due)
        await self.call(self.metrics.observe, self.store, self.database, self.supervisor.restarts, self.warm)
