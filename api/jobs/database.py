"""The database behind the store: SQLite in a file (write-ahead log), or PostgreSQL by URL."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import ColumnElement, Connection, create_engine, event, func, literal, select
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    NoSuchModuleError,
    NotSupportedError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as NoConnectionError

from api.problems import StoreError
from optimizer.errors import OptionError
from optimizer.process.extras import how_to_install
from optimizer.process.files import make_folder

log = logging.getLogger(__name__)

MIGRATIONS = Path(__file__).with_name("migrations")
SETTING = "TTOPT_STORE"
WAIT_SECONDS = 60.0
"""How long a writer waits for another one's transaction on SQLite."""
POOL_SIZE = 8
MIGRATING, CLAIMING = 7413003641, 7413003642
"""Locks for `Database.alone`."""
DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}


class Database:
    """Transactions on one database."""

    def __init__(self, url: str) -> None:
        """OptionError for a URL of another kind of database, or without its driver; nothing is opened yet."""
        self._url = _checked(url)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        if self.is_sqlite:
            make_folder(Path(str(self._url.database)).absolute().parent)
        try:
            self._engine = create_engine(self._url, **_arguments(self.is_sqlite))
        except ModuleNotFoundError as error:
            raise OptionError(f"PostgreSQL needs psycopg; {how_to_install('postgres')}", node=SETTING) from error
        if self.is_sqlite:
            _prepare_sqlite(self._engine)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads. StoreError if the database cannot be reached."""
        with _reported(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes, from its beginning; on SQLite there is one at a time."""
        with _reported(), self._engine.connect() as plain:
            connection = plain.execution_options(writes=True)
            with connection.begin():
                yield connection

    def now(self) -> ColumnElement[float]:
        """Seconds since 1970 as the database tells them: one clock for the machines of all workers."""
        return literal(time.time()) if self.is_sqlite else func.date_part("epoch", func.clock_timestamp())

    def alone(self, connection: Connection, lock: int) -> None:
        """Wait until no other transaction holds this lock, and hold it; on SQLite whoever writes is alone already."""
        if not self.is_sqlite:
            connection.execute(select(func.pg_advisory_xact_lock(lock)))

    def migrate(self) -> None:
        """Bring the tables up to this version. On PostgreSQL servers that start together wait for each other.

        OptionError if they are of a newer one.
        """
        with _reported(), self._engine.connect() as connection:
            if self.is_sqlite:
                connection = connection.execution_options(writes=True)
            with connection.begin():
                self.alone(connection, MIGRATING)
                _check_known(MigrationContext.configure(connection).get_current_revision())
                config = Config()
                config.set_main_option("script_location", str(MIGRATIONS))
                config.attributes["connection"] = connection
                command.upgrade(config, "head")

    def check_version(self) -> None:
        """OptionError unless the tables are of this version."""
        with self.reading() as connection:
            found = MigrationContext.configure(connection).get_current_revision()
        _check_known(found)
        wanted = ScriptDirectory(str(MIGRATIONS)).get_current_head()
        if found != wanted:
            raise OptionError(
                f"the store is of version {found or 'none'}, this program of version {wanted}: start `ttopt serve` of "
                "this version first, which migrates it",
                node=SETTING,
            )

    def close(self) -> None:
        self._engine.dispose()


def _checked(text: str) -> URL:
    try:
        url = make_url(text)
        backend = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError) as error:
        # The text may hold a password.
        raise OptionError("not a database URL", node=SETTING, alternatives=_FORMS) from error
    if backend not in DRIVERS:
        raise OptionError(f"no store in a database of kind '{backend}'", node=SETTING, alternatives=_FORMS)
    if backend == "sqlite" and url.database in (None, "", ":memory:"):
        raise OptionError("the store has to lie in a file, which its workers open too", node=SETTING)
    return url.set(drivername=DRIVERS[backend])


_FORMS = ("sqlite:////folder/jobs.sqlite", "postgresql://user:password@host/database")


def _check_known(version: str | None) -> None:
    """OptionError for tables of a version that this program has not heard of."""
    script = ScriptDirectory(str(MIGRATIONS))
    known = [revision.revision for revision in script.walk_revisions()]
    if version not in (None, *known):
        newest = script.get_current_head()
        raise OptionError(
            f"the store is of version {version}, made by a newer ttopt; this one knows up to {newest}", node=SETTING
        )


def _arguments(is_sqlite: bool) -> dict[str, Any]:
    if is_sqlite:
        return {
            "connect_args": {"timeout": WAIT_SECONDS, "check_same_thread": False},
            "pool_size": POOL_SIZE,
            "max_overflow": 2 * POOL_SIZE,
        }
    return {"pool_size": POOL_SIZE, "max_overflow": 2 * POOL_SIZE, "pool_pre_ping": True}


def _prepare_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: Any) -> None:
        # Transactions begin where SQLAlchemy says, not where the driver thinks; a commit has reached the disk.
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def _reported() -> Iterator[None]:
    """What the database cannot do for the moment, or at all as it is damaged, is a StoreError; the rest are defects."""
    try:
        yield
    except (DatabaseError, InterfaceError, NoConnectionError) as error:
        if "not a database" in str(getattr(error, "orig", "")):
            raise OptionError("the file is no SQLite database", node=SETTING) from error
        if isinstance(error, (DataError, IntegrityError, NotSupportedError, ProgrammingError)):
            raise
        # What went wrong may name hosts and folders: it is for the log alone.
        log.warning("the store cannot be used: %s", getattr(error, "orig", error))
        raise StoreError("the store of jobs cannot be used at present") from error
