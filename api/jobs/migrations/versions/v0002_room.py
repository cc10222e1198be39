"""What the store takes is counted; tasks and bodies of jobs stand in tables, boards and policies in columns."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

from api.jobs import room

revision = "0002"
down_revision = "0001"

FINAL = ("succeeded", "failed", "cancelled")
TEXTS = ("task", "name", "request_id", "idempotency_key")


def upgrade() -> None:
    for name, kind in (("board", sa.String(64)), ("policy", sa.String(64))):
        op.add_column("jobs", sa.Column(name, kind))
    for name in ("row_bytes", "held_bytes"):
        op.add_column("jobs", sa.Column(name, sa.BigInteger, nullable=False, server_default=sa.text("0")))
    op.create_index("jobs_by_result", "jobs", ["result"])
    op.create_index("results_by_content", "results", ["content"])
    op.create_table(
        "bodies",
        sa.Column("job", sa.String(32), sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("content", sa.String(32), nullable=False),
    )
    op.create_index("bodies_by_content", "bodies", ["content"])
    op.create_table(
        "tasks",
        sa.Column("job", sa.String(32), sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("task", sa.Text, nullable=False),
    )
    taken = op.create_table("room", sa.Column("taken_bytes", sa.BigInteger, nullable=False))
    connection = op.get_bind()
    for job in connection.execute(sa.text("SELECT id FROM jobs")).scalars().all():
        _move(connection, job)
    connection.execute(sa.text("INSERT INTO tasks (job, task) SELECT id, task FROM jobs"))
    for name in ("bodies", "task"):
        op.drop_column("jobs", name)
    connection.execute(sa.insert(taken).values(taken_bytes=0))
    room.recount(connection)


def _move(connection: sa.Connection, job: str) -> None:
    """The bodies of a job into their table, and what it takes into its row."""
    row = dict(connection.execute(sa.text("SELECT * FROM jobs WHERE id = :id"), {"id": job}).mappings().one())
    bodies = [body for body in _read(row["bodies"], list) if isinstance(body, str)]
    for number, content in enumerate(bodies):
        values = {"job": job, "number": number, "content": content}
        connection.execute(
            sa.text("INSERT INTO bodies (job, number, content) VALUES (:job, :number, :content)"), values
        )
    options = _read(row["task"], dict).get("options")
    chosen = options if isinstance(options, dict) else {}
    values = {name: str(chosen[name])[:64] if name in chosen else None for name in ("board", "policy")}
    values |= {"row": room.JOB_BYTES + sum(len(str(row[name] or "")) for name in TEXTS), "id": job}
    values["held"] = _kept(connection, row) if row["state"] in FINAL else room.held_for(_stored(connection, bodies))
    changed = "UPDATE jobs SET board = :board, policy = :policy, row_bytes = :row, held_bytes = :held WHERE id = :id"
    connection.execute(sa.text(changed), values)


def _kept(connection: sa.Connection, row: dict[str, Any]) -> int:
    told = f"SELECT COALESCE(SUM(LENGTH(data) + {room.EVENT_BYTES}), 0) FROM events WHERE job = :id"
    events = int(connection.execute(sa.text(told), {"id": row["id"]}).scalar_one())
    return events + sum(len(str(row[name] or "")) for name in ("incumbent", "problem", "facts"))


def _stored(connection: sa.Connection, bodies: list[str]) -> int:
    size = sa.text("SELECT COALESCE(SUM(stored_bytes), 0) FROM contents WHERE id = :id")
    return sum(int(connection.execute(size, {"id": body}).scalar_one()) for body in bodies)


def _read(text: object, kind: type) -> Any:
    """What a column holds; nothing of that kind where it is damaged, as its job will be found to be."""
    try:
        value = json.loads(str(text))
    except ValueError:
        return kind()
    return value if isinstance(value, kind) else kind()
