"""Many who wait for one job: it is read once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from api.jobs.records import Event, State
from api.jobs.watching import Marks, Page, Watchers, changed_within

JOB = "a" * 32


class Store:
    """What the store would answer, and what it was asked."""

    def __init__(self) -> None:
        self.state, self.last = State.RUNNING, 0
        self.pages: list[tuple[str, int]] = []
        self.looks: list[tuple[str, ...]] = []

    async def marks(self, jobs: Sequence[str]) -> Marks:
        self.looks.append(tuple(jobs))
        return dict.fromkeys(jobs, (self.state, self.last))

    async def page(self, job_id: str, after: int) -> Page:
        self.pages.append((job_id, after))
        await asyncio.sleep(0)
        return Page(self.state, tuple(Event(n, "stage", {}) for n in range(after + 1, self.last + 1)))


async def follow(watchers: Watchers) -> list[int]:
    """Numbers of the events of the job until it ends."""
    seen: list[int] = []
    with watchers.watching(JOB) as changed:
        while True:
            page = await watchers.page(JOB, seen[-1] if seen else 0)
            seen += [event.number for event in page.events]
            if page.state.is_final and not page.events:
                return seen
            await changed_within(changed, 60.0)


def test_a_hundred_watchers_read_pages_together() -> None:
    async def scenario() -> None:
        store = Store()
        watchers = Watchers(store.marks, store.page)
        followers = [asyncio.ensure_future(follow(watchers)) for _ in range(100)]
        for store.last in (1, 2, 5, 5):
            store.state = State.SUCCEEDED if store.last == 5 else State.RUNNING
            await asyncio.sleep(0.01)
            watchers.changed(JOB)
        await asyncio.sleep(0.01)
        watchers.changed(JOB)
        assert [await follower for follower in followers] == [[1, 2, 3, 4, 5]] * 100
        assert len(store.pages) <= 100

    asyncio.run(scenario())


def test_a_look_wakes_those_whose_job_has_changed() -> None:
    async def scenario() -> list[bool]:
        store = Store()
        watchers = Watchers(store.marks, store.page)
        with watchers.watching(JOB) as changed:
            woken = []
            for store.last in (0, 0, 1, 1):
                await watchers.look()
                woken.append(await changed_within(changed, 0.0))
        await watchers.look()
        assert store.looks == [(JOB,)] * 4
        return woken

    assert asyncio.run(scenario()) == [True, False, True, False]
