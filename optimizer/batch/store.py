"""Finished jobs on disk, so that an interrupted batch goes on where it stopped."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimizer.errors import FormatError, OutputError
from optimizer.process.files import NEW_FILE, make_folder, refuse_links

STORE_NAME, LOCK_NAME = "results.sqlite", "batch.lock"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS finished (
    key TEXT PRIMARY KEY,
    figures TEXT NOT NULL,
    artifacts TEXT NOT NULL,
    seconds REAL NOT NULL,
    finished_at TEXT NOT NULL DEFAULT (datetime('now'))
)
"""
_COLUMNS = {"key", "figures", "artifacts", "seconds"}


@dataclass(frozen=True)
class Stored:
    """What is kept of a job that succeeded."""

    figures: dict[str, Any]
    artifacts: dict[str, str]
    """Path below the job's folder -> SHA-256."""
    seconds: float


class ResultStore:
    """Successful jobs by key, in one SQLite file of a batch's folder; every `put` is durable when it returns.

    It belongs to one process at a time: OutputError if another one has it.
    """

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self._path = folder / STORE_NAME
        self._lock = _locked(folder)
        refuse_links(self._path)
        try:
            self._db = sqlite3.connect(self._path)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute(_SCHEMA)
            columns = {row[1] for row in self._db.execute("PRAGMA table_info(finished)")}
            if not columns >= _COLUMNS:
                raise self._unreadable("its table has other columns")
        except sqlite3.DatabaseError as error:
            os.close(self._lock)
            raise self._refused(error) from error
        except FormatError:
            self.close()
            raise
        self._files = {path: _identity(path) for path in (folder / LOCK_NAME, self._path)}

    def put(self, key: str, stored: Stored) -> None:
        """Raises OutputError if the file takes no more, or is no longer where it was."""
        self.require_in_place()
        row = (key, json.dumps(stored.figures), json.dumps(stored.artifacts), stored.seconds)
        try:
            with self._db:
                self._db.execute(
                    "INSERT OR REPLACE INTO finished (key, figures, artifacts, seconds) VALUES (?, ?, ?, ?)", row
                )
        except sqlite3.DatabaseError as error:
            raise self._refused(error) from error

    def get(self, key: str) -> Stored | None:
        """What is kept under a key; None if no such job succeeded. FormatError if the file is damaged."""
        try:
            row = self._db.execute("SELECT figures, artifacts, seconds FROM finished WHERE key = ?", (key,)).fetchone()
            return None if row is None else Stored(json.loads(row[0]), json.loads(row[1]), row[2])
        except sqlite3.DatabaseError as error:
            raise self._refused(error) from error
        except (TypeError, ValueError) as error:
            raise self._unreadable(f"an entry is damaged: {error}") from error

    @property
    def is_in_place(self) -> bool:
        """Whether the folder still holds this store: somebody may have removed it while the batch ran."""
        return all(_identity(path) == known for path, known in self._files.items())

    def require_in_place(self) -> None:
        """OutputError if the folder no longer holds this store."""
        if not self.is_in_place:
            raise OutputError("cannot write: it was removed while the batch ran", node=str(self._path.parent))

    def _refused(self, error: sqlite3.DatabaseError) -> FormatError | OutputError:
        if isinstance(error, sqlite3.OperationalError):
            return OutputError(f"cannot write: {error}", node=str(self._path))
        return self._unreadable(str(error))

    def _unreadable(self, reason: str) -> FormatError:
        return FormatError(
            f"not a result store of this version: {reason}",
            node=str(self._path),
            alternatives=("another folder", "the same folder without this file: every job then runs again"),
        )

    def close(self) -> None:
        self._db.close()
        os.close(self._lock)


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file lies at a path; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _locked(folder: Path) -> int:
    """A descriptor of the folder's lock file, which is locked until it is closed or the process ends."""
    path = folder / LOCK_NAME
    refuse_links(path)
    try:
        descriptor = os.open(path, NEW_FILE & ~os.O_EXCL, 0o666)
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror}", node=str(path)) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise OutputError(
            "another batch is writing into this folder", node=str(folder), alternatives=("another folder",)
        ) from error
    return descriptor
