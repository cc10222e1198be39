"""What the store keeps for how long: finished jobs and results for a while, contents as long as something needs
them."""

from __future__ import annotations

import time

from sqlalchemy import ColumnElement, delete, func, select

from api.jobs.contents import FRESH_SECONDS, IS_NAMED, Contents
from api.jobs.database import Database
from api.jobs.records import State
from api.jobs.room import RESULT_BYTES, Room, number_of, taken_bytes
from api.jobs.tables import CONTENTS, JOBS, RESULTS
from optimizer.process import logs

_log = logs.room("service")

SWEEP_SECONDS, PRESSED_SWEEP_SECONDS = 60.0, 5.0
"""Between two sweeps; the latter while the store is nearly full."""
FULL_SHARE = 0.9
"""Of the room, above which the oldest finished jobs go before their time."""
BATCH = 200
"""Jobs or contents deleted in one transaction."""
PRESSED_BATCH, PRESSED_BATCHES = 10, 50
"""Jobs and results that go together before it is looked at again whether there is room, and how often in a sweep."""
LEAST_SECONDS = 60.0
"""So long a finished job is kept in a full store too, for whoever waits for it."""
FINAL = tuple(state for state in State if state.is_final)


class Retention:
    """Deletes what is not kept any longer."""

    def __init__(self, database: Database, room: Room, kept_seconds: float) -> None:
        self._database = database
        self._room = room
        self._contents = Contents(database, room)
        self._kept_seconds = kept_seconds
        self._swept_at = -SWEEP_SECONDS

    def sweep_if_due(self) -> None:
        """Sweep once a minute, and more often while there is hardly any room."""
        pause = PRESSED_SWEEP_SECONDS if self._is_pressed() else SWEEP_SECONDS
        if time.monotonic() >= self._swept_at + pause:
            self._swept_at = time.monotonic()
            self.sweep()

    def sweep(self) -> None:
        """Delete what is too old; and while the store is nearly full, the oldest finished jobs and results."""
        jobs = self._delete_jobs(self._database.now() - self._kept_seconds)
        contents = self._delete_contents()
        for _ in range(PRESSED_BATCHES):
            oldest = self._oldest() if self._is_pressed() else None
            if oldest is None:
                break
            jobs += self._delete_jobs(oldest)
            contents += self._delete_contents()
        if jobs or contents:
            _log.info("swept", jobs=jobs, contents=contents)

    def _is_pressed(self) -> bool:
        with self._database.reading() as connection:
            return taken_bytes(connection) > FULL_SHARE * self._room.most_bytes

    def _delete_jobs(self, before: float | ColumnElement[float]) -> int:
        """Jobs finished until then, and results not asked for since; how many jobs."""
        count = 0
        old = select(JOBS.c.id).where(JOBS.c.state.in_(FINAL), JOBS.c.finished_at <= before).limit(BATCH)
        taken = number_of(JOBS.c.row_bytes) + number_of(JOBS.c.held_bytes)
        unasked = delete(RESULTS).where(RESULTS.c.used_at <= before).returning(func.length(RESULTS.c.facts))
        while True:
            with self._database.writing() as connection:
                ids = connection.execute(old.with_for_update(skip_locked=True)).scalars().all()
                freed = sum(connection.execute(delete(JOBS).where(JOBS.c.id.in_(ids)).returning(taken)).scalars())
                freed += sum(size + RESULT_BYTES for size in connection.execute(unasked).scalars())
                self._room.change(connection, -freed)
            count += len(ids)
            if len(ids) < BATCH:
                return count

    def _delete_contents(self) -> int:
        """Contents that neither a job nor a result names, unless they have only just come; how many."""
        settled = CONTENTS.c.created_at < self._database.now() - FRESH_SECONDS
        with self._database.reading() as connection:
            unneeded = connection.execute(select(CONTENTS.c.id).where(settled, ~IS_NAMED)).scalars().all()
        return sum(
            self._contents.delete_unneeded(unneeded[start : start + BATCH]) for start in range(0, len(unneeded), BATCH)
        )

    def _oldest(self) -> float | None:
        """When the last of the oldest finished jobs, or results, was finished or asked for; None: there is none that
        may go."""
        latest, most = self._database.now() - LEAST_SECONDS, PRESSED_BATCH
        old_jobs = select(JOBS.c.finished_at).where(JOBS.c.state.in_(FINAL), JOBS.c.finished_at <= latest)
        old_jobs = old_jobs.order_by(JOBS.c.finished_at).limit(most)
        old_results = select(RESULTS.c.used_at).where(RESULTS.c.used_at <= latest)
        old_results = old_results.order_by(RESULTS.c.used_at).limit(most)
        with self._database.reading() as connection:
            times = [*connection.execute(old_jobs).scalars(), *connection.execute(old_results).scalars()]
        return sorted(times)[min(most, len(times)) - 1] if times else None
