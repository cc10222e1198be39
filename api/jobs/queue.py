"""Jobs as workers see them: leased, renewed, finished under that lease only.

A lease is a random word in the job's row. Whoever finishes a job names it, so a worker that was thought dead and comes
back changes nothing any more: what it did runs nowhere twice to the outside.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, and_, delete, exists, insert, select, update

from api.jobs.database import CLAIMING, Database
from api.jobs.identities import new_id
from api.jobs.records import Event, Job, Outcome, State
from api.jobs.rows import add_events, job_of, job_query, last_event, text_of
from api.jobs.tables import JOBS, RESULTS, WORKERS
from api.problems import parked

FREED = {"lease": None, "lease_ends_at": None, "worker": None}
BACKOFF_FROM = 3
"""Attempts after which a job waits before the next one, twice as long each time."""
LONGEST_BACKOFF_SECONDS, LONGEST_AFTER_KILL_SECONDS = 60.0, 5.0
KILLS_PER_CRASH = 5
"""A process that somebody killed says little against its job: that many times as often it is tried again."""


class JobQueue:
    """What workers do to the table of jobs."""

    def __init__(self, database: Database, lease_seconds: float, most_attempts: int) -> None:
        """A job whose process crashed `most_attempts` times is parked: it fails, and stays to be looked at."""
        self._database = database
        self._lease_seconds = lease_seconds
        self._most_attempts = most_attempts

    def claim(self, worker: str) -> tuple[Job, int] | None:
        """Lease the next job, and the number of its last event; None if nothing waits.

        A job whose natural key is worked on already waits for that result; one whose result has come since it was
        queued is finished with it.
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
                if not self._finish_known(connection, *found):
                    return self._leased(connection, found[0], worker)

    def _finish_known(self, connection: Connection, job_id: str, natural_key: str) -> bool:
        """Finish a queued job with the result of an equal one; False: there is none."""
        query = select(RESULTS.c.content, RESULTS.c.facts).where(RESULTS.c.natural_key == natural_key)
        known = connection.execute(query).first()
        if known is None:
            return False
        done = {**self._succeeded(*known), "started_at": self._database.now()}
        connection.execute(update(JOBS).where(JOBS.c.id == job_id).values(done))
        return True

    def _leased(self, connection: Connection, job_id: str, worker: str) -> tuple[Job, int]:
        now = self._database.now()
        mine = {"state": State.RUNNING, "worker": worker, "lease": new_id(), "started_at": now, "fraction": 0.0}
        connection.execute(
            update(JOBS)
            .where(JOBS.c.id == job_id)
            .values(**mine, lease_ends_at=now + self._lease_seconds, attempts=JOBS.c.attempts + 1)
        )
        row = connection.execute(job_query().where(JOBS.c.id == job_id)).mappings().one()
        return job_of(row), last_event(connection, job_id)

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
        """Keep events of a running job, and what the last of each kind says in its row."""
        values: dict[str, Any] = {}
        for event in events:
            if event.kind == "stage":
                values |= {"stage": event.data["stage"], "fraction": event.data["fraction"]}
            elif event.kind == "incumbent":
                values["incumbent"] = text_of(dict(event.data))
        with self._database.writing() as connection:
            if self._holds(connection, job):
                add_events(connection, job.id, events)
                if values:
                    connection.execute(update(JOBS).where(JOBS.c.id == job.id).values(values))

    def succeed(self, job: Job, outcome: Outcome) -> list[str]:
        """Finish a job with its result, and those that wait for the same; ids of all. Empty: the lease is gone."""
        facts = text_of(dict(outcome.facts))
        done = self._succeeded(outcome.result, facts)
        with self._database.writing() as connection:
            if not self._end(connection, job, done):
                return []
            if not outcome.repeatable:
                return [job.id]
            now = self._database.now()
            connection.execute(delete(RESULTS).where(RESULTS.c.natural_key == job.natural_key))
            connection.execute(
                insert(RESULTS).values(natural_key=job.natural_key, content=outcome.result, facts=facts, used_at=now)
            )
            same = and_(JOBS.c.natural_key == job.natural_key, JOBS.c.state == State.QUEUED)
            others = connection.execute(update(JOBS).where(same).values(**done, started_at=now).returning(JOBS.c.id))
            return [job.id, *others.scalars()]

    def _succeeded(self, result: str, facts: str) -> dict[str, Any]:
        now = self._database.now()
        return {"state": State.SUCCEEDED, "finished_at": now, "result": result, "facts": facts, "fraction": 1.0}

    def fail(self, job: Job, problem: Mapping[str, Any]) -> bool:
        """Finish a job with a problem; False if the lease is gone."""
        with self._database.writing() as connection:
            return self._end(connection, job, self._failed(problem))

    def cancelled(self, job: Job) -> bool:
        """Finish a job that somebody wanted to end."""
        with self._database.writing() as connection:
            return self._end(connection, job, self._cancelled())

    def lost(self, job: Job, crashed: bool) -> bool:
        """The process that worked on a job ended: it is tried again, or parked. `crashed`: nobody killed it."""
        with self._database.writing() as connection:
            asked = connection.execute(select(JOBS.c.cancel_asked).where(JOBS.c.id == job.id)).scalar()
            return self._end(connection, job, self._after_loss(job.attempts, bool(asked), crashed))

    def give_back(self, job: Job) -> bool:
        """Put a job back that was not worked on to its end, through no fault of its own."""
        with self._database.writing() as connection:
            return self._end(connection, job, {"state": State.QUEUED, "attempts": job.attempts - 1})

    def _end(self, connection: Connection, job: Job, values: Mapping[str, Any]) -> bool:
        held = and_(JOBS.c.id == job.id, JOBS.c.lease == job.lease, JOBS.c.state == State.RUNNING)
        return connection.execute(update(JOBS).where(held).values(**FREED, **values)).rowcount == 1

    @staticmethod
    def _holds(connection: Connection, job: Job) -> bool:
        """Whether the lease still holds; the row stays locked until the transaction ends."""
        query = select(JOBS.c.id).where(JOBS.c.id == job.id, JOBS.c.lease == job.lease).with_for_update()
        return connection.execute(query).first() is not None

    def _after_loss(self, attempts: int, cancel_asked: bool, crashed: bool) -> dict[str, Any]:
        if cancel_asked:
            return self._cancelled()
        if attempts >= self._most_attempts * (1 if crashed else KILLS_PER_CRASH):
            return self._failed(parked(attempts))
        longest = LONGEST_BACKOFF_SECONDS if crashed else LONGEST_AFTER_KILL_SECONDS
        wait = 0.0 if attempts < BACKOFF_FROM else min(2.0 ** (attempts - BACKOFF_FROM), longest)
        return {"state": State.QUEUED, "not_before": self._database.now() + wait}

    def _cancelled(self) -> dict[str, Any]:
        return {"state": State.CANCELLED, "finished_at": self._database.now()}

    def _failed(self, problem: Mapping[str, Any]) -> dict[str, Any]:
        return {"state": State.FAILED, "finished_at": self._database.now(), "problem": text_of(dict(problem))}

    # -- workers -----------------------------------------------------------------------------------------------
    def expire(self, worker: str | None = None) -> list[str]:
        """Take back jobs whose lease has ended, or all of a worker that is known to be dead; their ids."""
        of_dead = JOBS.c.lease_ends_at < self._database.now() if worker is None else JOBS.c.worker == worker
        query = select(JOBS.c.id, JOBS.c.attempts, JOBS.c.cancel_asked).where(JOBS.c.state == State.RUNNING, of_dead)
        with self._database.reading() as connection:
            if connection.execute(query).first() is None:
                return []
        with self._database.writing() as connection:
            found = connection.execute(query.with_for_update(skip_locked=True)).all()
            for job_id, attempts, cancel_asked in found:
                values = {**FREED, **self._after_loss(attempts, bool(cancel_asked), crashed=False)}
                connection.execute(update(JOBS).where(JOBS.c.id == job_id).values(values))
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
