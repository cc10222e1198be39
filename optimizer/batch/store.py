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
from optimizer.files import NEW_FILE, make_folder, refuse_links

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
        except sqlite3.OperationalError as error:
            os.close(self._lock)
            raise OutputError(f"cannot write: {error}", node=str(self._path)) from error
        except sqlite3.DatabaseError as error:
            os.close(self._lock)
            raise FormatError(f"not a result store: {error}", node=str(self._path)) from error

    def put(self, key: str, stored: Stored) -> None:
        """Raises OutputError if the file takes no more."""
        row = (key, json.dumps(stored.figures), json.dumps(stored.artifacts), stored.seconds)
        try:
            with self._db:
                self._db.execute(
                    "INSERT OR REPLACE INTO finished (key, figures, artifacts, seconds) VALUES (?, ?, ?, ?)", row
                )
        except sqlite3.OperationalError as error:
            raise OutputError(f"cannot write: {error}", node=str(self._path)) from error

    def get(self, key: str) -> Stored | None:
        """What is kept under a key; None if no such job succeeded."""
        row = self._db.execute("SELECT figures, artifacts, seconds FROM finished WHERE key = ?", (key,)).fetchone()
        return None if row is None else Stored(json.loads(row[0]), json.loads(row[1]), row[2])

    def close(self) -> None:
        self._db.close()
        os.close(self._lock)


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
