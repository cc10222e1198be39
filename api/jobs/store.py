"""Jobs as those who ask for them see them: submitted once, looked up, cancelled."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, and_, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from api.jobs.contents import Contents
from api.jobs.database import Database
from api.jobs.identities import new_id
from api.jobs.records import Event, Job, Outcome, State, Submission
from api.jobs.rows import job_of, job_query, text_of
from api.jobs.tables import EVENTS, JOBS, RESULTS
from api.problems import BusyError, ConflictError, KeyReusedError, NotFoundError

OPEN = (State.QUEUED, State.RUNNING)
TOUCH_SECONDS = 3600.0
"""A result that is asked for again is noted as used at most that often."""
MOST_LISTED = 200


@dataclass(frozen=True)
class Quota:
    """How much may be open at once: 0 means no limit."""

    of_all: int = 0
    of_owner: int = 0


class JobStore:
    """The table of jobs."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.contents = Contents(database)

    # -- results by what they depend on ------------------------------------------------------------------------
    def known(self, natural_key: str) -> Outcome | None:
        """The result of an equal request, if one is kept."""
        with self.database.reading() as connection:
            row = connection.execute(_result(natural_key)).mappings().first()
        if row is None:
            return None
        if time.time() - row["used_at"] > TOUCH_SECONDS:
            with self.database.writing() as connection:
                used = update(RESULTS).where(RESULTS.c.natural_key == natural_key).values(used_at=self.database.now())
                connection.execute(used)
        return Outcome(row["content"], json.loads(row["facts"]), repeatable=True)

    # -- submitting --------------------------------------------------------------------------------------------
    def submit(self, asked: Submission, quota: Quota) -> Job:
        """Queue a job, or finish it at once where its result is known.

        With an idempotency key the job that the key stands for, if there is one. KeyReusedError if that came of
        another request, BusyError past a quota.
        """
        earlier = self._earlier(asked)
        if earlier is not None:
            return earlier
        values = _values(asked)
        try:
            with self.database.writing() as connection:
                now = self.database.now()
                # Read here, not before: on SQLite no result can come, and none can go, between this and the insertion.
                known = connection.execute(_result(asked.natural_key)).mappings().first()
                if known is None:
                    self._check_quota(connection, asked.owner, quota)
                else:
                    done = {"state": State.SUCCEEDED, "started_at": now, "finished_at": now, "fraction": 1.0}
                    values |= {**done, "result": known["content"], "facts": known["facts"]}
                connection.execute(insert(JOBS).values(**values, created_at=now))
        except IntegrityError:
            earlier = self._earlier(asked)  # of a request that came at the same time
            if earlier is None:
                raise
            return earlier
        return self.job(values["id"], asked.owner)

    def _earlier(self, asked: Submission) -> Job | None:
        """The job of an idempotency key."""
        if asked.idempotency_key is None:
            return None
        query = job_query().where(JOBS.c.owner == asked.owner, JOBS.c.idempotency_key == asked.idempotency_key)
        with self.database.reading() as connection:
            row = connection.execute(query).mappings().first()
        if row is None:
            return None
        job = job_of(row)
        if job.fingerprint != asked.fingerprint:
            raise KeyReusedError("this idempotency key came with another request before", node="Idempotency-Key")
        return job

    def _check_quota(self, connection: Any, owner: str, quota: Quota, mine: int = 0) -> None:
        """BusyError unless another job may be open; `mine` of the open ones are that job already."""
        count = select(func.count()).select_from(JOBS).where(JOBS.c.state.in_(OPEN))
        if quota.of_all and connection.execute(count).scalar_one() - mine >= quota.of_all:
            raise BusyError("the queue is full", limit=quota.of_all)
        of_owner = count.where(JOBS.c.owner == owner)
        if quota.of_owner and connection.execute(of_owner).scalar_one() - mine >= quota.of_owner:
            raise BusyError("this key has as many open jobs as it may have", limit=quota.of_owner)

    # -- looking -----------------------------------------------------------------------------------------------
    def job(self, job_id: str, owner: str) -> Job:
        """NotFoundError if there is none, or it is another owner's."""
        with self.database.reading() as connection:
            query = job_query().where(JOBS.c.id == job_id, JOBS.c.owner == owner)
            row = connection.execute(query).mappings().first()
        if row is None:
            raise NotFoundError(f"no job '{job_id}'", node="id")
        return job_of(row)

    def jobs(
        self,
        owner: str,
        limit: int,
        before: tuple[float, str] | None,
        states: tuple[State, ...] = (),
        kind: str | None = None,
    ) -> list[Job]:
        """Jobs of an owner, the newest first; `before`: time and id of the last one of the page before."""
        query = job_query().where(JOBS.c.owner == owner)
        if states:
            query = query.where(JOBS.c.state.in_(states))
        if kind is not None:
            query = query.where(JOBS.c.kind == kind)
        if before is not None:
            at, job_id = before
            same_time = and_(JOBS.c.created_at == at, JOBS.c.id < job_id)
            query = query.where(or_(JOBS.c.created_at < at, same_time))
        query = query.order_by(JOBS.c.created_at.desc(), JOBS.c.id.desc()).limit(min(limit, MOST_LISTED))
        with self.database.reading() as connection:
            return [job_of(row) for row in connection.execute(query).mappings()]

    def events(self, job_id: str, after: int) -> list[Event]:
        """Events of a job with higher numbers, in order."""
        query = select(EVENTS).where(EVENTS.c.job == job_id, EVENTS.c.number > after).order_by(EVENTS.c.number)
        with self.database.reading() as connection:
            rows = connection.execute(query).mappings().all()
        return [Event(row["number"], row["kind"], json.loads(row["data"])) for row in rows]

    def counts(self) -> dict[str, int]:
        """Jobs by state."""
        query = select(JOBS.c.state, func.count()).group_by(JOBS.c.state)
        with self.database.reading() as connection:
            found = {state: int(count) for state, count in connection.execute(query)}
        return {state.value: found.get(state.value, 0) for state in State}

    # -- changing ----------------------------------------------------------------------------------------------
    def cancel(self, job_id: str, owner: str) -> Job:
        """End a queued job at once, and have a running one ended; a finished one stays as it is."""
        with self.database.writing() as connection:
            mine = update(JOBS).where(JOBS.c.id == job_id, JOBS.c.owner == owner)
            ended = mine.where(JOBS.c.state == State.QUEUED)
            connection.execute(ended.values(state=State.CANCELLED, finished_at=self.database.now()))
            connection.execute(mine.where(JOBS.c.state == State.RUNNING).values(cancel_asked=True))
        return self.job(job_id, owner)

    def retry(self, job_id: str, owner: str, quota: Quota) -> Job:
        """Queue a job again that failed or was cancelled; ConflictError for any other, BusyError past a quota."""
        with self.database.writing() as connection:
            again = update(JOBS).where(
                JOBS.c.id == job_id, JOBS.c.owner == owner, JOBS.c.state.in_((State.FAILED, State.CANCELLED))
            )
            changed = connection.execute(again.values(_FRESH)).rowcount
            if changed:
                self._check_quota(connection, owner, quota, mine=1)
        job = self.job(job_id, owner)
        if not changed:
            raise ConflictError(f"the job is {job.state}: only one that failed or was cancelled can run again")
        return job


_FRESH: dict[str, Any] = {
    "state": State.QUEUED,
    "attempts": 0,
    "not_before": 0.0,
    "cancel_asked": False,
    **dict.fromkeys(("started_at", "finished_at", "stage", "fraction", "incumbent", "problem")),
}
"""Of a job that has not begun, or begins anew."""


def _result(natural_key: str) -> Select[Any]:
    return select(RESULTS).where(RESULTS.c.natural_key == natural_key)


def _values(asked: Submission) -> dict[str, Any]:
    return {
        "id": new_id(),
        "owner": asked.owner,
        "kind": asked.task.kind,
        "task": text_of(asked.task.to_json()),
        "natural_key": asked.natural_key,
        "bodies": text_of(list(asked.bodies)),
        "name": asked.name,
        "priority": asked.priority,
        "request_id": asked.request_id,
        "idempotency_key": asked.idempotency_key,
        "fingerprint": asked.fingerprint,
        **_FRESH,
    }
