"""Finished jobs on disk, so that an interrupted batch goes on where it stopped."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from optimizer.errors import FormatError, OutputError
from optimizer.files import encoded, make_folder, refuse_links

_SCHEMA = """
CREATE TABLE IF NOT EXISTS results (
    key TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    ok INTEGER NOT NULL,
    record TEXT NOT NULL,
    finished_at TEXT NOT NULL DEFAULT (datetime('now'))
)
"""


class ResultStore:
    """Result records by job key in one SQLite file; every `put` is durable when it returns."""

    def __init__(self, path: Path) -> None:
        make_folder(path.parent)
        refuse_links(path)
        self._path = path
        try:
            self._db = sqlite3.connect(path)
            self._db.execute(_SCHEMA)
        except sqlite3.OperationalError as error:
            raise OutputError(f"cannot write: {error}", node=str(path)) from error
        except sqlite3.DatabaseError as error:
            raise FormatError(f"not a result store: {error}", node=str(path)) from error

    def put(self, key: str, name: str, ok: bool, record: dict[str, Any]) -> None:
        """Raises OutputError if the file takes no more."""
        try:
            with self._db:
                self._db.execute(
                    "INSERT OR REPLACE INTO results (key, name, ok, record) VALUES (?, ?, ?, ?)",
                    (key, encoded(name).decode(), ok, json.dumps(record)),
                )
        except sqlite3.OperationalError as error:
            raise OutputError(f"cannot write: {error}", node=str(self._path)) from error

    def succeeded(self, key: str) -> dict[str, Any] | None:
        """The record of a job that succeeded; None if it failed or never ran."""
        row = self._db.execute("SELECT record FROM results WHERE key = ? AND ok", (key,)).fetchone()
        if row is None:
            return None
        record: dict[str, Any] = json.loads(row[0])
        return record

    def close(self) -> None:
        self._db.close()
