"""What the store keeps for how long: finished jobs and results for a while, contents as long as something needs
them."""

from __future__ import annotations

import json
import time

from sqlalchemy import ColumnElement, Connection, delete, func, select

from api.jobs.database import Database
from api.jobs.records import State
from api.jobs.tables import CONTENTS, EVENTS, JOBS, PIECES, RESULTS
from api.settings import Settings
from optimizer import logs

_log = logs.room("service")

SWEEP_SECONDS = 60.0
FRESH_SECONDS = 300.0
"""Bytes that no job names yet may still be on their way into one."""
FULL_SHARE = 0.9
"""Of the room for contents, above which the oldest finished jobs go before their time."""
BATCH = 200
"""Jobs or contents deleted in one transaction."""
FINAL = tuple(state for state in State if state.is_final)


class Retention:
    """Deletes what is not kept any longer."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._kept_seconds = settings.retention_seconds
        self._most_bytes = settings.store_bytes
        self._due_at = 0.0
        self.is_full = False
        """Whether contents take more room than they may."""

    def sweep_if_due(self) -> None:
        """Sweep once a minute."""
        if time.monotonic() >= self._due_at:
            self._due_at = time.monotonic() + SWEEP_SECONDS
            self.sweep()

    def sweep(self) -> None:
        """Delete what is too old; and if the store is nearly full, some of the oldest finished jobs and results."""
        before = self._database.now() - self._kept_seconds
        jobs = self._delete_jobs(before)
        contents = self._delete_contents()
        oldest = self._oldest() if self._stored_bytes() > FULL_SHARE * self._most_bytes else None
        if oldest is not None:
            jobs += self._delete_jobs(oldest)
            contents += self._delete_contents()
        self.is_full = self._stored_bytes() >= self._most_bytes
        if jobs or contents:
            _log.info("swept", jobs=jobs, contents=contents)

    def _delete_jobs(self, before: float | ColumnElement[float]) -> int:
        """Jobs finished until then, and results not asked for since; how many jobs."""
        count = 0
        old = select(JOBS.c.id).where(JOBS.c.state.in_(FINAL), JOBS.c.finished_at <= before).limit(BATCH)
        while True:
            with self._database.writing() as connection:
                ids = list(connection.execute(old).scalars())
                connection.execute(delete(EVENTS).where(EVENTS.c.job.in_(ids)))
                connection.execute(delete(JOBS).where(JOBS.c.id.in_(ids)))
                connection.execute(delete(RESULTS).where(RESULTS.c.used_at <= before))
            count += len(ids)
            if len(ids) < BATCH:
                return count

    def _delete_contents(self) -> int:
        """Contents that neither a job nor a result names, unless they have only just come; how many."""
        settled = select(CONTENTS.c.id).where(CONTENTS.c.created_at < self._database.now() - FRESH_SECONDS)
        with self._database.reading() as connection:
            candidates = list(connection.execute(settled).scalars())
            needed = _needed(connection) if candidates else set()
        unneeded = [content for content in candidates if content not in needed]
        for start in range(0, len(unneeded), BATCH):
            batch = unneeded[start : start + BATCH]
            with self._database.writing() as connection:
                # Somebody may have found them by their hash meanwhile.
                still = list(connection.execute(settled.where(CONTENTS.c.id.in_(batch))).scalars())
                connection.execute(delete(PIECES).where(PIECES.c.content.in_(still)))
                connection.execute(delete(CONTENTS).where(CONTENTS.c.id.in_(still)))
        return len(unneeded)

    def _oldest(self) -> float | None:
        """When the last of the oldest finished jobs, or results, was finished or asked for; None: there is none."""
        old_jobs = select(JOBS.c.finished_at).where(JOBS.c.state.in_(FINAL)).order_by(JOBS.c.finished_at).limit(BATCH)
        old_results = select(RESULTS.c.used_at).order_by(RESULTS.c.used_at).limit(BATCH)
        with self._database.reading() as connection:
            times = [*connection.execute(old_jobs).scalars(), *connection.execute(old_results).scalars()]
        return sorted(times)[min(BATCH, len(times)) - 1] if times else None

    def _stored_bytes(self) -> int:
        with self._database.reading() as connection:
            return int(connection.execute(select(func.coalesce(func.sum(CONTENTS.c.stored_bytes), 0))).scalar_one())


def _needed(connection: Connection) -> set[str]:
    """Ids of all contents that jobs and results name."""
    found = set(connection.execute(select(RESULTS.c.content)).scalars())
    for bodies, result in connection.execute(select(JOBS.c.bodies, JOBS.c.result)):
        found |= {*json.loads(bodies), *([result] if result else [])}
    return found
