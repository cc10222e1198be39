"""Jobs as clients see them, on SQLite and on PostgreSQL."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import delete

from api.jobs.contents import PIECE_BYTES, TRANSACTION_PIECES, Source, unpacked
from api.jobs.database import Database
from api.jobs.queue import JobQueue
from api.jobs.records import Job, State, Submission, Task
from api.jobs.store import JobStore, Quota
from api.jobs.tables import METADATA, PIECES
from api.problems import BusyError, ConflictError, GoneError, KeyReusedError, NotFoundError
from optimizer.errors import OptionError

FREE = Quota()


def submission(number: int = 0, **fields: object) -> Submission:
    task = Task("optimize", options={"board": "n150", "seed": number})
    made = Submission("ann", task, f"key{number}", fingerprint=f"print{number}")
    return replace(made, **fields)  # type: ignore[arg-type]


@pytest.fixture
def store(database: Database) -> JobStore:
    return JobStore(database)


@pytest.fixture
def queue(database: Database) -> JobQueue:
    return JobQueue(database, lease_seconds=60, most_attempts=3)


@contextmanager
def source(data: bytes, compress: bool = False) -> Iterator[Source]:
    """Bytes in a file, as they are to be stored."""
    with tempfile.TemporaryFile(buffering=0) as file, tempfile.TemporaryFile(buffering=0) as packed:
        file.write(data)
        yield Source.packed(file.fileno(), packed.fileno()) if compress else Source.plain(file.fileno())


def stored(store: JobStore, data: bytes, compress: bool = False) -> str:
    with source(data, compress) as given:
        return store.contents.put(given)[0].id


def succeed(queue: JobQueue, job: Job, answer: bytes = b"result", repeatable: bool = True) -> list[str]:
    """Finish a job with this answer."""
    with source(answer) as given:
        return queue.succeed(job, given, {"media_type": "text/plain"}, repeatable)


def done(store: JobStore, queue: JobQueue, repeatable: bool = True) -> Job:
    """Work on the next job."""
    claimed = queue.claim("w")
    assert claimed is not None
    assert claimed.job.id in succeed(queue, claimed.job, repeatable=repeatable)
    return store.job(claimed.job.id, claimed.job.owner)


# -- the tables ----------------------------------------------------------------------------------------
def test_the_migrations_make_the_tables_that_the_code_uses(database: Database) -> None:
    with database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    database.check_version()
    database.migrate()


def test_a_store_of_another_version_is_not_worked_on(database_url: str) -> None:
    opened = Database(database_url)
    with pytest.raises(OptionError, match="ttopt serve"):
        opened.check_version()
    opened.close()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://a/b", "nonsense"])
def test_what_is_no_store_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(OptionError) as refused:
        Database(url + ("?password=secret" if "//a" in url else ""))
    assert "secret" not in str(refused.value)


# -- submitting ------------------------------------------------------------------------------------------
def test_a_job_keeps_what_was_asked(store: JobStore) -> None:
    asked = submission(3, name="net", priority=2, request_id="r1")
    job = store.submit(asked, FREE)
    assert (job.state, job.kind, job.name, job.priority, job.request_id) == ("queued", "optimize", "net", 2, "r1")
    assert (job.board, job.policy) == ("n150", None)
    assert store.job(job.id, "ann") == job


def test_nobody_finds_the_jobs_of_others(store: JobStore) -> None:
    job = store.submit(submission(), FREE)
    for act in (store.job, store.cancel, partial(store.retry, quota=FREE)):
        with pytest.raises(NotFoundError):
            act(job.id, "bob")
    assert store.jobs("bob", 10, None, ()) == []
    assert store.job(job.id, "ann").state is State.QUEUED


def test_an_idempotency_key_stands_for_one_job(store: JobStore) -> None:
    first = store.submit(submission(idempotency_key="k"), FREE)
    assert store.submit(submission(idempotency_key="k"), FREE).id == first.id
    assert store.submit(submission(idempotency_key="k", owner="bob"), FREE).id != first.id
    with pytest.raises(KeyReusedError):
        store.submit(submission(1, idempotency_key="k"), FREE)


def test_an_idempotency_key_stands_for_one_job_in_a_race(store: JobStore) -> None:
    ids: list[str] = []
    barrier = threading.Barrier(6)

    def post() -> None:
        barrier.wait()
        ids.append(store.submit(submission(idempotency_key="k"), FREE).id)

    threads = [threading.Thread(target=post) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 6
    assert len(set(ids)) == 1


def test_quotas(store: JobStore) -> None:
    store.submit(submission(1), Quota(of_all=2, of_owner=1))
    with pytest.raises(BusyError, match="this key"):
        store.submit(submission(2), Quota(of_all=2, of_owner=1))
    store.submit(submission(3, owner="bob"), Quota(of_all=2, of_owner=1))
    with pytest.raises(BusyError, match="queue is full"):
        store.submit(submission(4, owner="eve"), Quota(of_all=2))


# -- results by natural key ------------------------------------------------------------------------------
def test_an_equal_request_has_its_result_at_once(store: JobStore, queue: JobQueue) -> None:
    store.submit(submission(), FREE)
    first = done(store, queue)
    again = store.submit(submission(owner="bob"), FREE)
    assert (again.state, again.result, again.attempts) == (State.SUCCEEDED, first.result, 0)


def test_a_result_that_time_cut_short_is_nobody_elses(store: JobStore, queue: JobQueue) -> None:
    store.submit(submission(), FREE)
    done(store, queue, repeatable=False)
    assert store.submit(submission(), FREE).state is State.QUEUED


def test_equal_jobs_are_worked_on_once(store: JobStore, queue: JobQueue) -> None:
    first, second = (store.submit(submission(owner=owner), FREE) for owner in ("ann", "bob"))
    claimed = queue.claim("w")
    assert claimed is not None
    assert queue.claim("w") is None
    assert succeed(queue, claimed.job) == [first.id, second.id]
    assert store.job(second.id, "bob").result == store.job(first.id, "ann").result


# -- lists -----------------------------------------------------------------------------------------------
def test_pages_of_jobs_hold_each_once_newest_first(store: JobStore) -> None:
    made = [store.submit(submission(n), FREE) for n in range(7)]
    found: list[Job] = []
    place = None
    while page := store.jobs("ann", 3, place, ()):
        found += page
        place = page[-1].created_at, page[-1].id
    assert [job.id for job in found] == [
        job.id for job in sorted(made, key=lambda j: (j.created_at, j.id), reverse=True)
    ]
    assert store.jobs("ann", 10, None, (State.FAILED,)) == []


# -- cancelling and trying again -------------------------------------------------------------------------
def test_a_waiting_job_is_cancelled_at_once(store: JobStore, queue: JobQueue) -> None:
    job = store.submit(submission(), FREE)
    assert store.cancel(job.id, "ann").state is State.CANCELLED
    assert queue.claim("w") is None


def test_a_running_job_is_cancelled_by_its_worker(store: JobStore, queue: JobQueue) -> None:
    store.submit(submission(), FREE)
    claimed = queue.claim("w")
    assert claimed is not None
    job = store.cancel(claimed.job.id, "ann")
    assert job.state is State.RUNNING
    assert queue.renew([str(job.lease)]) == {job.lease: True}
    assert queue.cancelled(claimed.job)
    assert store.job(job.id, "ann").state is State.CANCELLED
    assert store.cancel(job.id, "ann").state is State.CANCELLED


def test_a_job_that_ended_badly_can_run_again(store: JobStore, queue: JobQueue) -> None:
    job = store.submit(submission(), FREE)
    with pytest.raises(ConflictError):
        store.retry(job.id, "ann", FREE)
    claimed = queue.claim("w")
    assert claimed is not None
    queue.fail(claimed.job, {"code": "internal"})
    assert store.job(job.id, "ann").problem == {"code": "internal"}
    again = store.retry(job.id, "ann", FREE)
    assert (again.state, again.attempts, again.problem) == (State.QUEUED, 0, None)


# -- contents --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize(
    "size", [0, 1, PIECE_BYTES, TRANSACTION_PIECES * PIECE_BYTES, (TRANSACTION_PIECES + 1) * PIECE_BYTES + 5]
)
def test_bytes_come_back_as_they_were(store: JobStore, size: int, compress: bool) -> None:
    data = os.urandom(size)
    content = store.contents.get(stored(store, data, compress))
    pieces = list(store.contents.stored_pieces(content.id))
    assert max(map(len, pieces), default=0) <= PIECE_BYTES
    assert (sum(map(len, pieces)), content.size_bytes) == (content.stored_bytes, size)
    assert b"".join(unpacked(iter(pieces), content.encoding)) == data
    with tempfile.TemporaryFile(buffering=0) as file:
        store.contents.restore(content.id, file.fileno())
        file.seek(0)
        assert file.read() == data


def test_equal_bytes_are_stored_once(store: JobStore) -> None:
    assert stored(store, b"same") == stored(store, b"same")
    assert stored(store, b"same") != stored(store, b"other")


def test_a_small_stored_result_that_unpacks_to_much_comes_in_pieces(store: JobStore) -> None:
    content = store.contents.get(stored(store, bytes(20 * PIECE_BYTES), compress=True))
    assert content.stored_bytes < PIECE_BYTES
    pieces = list(unpacked(store.contents.stored_pieces(content.id), content.encoding))
    assert max(map(len, pieces)) <= PIECE_BYTES
    assert sum(map(len, pieces)) == 20 * PIECE_BYTES


def test_bytes_that_are_gone_are_told(store: JobStore) -> None:
    with pytest.raises(GoneError):
        store.contents.get("0" * 32)


def test_a_body_that_is_deleted_while_it_is_read_is_none(store: JobStore) -> None:
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(os.urandom(PIECE_BYTES + 1))
        content, _ = store.contents.put(Source.plain(file.fileno()))
        with store.database.writing() as connection:
            connection.execute(delete(PIECES).where(PIECES.c.number == 1))
        with pytest.raises(GoneError, match="deleted while it was read"):
            store.contents.restore(content.id, file.fileno())


def test_a_retry_counts_as_an_open_job(store: JobStore) -> None:
    first = store.submit(submission(), FREE)
    store.cancel(first.id, "ann")
    store.submit(submission(natural_key="other"), FREE)
    with pytest.raises(BusyError):
        store.retry(first.id, "ann", Quota(of_owner=1))
    assert store.job(first.id, "ann").state is State.CANCELLED
    assert store.retry(first.id, "ann", Quota(of_owner=2)).state is State.QUEUED


def test_a_store_of_a_newer_version_is_refused(store: JobStore) -> None:
    with store.database.writing() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    for act in (store.database.migrate, store.database.check_version):
        with pytest.raises(OptionError, match="version 9999, made by a newer ttopt"):
            act()
