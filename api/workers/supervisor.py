"""The server's side of its worker program: started, started again when it ends, and listened to."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable

from api.jobs.queue import JobQueue
from api.settings import Settings
from api.workers.program import new_name
from optimizer.errors import TtoptError

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 10.0
"""Before a program that ended at once is started again; twice as long each time."""
LIVED_SECONDS = 10.0
"""A program that lived that long has not ended at once."""
WORK, CANCEL = b"w", b"c"
READ_BYTES = 64 * 1024
END_SECONDS = 5.0
"""Beyond the time that jobs have to end, before the program is killed."""


class Supervisor:
    """One worker program for as long as the server runs."""

    def __init__(self, settings: Settings, queue: JobQueue, changed: Callable[[str], None]) -> None:
        """`changed(job_id)` is called whenever the program says that a job has changed."""
        self._settings = settings
        self._queue = queue
        self._changed = changed
        self._process: Process | None = None
        self._task: asyncio.Task[None] | None = None
        self.restarts = 0

    def start(self) -> None:
        if self._settings.workers:
            self._task = asyncio.create_task(self._supervise())

    def tell(self, word: bytes = WORK) -> None:
        """Let the program look for work, or for jobs to cancel, at once."""
        if self._process is not None and self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(word)

    async def close(self) -> None:
        """Let the program finish what it works on, within the time that it has for that."""
        process = self._process
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), self._settings.drain_seconds + END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _supervise(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        loop = asyncio.get_running_loop()
        while True:
            name = new_name()
            began = loop.time()
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "api.workers", name,
                stdin=PIPE, stdout=PIPE, env={**os.environ, **self._settings.to_environment()}, start_new_session=True,
            )  # fmt: skip
            await self._listen(self._process)
            status = await self._process.wait()
            self.restarts += 1
            log.error("the worker program ended with status %s; another one is started", status)
            await self._take_back(name)
            lived = loop.time() - began > LIVED_SECONDS
            pause = FIRST_PAUSE_SECONDS if lived else min(2 * pause, LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(pause)

    async def _listen(self, process: Process) -> None:
        """Pass on what the program says, until it ends."""
        assert process.stdout is not None
        rest = b""
        while data := await process.stdout.read(READ_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._changed(line.decode("ascii", "replace"))

    async def _take_back(self, name: str) -> None:
        """Queue the jobs again that the program held when it ended."""
        try:
            for job_id in await asyncio.to_thread(self._queue.expire, name):
                self._changed(job_id)
            await asyncio.to_thread(self._queue.leave, name)
        except TtoptError as error:
            log.warning("jobs of worker %s stay leased until their leases end: %s", name, error)
