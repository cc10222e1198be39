"""What the store keeps, and what goes."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import select, update

from api.jobs.database import Database
from api.jobs.queue import JobQueue
from api.jobs.retention import Retention
from api.jobs.room import Room, taken_bytes
from api.jobs.store import JobStore
from api.jobs.tables import CONTENTS, EVENTS, JOBS, RESULTS
from api.problems import NotFoundError
from tests.api.jobs.test_store import FREE, stored, submission, succeed

KEPT = 1000.0


@pytest.fixture
def store(database: Database) -> JobStore:
    return JobStore(database)


def sweep(store: JobStore, most_bytes: int | None = None) -> None:
    """Delete what is not kept, with so much room."""
    room = Room() if most_bytes is None else Room(most_bytes)
    Retention(store.database, room, KEPT).sweep()


def finished(store: JobStore, number: int, age_seconds: float, size: int = 10) -> str:
    """A finished job of that age, with a body and a result."""
    queue = JobQueue(store.database, 60, 3)
    body = stored(store, f"body {number}".encode())
    job = store.submit(submission(number, bodies=(body,)), FREE)
    claimed = queue.claim("w")
    assert claimed is not None
    succeed(queue, claimed.job, bytes([number]) * size)
    at = time.time() - age_seconds
    with store.database.writing() as connection:
        connection.execute(update(JOBS).where(JOBS.c.id == job.id).values(finished_at=at))
        connection.execute(update(RESULTS).where(RESULTS.c.natural_key == f"key{number}").values(used_at=at))
        connection.execute(update(CONTENTS).values(created_at=0.0))
    return job.id


def contents(store: JobStore) -> int:
    with store.database.reading() as connection:
        return len(connection.execute(select(CONTENTS.c.id)).all())


def test_old_jobs_go_with_their_bytes_and_events(store: JobStore) -> None:
    old, young = finished(store, 1, KEPT + 5), finished(store, 2, KEPT - 500)
    waiting = store.submit(submission(3), FREE)
    sweep(store)
    with pytest.raises(NotFoundError):
        store.job(old, "ann")
    assert store.job(young, "ann").id == young
    assert store.job(waiting.id, "ann").id == waiting.id
    assert contents(store) == 2
    assert store.known("key1") is None
    assert store.known("key2") is not None
    with store.database.reading() as connection:
        assert connection.execute(select(EVENTS).where(EVENTS.c.job == old)).first() is None


def test_what_is_full_gives_up_no_more_than_it_must_and_nothing_that_has_just_ended(store: JobStore) -> None:
    old = [finished(store, number, 500.0 - number, size=1000) for number in range(40)]
    new = [finished(store, number, 5.0, size=1000) for number in range(40, 45)]
    with store.database.reading() as connection:
        taken = taken_bytes(connection)
    sweep(store, most_bytes=taken)
    kept = [job.id for job in store.jobs("ann", 200, None)][::-1]
    assert kept == [*old[-len(kept) + len(new) :], *new]
    assert len(kept) >= 30
    sweep(store, most_bytes=1)
    assert [job.id for job in store.jobs("ann", 200, None)][::-1] == new


def test_bytes_that_have_only_just_come_stay(store: JobStore) -> None:
    stored(store, b"on its way into a job")
    sweep(store)
    assert contents(store) == 1


def test_bytes_that_a_waiting_job_needs_stay(store: JobStore) -> None:
    body = stored(store, b"body")
    store.submit(submission(bodies=(body,)), FREE)
    with store.database.writing() as connection:
        connection.execute(update(CONTENTS).values(created_at=0.0))
    sweep(store)
    assert store.contents.get(body).size_bytes == 4


def test_a_store_that_is_nearly_full_gives_up_what_is_oldest(store: JobStore) -> None:
    kept = [finished(store, number, 100.0 - number, size=1000) for number in range(3)]
    with store.database.reading() as connection:
        taken = taken_bytes(connection)
    sweep(store, most_bytes=taken)
    with pytest.raises(NotFoundError):
        store.job(kept[0], "ann")
    with store.database.reading() as connection:
        assert taken_bytes(connection) < taken
