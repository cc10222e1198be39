"""What the store takes: every row is counted, nothing is taken beyond the limit, what was accepted can be finished."""

from __future__ import annotations

import os
import random
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from api.jobs.contents import PIECE_BYTES, TRANSACTION_PIECES
from api.jobs.database import Database
from api.jobs.queue import JobQueue
from api.jobs.records import Event, Job, State, Task
from api.jobs.retention import Retention
from api.jobs.room import CONTENT_BYTES, EVENTS_BYTES, JOB_BYTES, RESULT_BYTES, Room, held_for, taken_bytes
from api.jobs.store import JobStore, Quota
from api.jobs.tables import CONTENTS, EVENTS, JOBS, PIECES, RESULTS, TASKS
from api.problems import BusyError, NoRoomError
from optimizer.errors import TtoptError
from tests.api.jobs.test_store import FREE, source, submission, succeed

LIMIT = 20 * 10**6


def taken(database: Database) -> int:
    """What is counted, after it was compared with the rows."""
    with database.reading() as connection:
        counted = taken_bytes(connection)
        rows = (
            select(func.coalesce(func.sum(JOBS.c.row_bytes + JOBS.c.held_bytes), 0)),
            select(func.coalesce(func.sum(CONTENTS.c.stored_bytes + CONTENT_BYTES), 0)),
            select(func.coalesce(func.sum(func.length(RESULTS.c.facts) + RESULT_BYTES), 0)),
        )
        assert counted == sum(int(connection.execute(part).scalar_one()) for part in rows)
    return counted


def lying(database: Database) -> int:
    """Bytes of bodies, answers, texts and events that lie in the store."""
    texts = [TASKS.c.task, *(JOBS.c[name] for name in ("name", "facts", "problem", "incumbent"))]
    with database.reading() as connection:
        parts = [func.length(PIECES.c.data), func.length(EVENTS.c.data), func.length(RESULTS.c.facts)]
        parts += [func.length(text) for text in texts]
        return sum(int(connection.execute(select(func.coalesce(func.sum(part), 0))).scalar_one()) for part in parts)


def post(store: JobStore, data: bytes, number: int = 0, quota: Quota = FREE, **fields: object) -> Job:
    with source(data) as body:
        return store.take_in(submission(number, **fields), [body], quota)


def queue_of(database: Database, room: Room) -> JobQueue:
    return JobQueue(database, lease_seconds=60, most_attempts=3, room=room)


def test_every_row_is_counted_whatever_happens(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.jobs.retention.FRESH_SECONDS", -1.0)
    monkeypatch.setattr("api.jobs.queue.LONGEST_AFTER_KILL_SECONDS", 0.0)
    room = Room(3 * 10**6)
    store, queue = JobStore(database, room), queue_of(database, room)
    draw, running = random.Random(5), []
    assert taken(database) == 0
    for step in range(100):
        number = draw.randrange(6)
        jobs = store.jobs("ann", 50, None)
        some = draw.choice(jobs) if jobs else None
        act = draw.choice(("post", "post", "claim", "claim", "note", "end", "end", "cancel", "retry", "sweep"))
        with suppress(TtoptError):
            if act == "post":
                post(store, bytes([number]) * draw.randrange(1, 9000), number, name=f"n{step}")
            elif act == "claim" and (found := queue.claim("w")) is not None:
                running.append(found.job)
            elif act == "note" and running:
                queue.note(running[-1], [Event(step + 1, "incumbent", {"gap": None, "x": "y" * draw.randrange(500)})])
            elif act == "end" and running:
                job = running.pop()
                draw.choice(
                    (
                        lambda job=job: succeed(queue, job, os.urandom(draw.randrange(1, 200_000))),
                        lambda job=job: succeed(queue, job, b"again", repeatable=False),
                        lambda job=job: queue.fail(job, {"code": "x", "alternatives": ["y" * 99] * 999}),
                        lambda job=job: queue.cancelled(job),
                        lambda job=job: queue.lost(job, crashed=False),
                        lambda job=job: queue.give_back(job),
                    )
                )()
            elif act == "cancel" and some:
                store.cancel(some.id, "ann")
            elif act == "retry" and some:
                store.retry(some.id, "ann", FREE)
            elif act == "sweep":
                Retention(database, room, -1.0 if draw.random() < 0.3 else 1000.0).sweep()
        assert lying(database) <= taken(database) <= room.most_bytes
    for job in running:
        queue.cancelled(job)
    for job in store.jobs("ann", 200, None):
        store.cancel(job.id, "ann")
    Retention(database, room, -1.0).sweep()
    assert taken(database) == 0


@pytest.mark.parametrize(
    "size", [1, 5000, PIECE_BYTES, TRANSACTION_PIECES * PIECE_BYTES, (TRANSACTION_PIECES + 1) * PIECE_BYTES]
)
def test_full_to_the_byte(database: Database, size: int) -> None:
    data = os.urandom(size)
    free = JobStore(database)
    post(free, data)
    needed = taken(database)
    assert needed >= size + held_for(size) + JOB_BYTES + CONTENT_BYTES
    with database.writing() as connection:
        connection.execute(JOBS.delete())
        connection.execute(CONTENTS.delete())
        Room().change(connection, -needed)
    with pytest.raises(NoRoomError) as refused:
        post(JobStore(database, Room(needed - 1)), data)
    assert (refused.value.http_status, refused.value.code, refused.value.limit) == (503, "no-store", needed - 1)
    assert (taken(database), lying(database)) == (0, 0)
    assert post(JobStore(database, Room(needed)), data).state is State.QUEUED
    assert taken(database) == needed


@pytest.mark.parametrize("size", [1, 1000, 2100, 2500, 4200, 20_000])
def test_a_file_grows_by_no_more_than_is_counted(tmp_path: Path, size: int) -> None:
    file = tmp_path / "jobs.sqlite"
    database = Database(f"sqlite:///{file}")
    database.migrate()
    store, queue, empty = JobStore(database), queue_of(database, Room()), on_disk(database, file)
    for number in range(30):
        task = Task("optimize", options={"board": "n150", "seed": number, "other": "x" * size})
        names = {"task": task, "natural_key": f"{number:064}", "fingerprint": "f" * 64, "request_id": "r" * 64}
        post(store, os.urandom(size), number, idempotency_key=f"{number:0255}", **names)
        claim = queue.claim("w" * 64)
        assert claim is not None
        succeed(queue, claim.job, os.urandom(size))
    assert on_disk(database, file) - empty <= taken(database)
    database.close()


def on_disk(database: Database, file: Path) -> int:
    """Size of a store's file with all that is committed."""
    with database.reading() as connection:
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.exec_driver_sql("BEGIN")
    return file.stat().st_size


def test_many_clients_at_once_take_no_more_than_there_is(database: Database) -> None:
    """30 of them, bodies of all sizes; whatever is accepted is done afterwards in the full store."""
    room = Room(LIMIT)
    store, queue = JobStore(database, room), queue_of(database, room)
    accepted: list[str] = []
    most: list[int] = []
    stop = threading.Event()

    def client(name: int) -> None:
        draw = random.Random(name)
        for number in range(4):
            body = draw.randbytes(draw.choice((100, 20_000, 400_000, 1_500_000)))
            with suppress(NoRoomError):
                accepted.append(post(store, body, 100 * name + number).id)

    def watch() -> None:
        while not stop.wait(0.01):
            with database.reading() as connection:
                most.append(taken_bytes(connection))
            most.append(lying(database))

    clients = [threading.Thread(target=client, args=(name,)) for name in range(30)]
    watcher = threading.Thread(target=watch)
    for thread in (*clients, watcher):
        thread.start()
    for thread in clients:
        thread.join()
    stop.set()
    watcher.join()
    assert 0.9 * LIMIT < max([*most, taken(database)]) <= LIMIT
    assert len(accepted) < 30 * 4
    while (claim := queue.claim("w")) is not None:
        assert succeed(queue, claim.job, os.urandom(50_000)) == [claim.job.id]
    assert {job.state for job in store.jobs("ann", 200, None)} == {State.SUCCEEDED}
    assert {job.id for job in store.jobs("ann", 200, None)} == set(accepted)


def test_what_is_refused_leaves_nothing_behind(database: Database) -> None:
    store = JobStore(database, Room(LIMIT))
    first = post(store, b"body", idempotency_key="k")
    before = taken(database)
    with pytest.raises(BusyError):
        post(store, b"other body", 1, Quota(of_all=1))
    with pytest.raises(NoRoomError):
        post(JobStore(database, Room(before + held_for(0))), os.urandom(5000), 2)
    with pytest.raises(TtoptError, match="idempotency key"):
        post(store, b"third body", 3, idempotency_key="k")
    assert post(store, b"body", idempotency_key="k").id == first.id
    assert (taken(database), len(store.jobs("ann", 9, None))) == (before, 1)
    with database.reading() as connection:
        assert connection.execute(select(func.count()).select_from(CONTENTS)).scalar_one() == 1


def test_an_answer_beyond_what_was_held_for_it(database: Database) -> None:
    post(JobStore(database), b"body")
    full = Room(taken(database))
    claim = queue_of(database, full).claim("w")
    assert claim is not None
    answer = os.urandom(2 * held_for(4))
    with pytest.raises(NoRoomError):
        succeed(queue_of(database, full), claim.job, answer)
    assert JobStore(database).job(claim.job.id, "ann").state is State.RUNNING
    assert taken(database) == full.most_bytes
    assert succeed(queue_of(database, Room(full.most_bytes + len(answer))), claim.job, answer) == [claim.job.id]


def test_events_take_no_more_than_was_held_for_them(database: Database) -> None:
    store, queue = JobStore(database), queue_of(database, Room())
    job = post(store, b"body")
    claim = queue.claim("w")
    assert claim is not None
    for number in range(1, 130):
        queue.note(claim.job, [Event(number, "stage", {"stage": f"s{number}", "fraction": 0.5, "detail": "x" * 1000})])
    with database.reading() as connection:
        size = connection.execute(select(func.sum(func.length(EVENTS.c.data)))).scalar_one()
    assert 0.8 * EVENTS_BYTES < size <= EVENTS_BYTES
    assert store.job(job.id, "ann").stage == "s129"


def test_bodies_that_vanish_before_their_job_names_them_are_stored_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JobStore(database)
    submit = store.submit
    vanished = []

    def late(*arguments: object) -> Job:
        if not vanished:
            with database.writing() as connection:
                vanished.append(connection.execute(select(CONTENTS.c.id)).scalar_one())
                connection.execute(update(CONTENTS).values(created_at=1.0))
            Retention(database, Room(), 1000.0).sweep()
        return submit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "submit", late)
    job = post(store, b"body")
    assert store.contents.get(store.bodies(job.id)[0]).size_bytes == 4
    assert store.bodies(job.id) != tuple(vanished)
    assert taken(database) > 0
