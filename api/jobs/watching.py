"""Who waits for which job, woken when it may have changed; what many ask for at once is read once."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

from api.jobs.records import Event, State

LOOK_SECONDS = 0.5
"""The jobs that are watched are looked at that often, for changes that nobody told of: those of workers elsewhere."""
TOGETHER, APART_SECONDS = 10, 0.005
"""Of those who wait for a job so many are woken at once, and the next so much later: others are answered in between."""
BATCH = 500
"""Jobs looked at in one query."""


@dataclass(frozen=True)
class Page:
    """How a job stood, and what had happened to it behind some event until then."""

    state: State
    events: tuple[Event, ...]


Marks = dict[str, tuple[str, int]]


class Watchers:
    """Those who wait for jobs."""

    def __init__(
        self, marks: Callable[[Sequence[str]], Awaitable[Marks]], page: Callable[[str, int], Awaitable[Page]]
    ) -> None:
        """`marks` reads what of jobs tells that they have changed; `page` what follows an event of one."""
        self._read_marks = marks
        self._read_page = page
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._marks: Marks = {}
        self._coming: dict[tuple[str, int], asyncio.Future[Page]] = {}

    @contextlib.contextmanager
    def watching(self, job_id: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever the job may have changed."""
        event = asyncio.Event()
        self._waiting[job_id].add(event)
        try:
            yield event
        finally:
            self._waiting[job_id].discard(event)
            if not self._waiting[job_id]:
                del self._waiting[job_id]
                self._marks.pop(job_id, None)

    def changed(self, job_id: str) -> None:
        """Wake those who wait for a job."""
        self._wake(list(self._waiting.get(job_id, ())))

    def _wake(self, events: list[asyncio.Event]) -> None:
        for event in events[:TOGETHER]:
            event.set()
        if rest := events[TOGETHER:]:
            asyncio.get_running_loop().call_later(APART_SECONDS, self._wake, rest)

    def wake_all(self) -> None:
        for job_id in self._waiting:
            self.changed(job_id)

    async def look(self) -> None:
        """Wake those whose job has changed since the last look."""
        jobs = list(self._waiting)
        for start in range(0, len(jobs), BATCH):
            for job_id, mark in (await self._read_marks(jobs[start : start + BATCH])).items():
                if self._marks.get(job_id) != mark and job_id in self._waiting:
                    self._marks[job_id] = mark
                    self.changed(job_id)

    async def page(self, job_id: str, after: int) -> Page:
        """What follows an event of a job, read once for all who ask for the same before the reading has begun."""
        asked = job_id, after
        reading = self._coming.get(asked)
        if reading is None:
            reading = self._coming[asked] = asyncio.ensure_future(self._read(asked))
            # Those who asked may all have left when it fails.
            reading.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(reading)

    async def _read(self, asked: tuple[str, int]) -> Page:
        # Whoever asks from here on may ask because of something that this reading misses.
        del self._coming[asked]
        return await self._read_page(*asked)


async def changed_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, at most so long, and clear it; whether it came."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()
    was_set = event.is_set()
    event.clear()
    return was_set
