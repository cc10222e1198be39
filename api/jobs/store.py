"""Jobs as those who ask for them see them: submitted once, looked up, cancelled."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Select, func, insert, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from api.jobs.contents import Contents, Source
from api.jobs.database import Database
from api.jobs.identities import new_id
from api.jobs.records import LATEST, Event, Job, Outcome, State, Submission
from api.jobs.room import JOB_BYTES, Room, held_for, number_of, recount
from api.jobs.rows import bodies_of, end_jobs, event_of, job_query, known_outcome, shown_job, text_of
from api.jobs.tables import BODIES, EVENTS, JOBS, RESULTS, TASKS
from api.jobs.watching import Page
from api.problems import BusyError, ConflictError, GoneError, KeyReusedError, NotFoundError
from optimizer.errors import TtoptError
from optimizer.process.files import encoded

log = logging.getLogger(__name__)

OPEN = (State.QUEUED, State.RUNNING)
TOUCH_SECONDS = 3600.0
"""A result that is asked for again is noted as used at most that often."""
MOST_LISTED = 200
MOST_EVENTS = 100
"""Read at once."""
LONGEST_LABEL = 64
"""Of a board or policy, as the request spells it."""
TEXTS = ("name", "request_id", "idempotency_key")
"""Columns of a job whose texts may be long."""


@dataclass(frozen=True)
class Quota:
    """How much may be open at once: 0 means no limit."""

    of_all: int = 0
    of_owner: int = 0


class JobStore:
    """The table of jobs."""

    def __init__(self, database: Database, room: Room | None = None) -> None:
        """`room`: what may be taken; without it there is no limit."""
        self.database = database
        self._room = room or Room()
        self.contents = Contents(database, self._room)

    def recount(self) -> None:
        """Count again what is taken, whatever has become of the count."""
        with self.database.writing() as connection:
            recount(connection)

    # -- results by what they depend on ------------------------------------------------------------------------
    def known(self, natural_key: str) -> Outcome | None:
        """The result of an equal request, if one is kept."""
        is_old = (RESULTS.c.used_at < self.database.now() - TOUCH_SECONDS).label("is_old")
        with self.database.reading() as connection:
            row = connection.execute(_result(natural_key).add_columns(is_old)).mappings().first()
        if row is None:
            return None
        if row["is_old"]:
            with self.database.writing() as connection:
                used = update(RESULTS).where(RESULTS.c.natural_key == natural_key).values(used_at=self.database.now())
                connection.execute(used)
        return known_outcome(row)

    # -- submitting --------------------------------------------------------------------------------------------
    def take_in(self, asked: Submission, bodies: Sequence[Source], quota: Quota) -> Job:
        """Store the bodies of a job, and submit it; what is refused leaves nothing behind."""
        earlier = self._earlier(asked)
        if earlier is not None:
            return earlier
        if self.known(asked.natural_key) is None:
            with self.database.reading() as connection:
                self._check_quota(connection, asked.owner, quota)
        try:
            return self._stored(asked, bodies, quota)
        except GoneError:
            # Bytes that were there already have gone with their last job meanwhile.
            return self._stored(asked, bodies, quota)

    def _stored(self, asked: Submission, bodies: Sequence[Source], quota: Quota) -> Job:
        contents, new = [], []
        try:
            for body in bodies:
                content, is_new = self.contents.put(body)
                contents.append(content.id)
                new += [content.id] if is_new else []
            return self.submit(replace(asked, bodies=tuple(contents)), quota)
        except TtoptError:
            self.contents.delete_unneeded(new)
            raise

    def submit(self, asked: Submission, quota: Quota) -> Job:
        """Queue a job, or finish it at once where its result is known.

        With an idempotency key the job that the key stands for, if there is one. KeyReusedError if that came of
        another request, BusyError past a quota, NoRoomError without room for all that it may come to, GoneError if one
        of its bodies is not there any more.
        """
        earlier = self._earlier(asked)
        if earlier is not None:
            return earlier
        task = text_of(asked.task.to_json())
        values = _values(asked, len(task))
        try:
            with self.database.writing() as connection:
                self._insert(connection, asked, quota, values, task)
        except IntegrityError:
            earlier = self._earlier(asked)  # of a request that came at the same time
            if earlier is None:
                raise
            return earlier
        return self.job(values["id"], asked.owner)

    def _insert(
        self, connection: Connection, asked: Submission, quota: Quota, values: dict[str, Any], task: str
    ) -> None:
        now = self.database.now()
        values["held_bytes"] = held_for(self.contents.settle(connection, asked.bodies))
        # Read here, not before: on SQLite no result can come, and none can go, between this and the insertion.
        row = connection.execute(_result(asked.natural_key).with_for_update(read=True)).mappings().first()
        known = None if row is None else known_outcome(row)
        if known is None:
            self._check_quota(connection, asked.owner, quota)
        else:
            facts = text_of(known.facts)
            done = {"state": State.SUCCEEDED, "started_at": now, "finished_at": now, "fraction": 1.0}
            values |= {**done, "result": known.result, "facts": facts, "held_bytes": len(facts)}
        connection.execute(insert(JOBS).values(**values, created_at=now))
        connection.execute(insert(TASKS).values(job=values["id"], task=task))
        bodies = [{"job": values["id"], "number": n, "content": content} for n, content in enumerate(asked.bodies)]
        if bodies:
            connection.execute(insert(BODIES), bodies)
        self._room.change(connection, values["row_bytes"] + values["held_bytes"])

    def _earlier(self, asked: Submission) -> Job | None:
        """The job of an idempotency key."""
        if asked.idempotency_key is None:
            return None
        query = job_query().where(JOBS.c.owner == asked.owner, JOBS.c.idempotency_key == asked.idempotency_key)
        with self.database.reading() as connection:
            row = connection.execute(query).mappings().first()
        if row is None:
            return None
        job = shown_job(row)
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
        return shown_job(row)

    def bodies(self, job_id: str) -> tuple[str, ...]:
        """Ids of the contents that a job reads, in order."""
        with self.database.reading() as connection:
            return bodies_of(connection, job_id)

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
        place = tuple_(*(before or (LATEST, "")))
        query = query.where(tuple_(JOBS.c.created_at, JOBS.c.id) < place)
        query = query.order_by(JOBS.c.created_at.desc(), JOBS.c.id.desc()).limit(min(limit, MOST_LISTED))
        with self.database.reading() as connection:
            return [shown_job(row) for row in connection.execute(query).mappings()]

    def marks(self, jobs: Sequence[str]) -> dict[str, tuple[str, int]]:
        """State and number of the last event of jobs: whatever of a job changes for others, changes one of these."""
        last = select(func.max(EVENTS.c.number)).where(EVENTS.c.job == JOBS.c.id).scalar_subquery()
        query = select(JOBS.c.id, JOBS.c.state, func.coalesce(last, 0)).where(JOBS.c.id.in_(jobs))
        with self.database.reading() as connection:
            return {job: (str(state), number) for job, state, number in connection.execute(query)}

    def page(self, job_id: str, after: int) -> Page:
        """How a job stands, and the next events behind one. NotFoundError if it is not kept any more."""
        with self.database.reading() as connection:
            # The state first: what happened before it ended is read then.
            state = connection.execute(select(JOBS.c.state).where(JOBS.c.id == job_id)).scalar()
        if state is None:
            raise NotFoundError(f"no job '{job_id}'", node="id")
        return Page(State(state) if state in State else State.FAILED, tuple(self.events(job_id, after)))

    def events(self, job_id: str, after: int) -> list[Event]:
        """The next events of a job with higher numbers, in order; damaged ones are left out."""
        query = select(EVENTS).where(EVENTS.c.job == job_id, EVENTS.c.number > after).order_by(EVENTS.c.number)
        with self.database.reading() as connection:
            rows = connection.execute(query.limit(MOST_EVENTS)).mappings().all()
        return [event for row in rows if (event := event_of(row)) is not None]

    def counts(self) -> dict[str, int]:
        """Jobs by state."""
        query = select(JOBS.c.state, func.count()).group_by(JOBS.c.state)
        with self.database.reading() as connection:
            found = {state: int(count) for state, count in connection.execute(query)}
        return {state.value: found.get(state.value, 0) for state in State}

    # -- changing ----------------------------------------------------------------------------------------------
    def cancel(self, job_id: str, owner: str) -> Job:
        """End a queued job at once, and have a running one ended; a finished one stays as it is."""
        mine = (JOBS.c.id == job_id) & (JOBS.c.owner == owner)
        with self.database.writing() as connection:
            ended = {"state": State.CANCELLED, "finished_at": self.database.now()}
            end_jobs(connection, self._room, mine & (JOBS.c.state == State.QUEUED), ended)
            connection.execute(update(JOBS).where(mine, JOBS.c.state == State.RUNNING).values(cancel_asked=True))
        return self.job(job_id, owner)

    def retry(self, job_id: str, owner: str, quota: Quota) -> Job:
        """Queue a job again that failed or was cancelled; ConflictError for any other, BusyError past a quota,
        NoRoomError without room for what it may come to."""
        ended = JOBS.c.state.in_((State.FAILED, State.CANCELLED))
        mine = select(number_of(JOBS.c.held_bytes)).where(JOBS.c.id == job_id, JOBS.c.owner == owner, ended)
        with self.database.writing() as connection:
            held = connection.execute(mine.with_for_update()).scalar()
            if held is not None:
                needed = held_for(self.contents.settle(connection, bodies_of(connection, job_id)))
                connection.execute(update(JOBS).where(JOBS.c.id == job_id).values(**_FRESH, held_bytes=needed))
                self._check_quota(connection, owner, quota, mine=1)
                self._room.change(connection, needed - held)
        job = self.job(job_id, owner)
        if held is None:
            raise ConflictError(f"the job is {job.state}: only one that failed or was cancelled can run again")
        return job


_FRESH: dict[str, Any] = {
    "state": State.QUEUED,
    "attempts": 0,
    "not_before": 0.0,
    "cancel_asked": False,
    **dict.fromkeys(("started_at", "finished_at", "stage", "fraction", "incumbent", "problem")),
}
"""Of a job that has not begun, or begins again."""


def _result(natural_key: str) -> Select[Any]:
    return select(RESULTS).where(RESULTS.c.natural_key == natural_key)


def _label(text: object) -> str | None:
    """What lists say of an option that is a name, whatever the client has put there."""
    return None if text is None else encoded(str(text)[:LONGEST_LABEL]).decode()[:LONGEST_LABEL]


def _values(asked: Submission, task_bytes: int) -> dict[str, Any]:
    values = {
        "id": new_id(),
        "owner": asked.owner,
        "kind": asked.task.kind,
        "board": _label(asked.task.options.get("board")),
        "policy": _label(asked.task.options.get("policy")),
        "natural_key": asked.natural_key,
        "name": asked.name,
        "priority": asked.priority,
        "request_id": asked.request_id,
        "idempotency_key": asked.idempotency_key,
        "fingerprint": asked.fingerprint,
        **_FRESH,
    }
    texts = sum(len(str(values[name] or "").encode()) for name in TEXTS)
    return {**values, "row_bytes": JOB_BYTES + task_bytes + texts}
