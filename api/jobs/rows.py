"""Rows of the table of jobs as records, and what several statements share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Select, func, insert, select

from api.jobs.records import Event, Job, State, Task
from api.jobs.tables import EVENTS, JOBS

_COLUMNS = [
    JOBS.c[name]
    for name in (
        "id", "owner", "state", "task", "natural_key", "bodies", "name", "priority", "request_id", "fingerprint",
        "created_at", "started_at", "finished_at", "attempts", "lease", "stage", "fraction", "incumbent", "problem",
        "result", "facts",
    )
]  # fmt: skip
_AS_JSON = ("incumbent", "problem", "facts")


def job_query() -> Select[Any]:
    """Selects what `job_of` reads."""
    return select(*_COLUMNS)


def job_of(row: Mapping[Any, Any]) -> Job:
    """The record of a row that `job_query` selected."""
    fields = {str(key): value for key, value in row.items()}
    fields |= {name: None if fields[name] is None else json.loads(fields[name]) for name in _AS_JSON}
    fields["state"] = State(fields["state"])
    fields["task"] = Task.from_json(json.loads(fields["task"]))
    fields["bodies"] = tuple(json.loads(fields["bodies"]))
    return Job(**fields)


def last_event(connection: Connection, job: str) -> int:
    """The number of a job's last event; 0: it has none."""
    query = select(func.coalesce(func.max(EVENTS.c.number), 0)).where(EVENTS.c.job == job)
    return int(connection.execute(query).scalar_one())


def add_events(connection: Connection, job: str, events: list[Event]) -> None:
    connection.execute(
        insert(EVENTS), [{"job": job, "number": e.number, "kind": e.kind, "data": text_of(e.data)} for e in events]
    )


def text_of(value: Any) -> str:
    """Plain data as the text of a column."""
    return json.dumps(value, separators=(",", ":"))
