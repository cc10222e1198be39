"""Leases: whoever lost one changes nothing any more."""

from __future__ import annotations

import threading
import time

import pytest

from api.jobs.database import Database
from api.jobs.queue import KILLS_PER_CRASH, JobQueue
from api.jobs.records import Claim, Event, Job, State
from api.jobs.store import JobStore, Quota
from tests.api.jobs.test_store import FREE, submission, succeed

ATTEMPTS = 3


@pytest.fixture
def store(database: Database) -> JobStore:
    return JobStore(database)


@pytest.fixture
def queue(database: Database) -> JobQueue:
    return JobQueue(database, lease_seconds=60, most_attempts=ATTEMPTS)


def claimed(queue: JobQueue, worker: str = "w") -> Job:
    found = queue.claim(worker)
    assert found is not None
    return found.job


def test_the_highest_priority_goes_first_then_the_oldest(store: JobStore, queue: JobQueue) -> None:
    made = [store.submit(submission(n, priority=p), FREE) for n, p in enumerate((0, 5, 0, 5))]
    assert [claimed(queue).id for _ in made] == [made[n].id for n in (1, 3, 0, 2)]
    assert queue.claim("w") is None


def test_two_workers_never_get_the_same_job(store: JobStore, queue: JobQueue) -> None:
    made = {store.submit(submission(n), FREE).id for n in range(12)}
    found: list[str] = []

    def work(name: str) -> None:
        while job := queue.claim(name):
            found.append(job.job.id)

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(made)


def test_of_equal_jobs_one_is_worked_on(store: JobStore, queue: JobQueue) -> None:
    for number in range(8):
        for _ in range(4):
            store.submit(submission(number), FREE)
        found, barrier = [], threading.Barrier(4)

        def work(barrier: threading.Barrier = barrier, found: list[Claim | None] = found) -> None:
            barrier.wait()
            found.append(queue.claim("w"))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len([job for job in found if job is not None]) == 1


def test_a_job_whose_result_has_come_meanwhile_is_not_worked_on(store: JobStore, queue: JobQueue) -> None:
    again = store.submit(submission(idempotency_key="again"), FREE)
    store.cancel(again.id, "ann")
    store.submit(submission(), FREE)
    succeed(queue, claimed(queue))
    result = store.jobs("ann", 1, None)[0].result
    store.retry(again.id, "ann", FREE)
    assert queue.claim("w") is None
    found = store.job(again.id, "ann")
    assert (found.state, found.result, found.attempts) == (State.SUCCEEDED, result, 0)


def test_a_worker_that_comes_back_late_changes_nothing(store: JobStore, database: Database) -> None:
    hasty = JobQueue(database, lease_seconds=0, most_attempts=ATTEMPTS)
    store.submit(submission(), FREE)
    late = claimed(hasty)
    time.sleep(0.01)
    assert hasty.expire() == [late.id]
    now = claimed(hasty, "other")
    assert hasty.renew([str(late.lease)]) == {}
    assert succeed(hasty, late) == []
    assert not hasty.fail(late, {"code": "x"})
    assert not hasty.cancelled(late)
    assert not hasty.lost(late, crashed=True)
    assert not hasty.give_back(late)
    hasty.note(late, [Event(1, "stage", {"stage": "late", "fraction": 0.5})])
    assert store.events(late.id, 0) == []
    assert succeed(hasty, now) == [now.id]


def test_a_job_whose_workers_die_is_parked_in_the_end(store: JobStore, queue: JobQueue) -> None:
    job = store.submit(submission(), FREE)
    for attempt in range(1, ATTEMPTS + 1):
        running = claimed(queue)
        assert running.attempts == attempt
        assert queue.lost(running, crashed=True)
    parked = store.job(job.id, "ann")
    assert parked.state is State.FAILED
    assert parked.problem is not None
    assert (parked.problem["code"], parked.problem["limit"]) == ("parked", ATTEMPTS)
    assert queue.claim("w") is None
    store.retry(job.id, "ann", Quota())
    assert claimed(queue).attempts == 1


def test_a_job_whose_processes_are_killed_is_tried_for_longer(
    store: JobStore, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.jobs.queue.LONGEST_AFTER_KILL_SECONDS", 0.0)
    job = store.submit(submission(), FREE)
    for _ in range(KILLS_PER_CRASH * ATTEMPTS - 1):
        assert queue.lost(claimed(queue), crashed=False)
    assert store.job(job.id, "ann").state is State.QUEUED
    claimed(queue, "dead")
    assert queue.expire("dead") == [job.id]
    assert store.job(job.id, "ann").state is State.FAILED


def test_a_job_that_is_given_back_has_not_been_tried(store: JobStore, queue: JobQueue) -> None:
    store.submit(submission(), FREE)
    assert queue.give_back(claimed(queue))
    assert claimed(queue).attempts == 1


def test_the_jobs_of_a_dead_worker_are_taken_back_before_their_leases_end(store: JobStore, queue: JobQueue) -> None:
    store.submit(submission(1), FREE)
    store.submit(submission(2), FREE)
    of_dead, of_living = claimed(queue, "dead"), claimed(queue, "living")
    assert queue.expire() == []
    assert queue.expire("dead") == [of_dead.id]
    assert store.job(of_living.id, "ann").state is State.RUNNING


def test_a_job_that_was_to_be_cancelled_is_not_tried_again(store: JobStore, queue: JobQueue) -> None:
    store.submit(submission(), FREE)
    running = claimed(queue)
    store.cancel(running.id, "ann")
    assert queue.lost(running, crashed=True)
    assert store.job(running.id, "ann").state is State.CANCELLED


def test_events_are_kept_in_order_and_go_on_after_a_loss(store: JobStore, queue: JobQueue) -> None:
    store.submit(submission(), FREE)
    running = claimed(queue)
    queue.note(running, [Event(1, "stage", {"stage": "import", "fraction": 0.1}), Event(2, "incumbent", {"gap": None})])
    queue.lost(running, crashed=True)
    again = queue.claim("w")
    assert again is not None
    assert again.last_event == 2
    queue.note(again.job, [Event(3, "stage", {"stage": "policy", "fraction": 0.6})])
    assert [event.number for event in store.events(running.id, 1)] == [2, 3]
    job = store.job(running.id, "ann")
    assert (job.stage, job.fraction, job.incumbent) == ("policy", 0.6, {"gap": None})


def test_only_living_workers_count_as_warm(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = JobQueue(database, lease_seconds=60, most_attempts=1)
    queue.beat("a", slots=2, warm=1, lost=0)
    queue.beat("b", slots=2, warm=2, lost=0)
    assert queue.warm_slots() == 3
    later = database.now() + 61
    monkeypatch.setattr(database, "now", lambda: later)
    assert queue.warm_slots() == 0
    queue.beat("a", slots=2, warm=2, lost=0)
    assert queue.warm_slots() == 2
    queue.leave("a")
    assert queue.warm_slots() == 0
