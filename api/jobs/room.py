"""How much of the store is taken: a row that is changed in the same transaction as what it counts.

Counted is what lies in rows that requests make: jobs with their events, models, results. A job that is not finished
counts with what it may still come to, so that what was accepted can be finished. Every writer changes the row last in
its transaction: whoever waits for it holds nothing that another waits for.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, ColumnElement, Connection, case, cast, func, select, update

from api.jobs.tables import CONTENTS, JOBS, RESULTS, ROOM
from api.problems import NoRoomError

JOB_BYTES, CONTENT_BYTES, RESULT_BYTES, EVENT_BYTES = 3072, 3072, 768, 128
"""Of an entry beside its texts and bytes: its other columns, indexes, and what pages of SQLite leave empty. So
much that the file grows by no more than is counted."""
EVENTS_BYTES = 128 * 1024
"""Most that the events of a job take."""
OUTCOME_BYTES = 32 * 1024
"""For what the row of a job says of its course and its end."""
ANSWER_BYTES, LARGEST_ANSWER_BYTES = 64 * 1024, 16 * 1024**2
"""For the answer of an open job: so much and as much as its bodies take, and at most the latter. Annotated graphs take
a few KiB, and of a large model less than it. An answer beyond that needs room when it comes."""
NO_LIMIT, LARGEST_NUMBER = 2**62, 2**50


class Room:
    """What may be taken."""

    def __init__(self, most_bytes: int = NO_LIMIT) -> None:
        self.most_bytes = most_bytes

    def change(self, connection: Connection, size: int) -> None:
        """Take so much, or give back what is below zero. NoRoomError if that is not there."""
        if not size:
            return
        changed = update(ROOM).values(taken_bytes=ROOM.c.taken_bytes + size)
        if size > 0:
            changed = changed.where(ROOM.c.taken_bytes + size <= self.most_bytes)
        if not connection.execute(changed).rowcount:
            raise NoRoomError("the store has no room for this", limit=self.most_bytes)


def taken_bytes(connection: Connection) -> int:
    """How much is taken."""
    return int(connection.execute(select(ROOM.c.taken_bytes)).scalar_one())


def recount(connection: Connection) -> None:
    """Count again what all rows take: what is written meanwhile changes the row afterwards."""
    connection.execute(select(ROOM.c.taken_bytes).with_for_update())
    sizes = (
        select(number_of(JOBS.c.row_bytes) + number_of(JOBS.c.held_bytes)),
        select(number_of(CONTENTS.c.stored_bytes) + CONTENT_BYTES),
        select(func.length(RESULTS.c.facts) + RESULT_BYTES),
    )
    taken = 0
    for each in sizes:
        size = each.subquery().c[0]
        taken += connection.execute(select(func.coalesce(cast(func.sum(size), BigInteger), 0))).scalar_one()
    connection.execute(update(ROOM).values(taken_bytes=taken))


def number_of(column: Column[Any]) -> ColumnElement[int]:
    """A column of whole numbers that count something; SQLite lets anything else lie in it, which counts nothing."""
    number = cast(column, BigInteger)
    return case((number.between(0, LARGEST_NUMBER), number), else_=0)


def held_for(bodies_bytes: int) -> int:
    """What a job with such bodies may still come to until it is finished."""
    return EVENTS_BYTES + OUTCOME_BYTES + min(ANSWER_BYTES + bodies_bytes, LARGEST_ANSWER_BYTES)
