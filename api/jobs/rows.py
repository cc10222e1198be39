"""Rows of the tables of jobs as records, and what several statements share.

A row that does not say what it should, whoever has written it, is one job's misfortune: it is told as a job that
failed, and in the way of no other.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, Select, func, insert, select, update

from api.jobs.records import Event, Facts, Job, Outcome, State, Task
from api.jobs.room import EVENT_BYTES, Room, number_of
from api.jobs.tables import BODIES, EVENTS, JOBS, TASKS
from api.problems import INTERNAL, DamagedError

log = logging.getLogger(__name__)

FREED = {"lease": None, "lease_ends_at": None, "worker": None}
_COLUMNS = [
    JOBS.c[name]
    for name in (
        "id", "owner", "state", "kind", "board", "policy", "natural_key", "name", "priority", "request_id",
        "fingerprint", "created_at", "started_at", "finished_at", "attempts", "lease", "stage", "fraction", "incumbent",
        "problem", "result", "facts",
    )
]  # fmt: skip
_AS_JSON = ("incumbent", "problem", "facts")


def job_query() -> Select[Any]:
    """Selects what `job_of` reads."""
    return select(*_COLUMNS)


def job_of(row: Mapping[Any, Any]) -> Job:
    """The record of a row that `job_query` selected; DamagedError if it is none."""
    fields = {str(key): value for key, value in row.items()}
    given = {name: text for name in _AS_JSON if (text := fields[name]) is not None}
    job: Job = _read(f"job {fields['id']}", lambda: {**fields, **{k: json.loads(v) for k, v in given.items()}}, Job)
    return job


def shown_job(row: Mapping[Any, Any]) -> Job:
    """The record of a row for somebody who looks; of a damaged one that of a job that failed."""
    try:
        return job_of(row)
    except DamagedError as error:
        log.warning("%s", error)
        told = {"state": State.FAILED, "kind": "unknown", "problem": INTERNAL, "priority": 0, "attempts": 0}
        texts = dict.fromkeys(("natural_key", "name", "request_id", "fingerprint"), "")
        nothing = dict.fromkeys(str(column.name) for column in _COLUMNS)
        return Job(**{**nothing, **texts, **told, "id": row["id"], "owner": row["owner"], "created_at": 0.0})


def task_of_row(connection: Connection, job: str) -> Task:
    """What is to be done for a job; DamagedError if its row does not say it."""
    text = connection.execute(select(TASKS.c.task).where(TASKS.c.job == job)).scalar()
    task: Task = _read(f"the task of job {job}", lambda: json.loads(str(text)), Task)
    return task


def bodies_of(connection: Connection, job: str) -> tuple[str, ...]:
    """Ids of the contents that a job reads, in order."""
    query = select(BODIES.c.content).where(BODIES.c.job == job).order_by(BODIES.c.number)
    return tuple(connection.execute(query).scalars())


def known_outcome(row: Mapping[Any, Any]) -> Outcome | None:
    """The record of a row of known results; of a damaged one nothing is known."""
    try:
        return Outcome(row["content"], _facts(f"result {row['natural_key']}", row["facts"]), repeatable=True)
    except DamagedError as error:
        log.warning("%s", error)
        return None


def shown_facts(what: str, text: Any) -> Facts:
    """What a column of facts holds, for somebody who looks; none where it is empty or damaged."""
    try:
        return _facts(what, text or "{}")
    except DamagedError as error:
        log.warning("%s", error)
        return {}


def event_of(row: Mapping[Any, Any]) -> Event | None:
    """The record of a row of events; None if it is damaged."""
    what = f"event {row['number']} of job {row['job']}"
    try:
        event: Event = _read(what, lambda: {**row, "data": json.loads(row["data"])}, Event)
    except DamagedError as error:
        log.warning("%s", error)
        return None
    return event


def _facts(what: str, text: Any) -> Facts:
    found: Facts = _read(f"the facts of {what}", lambda: json.loads(text), Facts)
    return found


def _read(what: str, load: Any, kind: Any) -> Any:
    try:
        return _adapter(kind).validate_python(load())
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedError(f"{what} in the store is damaged: {error}") from error


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def end_jobs(
    connection: Connection, room: Room, which: ColumnElement[bool], values: Mapping[str, Any], added_bytes: int = 0
) -> list[str]:
    """Put jobs into their final state, and return their ids: they give up what was held for them and keep what they
    have come to take. `added_bytes`: what else this transaction has put into the store."""
    mine = select(JOBS.c.id, number_of(JOBS.c.held_bytes)).where(which).order_by(JOBS.c.created_at, JOBS.c.id)
    found = connection.execute(mine.with_for_update()).all()
    if not found:
        return []
    told = sum(len(values.get(name) or "") for name in _AS_JSON)
    for job, held in found:
        kept = told + events_bytes(connection, job)
        connection.execute(update(JOBS).where(JOBS.c.id == job).values(**FREED, **values, held_bytes=kept))
        added_bytes += kept - held
    room.change(connection, added_bytes)
    return [job for job, _ in found]


def events_bytes(connection: Connection, job: str) -> int:
    """What the events of a job take."""
    size = func.coalesce(func.sum(func.length(EVENTS.c.data) + EVENT_BYTES), 0)
    return int(connection.execute(select(size).where(EVENTS.c.job == job)).scalar_one())


def last_event(connection: Connection, job: str) -> int:
    """The number of a job's last event; 0: it has none."""
    query = select(func.coalesce(func.max(number_of(EVENTS.c.number)), 0)).where(EVENTS.c.job == job)
    return int(connection.execute(query).scalar_one())


def add_events(connection: Connection, job: str, events: list[Event]) -> None:
    connection.execute(
        insert(EVENTS), [{"job": job, "number": e.number, "kind": e.kind, "data": text_of(e.data)} for e in events]
    )


def text_of(value: Any) -> str:
    """Plain data as the text of a column."""
    return json.dumps(value, separators=(",", ":"))
