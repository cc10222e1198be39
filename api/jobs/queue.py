"""Jobs as workers see them: leased, renewed, finished under that lease only.

A lease is a random word in the job's row. Whoever finishes a job names it, so a worker that was thought dead and comes
back changes nothing any more: what it did runs nowhere twice to the outside.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, func, insert, select, update

from api.jobs.contents import Contents, Source
from api.jobs.database import CLAIMING, Database
from api.jobs.identities import new_id
from api.jobs.records import Claim, Event, Job, State
from api.jobs.room import EVENT_BYTES, EVENTS_BYTES, OUTCOME_BYTES, RESULT_BYTES, Room, number_of
from api.jobs.rows import (
    FREED,
    add_events,
    bodies_of,
    end_jobs,
    events_bytes,
    job_of,
    job_query,
    known_outcome,
    last_event,
    task_of_row,
    text_of,
)
from api.jobs.tables import JOBS, RESULTS, WORKERS
from api.problems import INTERNAL, DamagedError, parked

log = logging.getLogger(__name__)

BACKOFF_FROM = 3
"""Attempts after which a job waits before the next one, twice as long each time."""
LONGEST_BACKOFF_SECONDS, LONGEST_AFTER_KILL_SECONDS = 60.0, 5.0
KILLS_PER_CRASH = 5
"""A process that somebody killed says little against its job: that many times as often it is tried again."""
PROBLEM_BYTES = OUTCOME_BYTES // 2
"""Of the problem that a job ends with; alternatives beyond that are left out."""


class JobQueue:
    """What workers do to the table of jobs."""

    def __init__(self, database: Database, lease_seconds: float, most_attempts: int, room: Room | None = None) -> None:
        """A job whose process crashed `most_attempts` times is parked: it fails, and stays to be looked at.

        `room`: what the store may take; without it there is no limit.
        """
        self._database = database
        self._room = room or Room()
        self._contents = Contents(database, self._room)
        self._lease_seconds = lease_seconds
        self._most_attempts = most_attempts

    def claim(self, worker: str) -> Claim | None:
        """Lease the next job; None if nothing waits.

        A job whose natural key is worked on already waits for that result; one whose result has come since it was
        queued is finished with it. One whose row is damaged fails.
        """
        running = JOBS.alias()
        same = exists().where(running.c.natural_key == JOBS.c.natural_key, running.c.state == State.RUNNING)
        while True:
            now = self._database.now()
            waiting = (
                select(JOBS.c.id, JOBS.c.natural_key)
                .where(JOBS.c.state == State.QUEUED, JOBS.c.not_before <= now, ~same)
                .order_by(JOBS.c.priority.desc(), JOBS.c.created_at, JOBS.c.id)
                .limit(1)
            )
            if not self._any(waiting):
                return None
            with self._database.writing() as connection:
                self._database.alone(connection, CLAIMING)
                found = connection.execute(waiting.with_for_update(skip_locked=True)).first()
                if found is None:
                    return None
                try:
                    if not self._finish_known(connection, *found):
                        return self._leased(connection, found[0], worker)
                except DamagedError as error:
                    log.error("a job fails: %s", error)  # noqa: TRY400 - the place is the row
                    end_jobs(connection, self._room, JOBS.c.id == found[0], self._failed(INTERNAL))

    def _finish_known(self, connection: Connection, job_id: str, natural_key: str) -> bool:
        """Finish a queued job with the result of an equal one; False: there is none."""
        row = connection.execute(select(RESULTS).where(RESULTS.c.natural_key == natural_key)).mappings().first()
        known = None if row is None else known_outcome(row)
        if known is None:
            return False
        done = {**self._succeeded(known.result, text_of(known.facts)), "started_at": self._database.now()}
        end_jobs(connection, self._room, JOBS.c.id == job_id, done)
        return True

    def _leased(self, connection: Connection, job_id: str, worker: str) -> Claim:
        now = self._database.now()
        mine = {"state": State.RUNNING, "worker": worker, "lease": new_id(), "started_at": now, "fraction": 0.0}
        connection.execute(
            update(JOBS)
            .where(JOBS.c.id == job_id)
            .values(**mine, lease_ends_at=now + self._lease_seconds, attempts=number_of(JOBS.c.attempts) + 1)
        )
        row = connection.execute(job_query().where(JOBS.c.id == job_id)).mappings().one()
        task, bodies = task_of_row(connection, job_id), bodies_of(connection, job_id)
        return Claim(job_of(row), task, bodies, last_event(connection, job_id))

    def _any(self, query: Any) -> bool:
        """Whether there is anything, without keeping others from writing."""
        with self._database.reading() as connection:
            return connection.execute(query).first() is not None

    def renew(self, leases: Collection[str]) -> dict[str, bool]:
        """Prolong leases: those that still hold, and whether each one's job is to be cancelled."""
        if not leases:
            return {}
        mine = and_(JOBS.c.lease.in_(leases), JOBS.c.state == State.RUNNING)
        with self._database.writing() as connection:
            connection.execute(
                update(JOBS).where(mine).values(lease_ends_at=self._database.now() + self._lease_seconds)
            )
            rows = connection.execute(select(JOBS.c.lease, JOBS.c.cancel_asked).where(mine))
            return {lease: bool(asked) for lease, asked in rows}

    def note(self, job: Job, events: list[Event]) -> None:
        """Keep events of a running job, as far as there is room for more of them, and what the last of each kind says
        in its row."""
        values: dict[str, Any] = {}
        for event in events:
            if event.kind == "stage":
                values |= {"stage": event.data["stage"], "fraction": event.data["fraction"]}
            elif event.kind == "incumbent":
                values["incumbent"] = text_of(dict(event.data))
        size = sum(len(text_of(event.data)) + EVENT_BYTES for event in events)
        with self._database.writing() as connection:
            if self._holds(connection, job):
                if events_bytes(connection, job.id) + size <= EVENTS_BYTES:
                    add_events(connection, job.id, events)
                if values:
                    connection.execute(update(JOBS).where(JOBS.c.id == job.id).values(values))

    def succeed(self, job: Job, answer: Source, facts: Mapping[str, Any], repeatable: bool) -> list[str]:
        """Finish a job with its answer, and those that wait for the same; ids of all. Empty: the lease is gone.

        `repeatable`: whether the same request gives the same answer again; a plan that was cut short by time is none.
        NoRoomError if the answer takes more than what was held for it, and there is no more.
        """
        told = text_of(dict(facts))
        with self._database.writing() as connection:
            if not self._holds(connection, job):
                return []
            content, added = self._contents.add(connection, answer)
            done, which = self._succeeded(content.id, told), JOBS.c.id == job.id
            if repeatable:
                added += self._know(connection, job.natural_key, content.id, told)
                # Those that have not begun: they begin and end now.
                done["started_at"] = func.coalesce(JOBS.c.started_at, self._database.now())
                which |= and_(JOBS.c.natural_key == job.natural_key, JOBS.c.state == State.QUEUED)
            return end_jobs(connection, self._room, which, done, added)

    def _know(self, connection: Connection, natural_key: str, content: str, facts: str) -> int:
        """Keep a result for requests to come; the bytes that this adds."""
        old = delete(RESULTS).where(RESULTS.c.natural_key == natural_key).returning(func.length(RESULTS.c.facts))
        freed = sum(int(size) + RESULT_BYTES for size in connection.execute(old).scalars())
        new = {"natural_key": natural_key, "content": content, "facts": facts, "used_at": self._database.now()}
        connection.execute(insert(RESULTS).values(new))
        return len(facts) + RESULT_BYTES - freed

    def _succeeded(self, result: str, facts: str) -> dict[str, Any]:
        now = self._database.now()
        return {"state": State.SUCCEEDED, "finished_at": now, "result": result, "facts": facts, "fraction": 1.0}

    def fail(self, job: Job, problem: Mapping[str, Any]) -> bool:
        """Finish a job with a problem; False if the lease is gone."""
        return self._end(job, self._failed(problem))

    def cancelled(self, job: Job) -> bool:
        """Finish a job that somebody wanted to end."""
        return self._end(job, self._cancelled())

    def lost(self, job: Job, crashed: bool) -> bool:
        """The process that worked on a job ended: it is tried again, or parked. `crashed`: nobody killed it."""
        with self._database.writing() as connection:
            asked = connection.execute(select(JOBS.c.cancel_asked).where(JOBS.c.id == job.id)).scalar()
            return self._after_loss(connection, self._held(job), job.attempts, bool(asked), crashed)

    def give_back(self, job: Job) -> bool:
        """Put a job back that was not worked on to its end, through no fault of its own."""
        with self._database.writing() as connection:
            back = {**FREED, "state": State.QUEUED, "attempts": job.attempts - 1}
            return connection.execute(update(JOBS).where(self._held(job)).values(back)).rowcount == 1

    def _end(self, job: Job, values: Mapping[str, Any]) -> bool:
        with self._database.writing() as connection:
            return bool(end_jobs(connection, self._room, self._held(job), values))

    @staticmethod
    def _held(job: Job) -> ColumnElement[bool]:
        """That a job is still ours: whoever changes a running job names its lease."""
        return and_(JOBS.c.id == job.id, JOBS.c.lease == job.lease, JOBS.c.state == State.RUNNING)

    def _holds(self, connection: Connection, job: Job) -> bool:
        """Whether the lease still holds; the row stays locked until the transaction ends."""
        query = select(JOBS.c.id).where(self._held(job)).with_for_update()
        return connection.execute(query).first() is not None

    def _after_loss(
        self, connection: Connection, which: ColumnElement[bool], attempts: int, cancel_asked: bool, crashed: bool
    ) -> bool:
        """Try a job again, or end it; False if it is not as `which` says any more."""
        if cancel_asked:
            return bool(end_jobs(connection, self._room, which, self._cancelled()))
        if attempts >= self._most_attempts * (1 if crashed else KILLS_PER_CRASH):
            return bool(end_jobs(connection, self._room, which, self._failed(parked(attempts))))
        longest = LONGEST_BACKOFF_SECONDS if crashed else LONGEST_AFTER_KILL_SECONDS
        wait = 0.0 if attempts < BACKOFF_FROM else min(2.0 ** (attempts - BACKOFF_FROM), longest)
        again = {**FREED, "state": State.QUEUED, "not_before": self._database.now() + wait}
        return connection.execute(update(JOBS).where(which).values(again)).rowcount == 1

    def _cancelled(self) -> dict[str, Any]:
        return {"state": State.CANCELLED, "finished_at": self._database.now()}

    def _failed(self, problem: Mapping[str, Any]) -> dict[str, Any]:
        text = text_of(dict(problem))
        if len(text) > PROBLEM_BYTES:
            text = text_of({**problem, "alternatives": _shortened(problem.get("alternatives", ()))})
        return {"state": State.FAILED, "finished_at": self._database.now(), "problem": text}

    # -- workers -----------------------------------------------------------------------------------------------
    def expire(self, worker: str | None = None) -> list[str]:
        """Take back jobs whose lease has ended, or all of a worker that is known to be dead; their ids."""
        of_dead = JOBS.c.lease_ends_at < self._database.now() if worker is None else JOBS.c.worker == worker
        attempts = number_of(JOBS.c.attempts)
        query = select(JOBS.c.id, attempts, JOBS.c.cancel_asked).where(JOBS.c.state == State.RUNNING, of_dead)
        with self._database.reading() as connection:
            if connection.execute(query).first() is None:
                return []
        with self._database.writing() as connection:
            found = connection.execute(query.with_for_update(skip_locked=True)).all()
            for job_id, tried, cancel_asked in found:
                self._after_loss(connection, JOBS.c.id == job_id, tried, bool(cancel_asked), crashed=False)
        return [job_id for job_id, *_ in found]

    def beat(self, worker: str, slots: int, warm: int, lost: int) -> None:
        """A worker lives: how many processes it has, how many of them have loaded what they need, how many ended."""
        row = {"slots": slots, "warm": warm, "lost": lost, "seen_at": self._database.now()}
        with self._database.writing() as connection:
            if not connection.execute(update(WORKERS).where(WORKERS.c.id == worker).values(row)).rowcount:
                connection.execute(insert(WORKERS).values(id=worker, **row))

    def leave(self, worker: str) -> None:
        """A worker has ended."""
        with self._database.writing() as connection:
            connection.execute(delete(WORKERS).where(WORKERS.c.id == worker))

    def warm_slots(self) -> int:
        """Processes of living workers that would take a job at once, or work on one."""
        query = select(WORKERS.c.warm).where(WORKERS.c.seen_at > self._database.now() - self._lease_seconds)
        with self._database.reading() as connection:
            return sum(connection.execute(query).scalars())


def _shortened(names: Sequence[str]) -> list[str]:
    """The first names, as many as fit into a problem beside its text."""
    sizes = accumulate(len(text_of(name)) + 1 for name in names)
    return [name for name, size in zip(names, sizes, strict=True) if size <= PROBLEM_BYTES // 2]
