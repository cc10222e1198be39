"""Rows that do not say what they should are one job's misfortune: others are listed, worked on and cleaned up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from api.jobs.database import Database
from api.jobs.documents import job_document
from api.jobs.queue import JobQueue
from api.jobs.records import Event, State
from api.jobs.retention import Retention
from api.jobs.room import Room
from api.jobs.store import JobStore
from api.metrics import Metrics
from api.problems import GoneError, NotFoundError
from tests.api.jobs.test_store import FREE, done, stored, submission, succeed

GARBAGE: tuple[Any, ...] = (
    "", "garbage", "{", "[]", "null", "17", '{"x": ', '{"kind": "optimize"}', '{"permissions": 3}', b"\xff\x00", -1,
    10**18, 1e300, '"\\ud800"', "[" * 5000, "\x00", '{"status": "x"}', '{"code": 7}',
)  # fmt: skip


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """SQLite, which lets anything lie in any column."""
    opened = Database(f"sqlite:///{tmp_path / 'jobs.sqlite'}")
    opened.migrate()
    yield opened
    opened.close()


@pytest.fixture
def store(database: Database) -> JobStore:
    return JobStore(database)


@pytest.fixture
def queue(database: Database) -> JobQueue:
    return JobQueue(database, lease_seconds=60, most_attempts=3)


def spoil(database: Database, place: str, values: dict[str, Any], key: str = "id") -> None:
    """Put something into a column, `table.column`, of the rows with these keys, whatever its type."""
    table, _, column = place.partition(".")
    with database.writing() as connection:
        for name, value in values.items():
            connection.exec_driver_sql(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (value, name))


def look(database: Database, store: JobStore) -> None:
    """What clients ask of all jobs, and whatever the service does by itself."""
    for document in map(job_document, store.jobs("ann", 200, None)):
        document.model_dump_json()
        store.page(document.id, 0)
        store.job(document.id, "ann")
    store.marks([job.id for job in store.jobs("ann", 200, None)])
    store.counts()
    Metrics().observe(store, database, 0, 0)
    JobQueue(database, 60, 3).expire()
    store.recount()
    Retention(database, Room(), 1000.0).sweep()
    Retention(database, Room(100), 1000.0).sweep()


def test_a_damaged_task_is_its_workers_affair_alone(database: Database, store: JobStore, queue: JobQueue) -> None:
    """Lists and polls do not look at it: it may be long."""
    job = store.submit(submission(1), FREE).id
    spoil(database, "tasks.task", {job: "garbage"}, "job")
    assert [shown.state for shown in (*store.jobs("ann", 9, None), store.job(job, "ann"))] == [State.QUEUED] * 2
    assert queue.claim("w") is None
    assert store.job(job, "ann").state is State.FAILED


@pytest.mark.parametrize("column", [
    "task", "kind", "board", "incumbent", "stage", "fraction", "attempts", "facts", "started_at", "held_bytes",
    "row_bytes", "name", "priority", "natural_key",
])  # fmt: skip
def test_damaged_jobs_at_the_head_of_the_queue(
    database: Database, store: JobStore, queue: JobQueue, column: str
) -> None:
    spoiled = {store.submit(submission(n, priority=10), FREE).id: value for n, value in enumerate(GARBAGE)}
    healthy = store.submit(submission(99), FREE).id
    table, key = ("tasks", "job") if column == "task" else ("jobs", "id")
    spoil(database, f"{table}.{column}", spoiled, key)
    look(database, store)
    while (claim := queue.claim("w")) is not None:
        if claim.job.id in spoiled:
            queue.fail(claim.job, {"code": "internal"})
        else:
            assert succeed(queue, claim.job) == [healthy]
    assert store.job(healthy, "ann").state is State.SUCCEEDED
    assert {store.job(job, "ann").state for job in spoiled} == {State.FAILED}
    look(database, store)


@pytest.mark.parametrize("column", [
    "state", "created_at", "finished_at", "problem", "facts", "result", "attempts", "lease_ends_at", "cancel_asked",
])  # fmt: skip
@pytest.mark.parametrize("is_running", [False, True])
@pytest.mark.slow
def test_damaged_jobs_among_others(
    database: Database, store: JobStore, queue: JobQueue, column: str, is_running: bool
) -> None:
    spoiled = {}
    for number, value in enumerate(GARBAGE):
        store.submit(submission(number), FREE)
        claim = queue.claim("w")
        assert claim is not None
        spoiled[claim.job.id] = value
        if not is_running:
            succeed(queue, claim.job)
    spoil(database, f"jobs.{column}", spoiled)
    look(database, store)
    queue.expire("w")
    waiting = store.submit(submission(99, priority=10), FREE).id
    claim = queue.claim("w")
    assert claim is not None
    assert claim.job.id == waiting
    for job in spoiled:
        with suppress(NotFoundError):  # what has ended is gone where there is no room
            store.cancel(job, "ann")
    look(database, store)


@pytest.mark.parametrize("place", [
    "events.data", "events.number", "events.kind", "results.facts", "results.used_at", "contents.stored_bytes",
    "contents.encoding", "contents.created_at",
])  # fmt: skip
def test_other_damaged_rows(database: Database, store: JobStore, queue: JobQueue, place: str) -> None:
    keys, jobs = {}, []
    for number, value in enumerate(GARBAGE):
        body = stored(store, f"body {number}".encode())
        jobs.append(store.submit(submission(number, bodies=(body,)), FREE).id)
        claim = queue.claim("w")
        assert claim is not None
        queue.note(claim.job, [Event(n, "stage", {"stage": "s", "fraction": 0.1}) for n in (1, 2)])
        succeed(queue, claim.job, f"answer {number}".encode())
        keys[{"events": jobs[-1], "results": f"key{number}", "contents": body}[place.partition(".")[0]]] = value
    spoil(
        database,
        place,
        keys,
        {"events": "number = 1 AND job", "results": "natural_key"}.get(place.partition(".")[0], "id"),
    )
    for number, job in enumerate(jobs):
        store.known(f"key{number}")
        assert store.submit(submission(number), FREE).state in (State.QUEUED, State.SUCCEEDED)
        assert 2 in [event.number for event in store.events(job, 0)]
    look(database, store)


@pytest.mark.parametrize("spoiled", [b"", b"\x1f\x8b", b"x" * 50])
def test_damaged_bytes_are_told(database: Database, store: JobStore, tmp_path: Path, spoiled: bytes) -> None:
    for compress in (False, True):
        content = stored(store, b"result" * 99 + bytes([compress]), compress)
        spoil(database, "pieces.data", {content: spoiled}, "content")
        with (tmp_path / "out").open("w+b", buffering=0) as file, pytest.raises(GoneError):
            store.contents.restore(content, file.fileno())


def test_a_damaged_known_result_is_made_anew(database: Database, store: JobStore, queue: JobQueue) -> None:
    store.submit(submission(1), FREE)
    done(store, queue)
    spoil(database, "results.facts", {"key1": "garbage"}, "natural_key")
    assert store.known("key1") is None
    assert store.submit(submission(1), FREE).state is State.QUEUED
    done(store, queue)
    assert store.known("key1") is not None
