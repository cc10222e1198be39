"""Jobs, their events, results by natural key, contents in pieces, API keys, workers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("natural_key", sa.String(64), nullable=False),
        sa.Column("bodies", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("request_id", sa.String(64), nullable=False),
        sa.Column("idempotency_key", sa.String(255)),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("not_before", sa.Double, nullable=False),
        sa.Column("started_at", sa.Double),
        sa.Column("finished_at", sa.Double),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("worker", sa.String(64)),
        sa.Column("lease", sa.String(32), unique=True),
        sa.Column("lease_ends_at", sa.Double),
        sa.Column("cancel_asked", sa.Boolean, nullable=False),
        sa.Column("stage", sa.Text),
        sa.Column("fraction", sa.Double),
        sa.Column("incumbent", sa.Text),
        sa.Column("problem", sa.Text),
        sa.Column("result", sa.String(32)),
        sa.Column("facts", sa.Text),
        sa.UniqueConstraint("owner", "idempotency_key", name="jobs_idempotency"),
    )
    op.create_index("jobs_queue", "jobs", ["state", "priority", "created_at"])
    op.create_index("jobs_by_owner", "jobs", ["owner", "created_at"])
    op.create_index("jobs_by_key", "jobs", ["natural_key", "state"])
    op.create_index("jobs_finished", "jobs", ["finished_at"])
    op.create_table(
        "events",
        sa.Column("job", sa.String(32), sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_table(
        "results",
        sa.Column("natural_key", sa.String(64), primary_key=True),
        sa.Column("content", sa.String(32), nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("used_at", sa.Double, nullable=False),
    )
    op.create_table(
        "contents",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("size_bytes", sa.Double, nullable=False),
        sa.Column("stored_bytes", sa.Double, nullable=False),
        sa.Column("encoding", sa.String(16), nullable=False),
        sa.Column("complete", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
    )
    op.create_index("contents_by_sha256", "contents", ["sha256", "complete"])
    op.create_table(
        "pieces",
        sa.Column("content", sa.String(32), sa.ForeignKey("contents.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "api_keys",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("rate_per_minute", sa.Integer),
        sa.Column("max_open_jobs", sa.Integer),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("revoked_at", sa.Double),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("slots", sa.Integer, nullable=False),
        sa.Column("warm", sa.Integer, nullable=False),
        sa.Column("lost", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("seen_at", sa.Double, nullable=False),
    )


def downgrade() -> None:
    for name in ("workers", "api_keys", "pieces", "contents", "results", "events", "jobs"):
        op.drop_table(name)
