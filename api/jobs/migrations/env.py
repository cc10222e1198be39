"""Called by alembic with the connection of `Database.migrate`."""

from __future__ import annotations

from alembic import context

from api.jobs.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
