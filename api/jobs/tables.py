"""The tables of the store; `migrations/` makes them."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

METADATA = MetaData()

JOBS = Table(
    "jobs",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("natural_key", String(64), nullable=False),
    Column("board", String(64)),
    Column("policy", String(64)),
    Column("name", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("request_id", String(64), nullable=False),
    Column("idempotency_key", String(255)),
    Column("fingerprint", String(64), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("not_before", Double, nullable=False),
    Column("started_at", Double),
    Column("finished_at", Double),
    Column("attempts", Integer, nullable=False),
    Column("worker", String(64)),
    Column("lease", String(32), unique=True),
    Column("lease_ends_at", Double),
    Column("cancel_asked", Boolean, nullable=False),
    Column("stage", Text),
    Column("fraction", Double),
    Column("incumbent", Text),
    Column("problem", Text),
    Column("result", String(32)),
    Column("facts", Text),
    Column("row_bytes", BigInteger, nullable=False, server_default=text("0")),
    Column("held_bytes", BigInteger, nullable=False, server_default=text("0")),
    UniqueConstraint("owner", "idempotency_key", name="jobs_idempotency"),
    Index("jobs_queue", "state", "priority", "created_at"),
    Index("jobs_by_owner", "owner", "created_at"),
    Index("jobs_by_key", "natural_key", "state"),
    Index("jobs_finished", "finished_at"),
    Index("jobs_by_result", "result"),
)

TASKS = Table(
    "tasks",
    METADATA,
    Column("job", String(32), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("task", Text, nullable=False),
)
"""Apart from their jobs: a list of jobs, or a change of one, would move through all of their options otherwise."""

BODIES = Table(
    "bodies",
    METADATA,
    Column("job", String(32), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("content", String(32), nullable=False),
    Index("bodies_by_content", "content"),
)

EVENTS = Table(
    "events",
    METADATA,
    Column("job", String(32), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("data", Text, nullable=False),
)

RESULTS = Table(
    "results",
    METADATA,
    Column("natural_key", String(64), primary_key=True),
    Column("content", String(32), nullable=False),
    Column("facts", Text, nullable=False),
    Column("used_at", Double, nullable=False),
    Index("results_by_content", "content"),
)

CONTENTS = Table(
    "contents",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("sha256", String(64), nullable=False),
    Column("size_bytes", Double, nullable=False),
    Column("stored_bytes", Double, nullable=False),
    Column("encoding", String(16), nullable=False),
    Column("complete", Boolean, nullable=False),
    Column("created_at", Double, nullable=False),
    Index("contents_by_sha256", "sha256", "complete"),
)

PIECES = Table(
    "pieces",
    METADATA,
    Column("content", String(32), ForeignKey("contents.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

KEYS = Table(
    "api_keys",
    METADATA,
    Column("name", String(64), primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("rate_per_minute", Integer),
    Column("max_open_jobs", Integer),
    Column("created_at", Double, nullable=False),
    Column("revoked_at", Double),
)

WORKERS = Table(
    "workers",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("slots", Integer, nullable=False),
    Column("warm", Integer, nullable=False),
    Column("lost", Integer, nullable=False, server_default=text("0")),
    Column("seen_at", Double, nullable=False),
)

ROOM = Table("room", METADATA, Column("taken_bytes", BigInteger, nullable=False))
