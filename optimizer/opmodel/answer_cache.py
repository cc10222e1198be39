"""`AnswerCache`: answers of a slow backend on disk, shared by processes and runs.

One SQLite file (WAL). A *context* says who answered (backend version and build, board, l1_small, mock or real device),
a question is canonical JSON text, its key the first 128 bits of the text's BLAKE2b hash. Questions and answers
are kept as text, so `export_lines` can hand them to a machine that has no backend.

A file that is not a healthy database is moved aside and begun again, and an answer that is not what was written is
dropped, which is logged as a warning: answers can be asked again. The size is capped; what was not used for longest
goes first.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

from optimizer.errors import OpModelError
from optimizer.opmodel.answer_records import SCHEMA_VERSION, Context, exported, imported, key_of, seal_of
from optimizer.opmodel.ttmetal.environment import EnvironmentProblem, cache_folder
from optimizer.opmodel.ttmetal.location import whole_number

PATH_VARIABLE = "TTOPT_ANSWER_CACHE"
BYTES_VARIABLE = "TTOPT_ANSWER_CACHE_BYTES"
DEFAULT_MAX_BYTES = 512 * 2**20
WRITE_BATCH = 256
WRITE_SECONDS = 2.0
BUSY_SECONDS = 30.0
TOUCH_AFTER_SECONDS = 3600
"""How old a note of the last use must be before reading renews it; saves writing on every read."""
KEPT_SHARE = 0.9
"""Share of the cap that remains when the cap was exceeded."""
IMPORT_BATCH = 1000

log = logging.getLogger(__name__)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS contexts (
    id INTEGER PRIMARY KEY, version TEXT NOT NULL, build TEXT NOT NULL, board TEXT NOT NULL,
    l1_small INTEGER NOT NULL, source TEXT NOT NULL, UNIQUE (version, build, board, l1_small, source)) STRICT;
CREATE TABLE IF NOT EXISTS answers (
    context INTEGER NOT NULL, key BLOB NOT NULL, question TEXT NOT NULL, answer TEXT NOT NULL, seal BLOB NOT NULL,
    used INTEGER NOT NULL, PRIMARY KEY (context, key)) WITHOUT ROWID, STRICT;
CREATE INDEX IF NOT EXISTS answers_by_use ON answers (used);
"""
_CONTEXT = "version, build, board, l1_small, source"
_PASSING = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY)
"""Errors of the moment or of the place: the file itself may be sound."""


@dataclass(frozen=True)
class CacheStatistics:
    """What a cache holds. `contexts` pairs each context with its number of answers, sorted."""

    path: str
    answers: int
    bytes: int
    """Size of the file, without the free pages in it."""
    max_bytes: int
    contexts: tuple[tuple[Context, int], ...]

    def to_json(self) -> dict[str, Any]:
        contexts = [{**asdict(context), "answers": count} for context, count in self.contexts]
        return {**asdict(self), "contexts": contexts}


class AnswerCache:
    """Answers in one file. Any thread may use it, and any number of processes."""

    def __init__(
        self, path: Path, max_bytes: int = DEFAULT_MAX_BYTES, touch_after_seconds: float = TOUCH_AFTER_SECONDS
    ) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self._touch_after_ns = int(touch_after_seconds * 1e9)
        self._lock = threading.RLock()
        self._pending: dict[tuple[Context, bytes], tuple[str, str]] = {}
        self._touched: set[tuple[int, bytes]] = set()
        self._last_write = time.monotonic()
        self._ids: dict[Context, int] = {}
        self._connection = self._opened()

    # -- answers ---------------------------------------------------------------------------------------------
    def get(self, context: Context, text: str) -> str | None:
        """The answer text to a question text, or None."""
        key = key_of(text)
        with self._lock:
            waiting = self._pending.get((context, key))
            if waiting is not None:
                return waiting[1]
            found = self._guarded(lambda: self._find(context, key))
            if found is None:
                return None
            number, answer, seal, used = found
            if seal != seal_of(context, text, answer):
                self._guarded(lambda: self._drop([(number, key)]))
                return None
            if time.time_ns() - used > self._touch_after_ns:
                self._touched.add((number, key))
            return answer

    def put(self, context: Context, text: str, answer: str) -> None:
        """Keep an answer. It is written with others after a moment, and at the latest by `close`."""
        with self._lock:
            self._pending[context, key_of(text)] = (text, answer)
            if len(self._pending) >= WRITE_BATCH or time.monotonic() - self._last_write > WRITE_SECONDS:
                self.flush()

    def flush(self) -> None:
        """Write what waits. When the file is locked or the disk full, it goes on waiting, and the log says so."""
        with self._lock:
            self._last_write = time.monotonic()
            if not self._pending and not self._touched:
                return
            try:
                self._guarded(self._write)
            except OpModelError as error:
                log.warning("%d answers are not written yet: %s", len(self._pending), error)

    def close(self) -> None:
        with self._lock:
            self.flush()
            self._connection.close()

    def contexts(self) -> list[Context]:
        """Contexts that have answers, sorted."""
        with self._lock:
            self.flush()
            return [context for context, _ in self._counts()]

    # -- the whole -------------------------------------------------------------------------------------------
    def statistics(self) -> CacheStatistics:
        with self._lock:
            self.flush()
            counts = tuple(self._counts())
            return CacheStatistics(
                str(self.path), sum(n for _, n in counts), self._used_bytes(), self.max_bytes, counts
            )

    def clear(self) -> int:
        """Remove every answer; their number."""
        with self._lock:
            self.flush()
            self._touched.clear()
            count = self._guarded(lambda: self._connection.execute("DELETE FROM answers").rowcount)
            self._guarded(lambda: self._connection.execute("VACUUM"))
            return count

    def export_lines(self) -> Iterator[str]:
        """One JSON object per answer: who answered, the question, the answer. Sorted, so that exports compare."""
        self.flush()
        rows = self._guarded(lambda: self._connection.execute(
            f"SELECT {_CONTEXT}, question, answer, seal, context, key FROM answers JOIN contexts "
            f"ON contexts.id = answers.context ORDER BY {_CONTEXT}, key").fetchall())  # fmt: skip
        damaged = []
        for *who, question, answer, seal, number, key in rows:
            context = Context(*who)
            if seal == seal_of(context, question, answer):
                yield exported(context, question, answer)
            else:
                damaged.append((number, key))
        if damaged:
            with self._lock:
                self._guarded(lambda: self._drop(damaged))

    def import_records(self, records: Iterable[dict[str, Any]]) -> int:
        """Take over exported answers; their number. FormatError names the first line that is not one."""
        count = 0
        for number, record in enumerate(records, start=1):
            context, question, answer = imported(record, f"line {number}")
            with self._lock:
                self._pending[context, key_of(question)] = (question, answer)
                if len(self._pending) >= IMPORT_BATCH:
                    self._guarded(self._write)
            count = number
        with self._lock:
            self._guarded(self._write)
        return count

    # -- SQLite ----------------------------------------------------------------------------------------------
    def _opened(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with _file_lock(self.path):
                try:
                    return self._connected()
                except sqlite3.DatabaseError as error:
                    if _is_passing(error) or error.sqlite_errorcode == sqlite3.SQLITE_CANTOPEN:
                        raise
                    self._move_aside(str(error))
                    return self._connected()
        except (OSError, sqlite3.DatabaseError) as error:
            raise self._unusable(error) from error

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=32
        )
        try:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, SCHEMA_VERSION):
                raise _damaged(f"schema version {version}, not {SCHEMA_VERSION}")
            connection.executescript(_SCHEMA)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _move_aside(self, reason: str) -> None:
        """Keep the unusable file under another name, with what belongs to it."""
        aside = self.path.with_name(f"{self.path.name}.unusable-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self.path}{suffix}", f"{aside}{suffix}")
        log.warning("answer cache %s is not usable (%s); moved to %s and begun again", self.path, reason, aside.name)

    def _guarded[T](self, run: Callable[[], T]) -> T:
        """`run()`; when the file turns out to be damaged, it is moved aside and `run` gets a new one."""
        try:
            try:
                return run()
            except sqlite3.DatabaseError as error:
                if _is_passing(error):
                    raise
                self._connection.close()
                self._ids.clear()
                self._touched.clear()
                self._connection = self._reopened(error)
                return run()
        except (OSError, sqlite3.DatabaseError) as error:
            raise self._unusable(error) from error

    def _reopened(self, seen: sqlite3.DatabaseError) -> sqlite3.Connection:
        with _file_lock(self.path):
            try:
                connection = self._connected()  # another process may have begun it again already
                found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
                if found == "ok" and seen.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                    return connection
                connection.close()
                raise _damaged(str(seen) if found == "ok" else found)
            except sqlite3.DatabaseError as error:
                self._move_aside(str(error))
                return self._connected()

    def _unusable(self, error: Exception) -> OpModelError:
        return OpModelError(
            f"cannot use the answer cache {self.path}: {error}; {PATH_VARIABLE} names another file, or 'off'"
        )

    def _counts(self) -> list[tuple[Context, int]]:
        """Contexts that have answers, sorted, with their number."""
        rows = self._guarded(lambda: self._connection.execute(
            f"SELECT {_CONTEXT}, count(*) FROM answers JOIN contexts ON contexts.id = answers.context "
            f"GROUP BY context ORDER BY {_CONTEXT}").fetchall())  # fmt: skip
        return [(Context(*who), count) for *who, count in rows]

    def _drop(self, damaged: Sequence[tuple[int, bytes]]) -> None:
        """Remove answers that are not what was written, and say so."""
        self._connection.executemany("DELETE FROM answers WHERE context = ? AND key = ?", damaged)
        log.warning("answer cache %s: dropped, to be asked again: %d damaged answers", self.path, len(damaged))

    def _find(self, context: Context, key: bytes) -> tuple[int, str, bytes, int] | None:
        """Context number, answer text, its seal and time of last use."""
        number = self._context_id(context)
        if number is None:
            return None
        row = self._connection.execute(
            "SELECT answer, seal, used FROM answers WHERE context = ? AND key = ?", (number, key)
        ).fetchone()
        return None if row is None else (number, *row)

    def _context_id(self, context: Context) -> int | None:
        found = self._ids.get(context)
        if found is None:
            row = self._connection.execute(
                f"SELECT id FROM contexts WHERE ({_CONTEXT}) = (?, ?, ?, ?, ?)",
                astuple(context),
            ).fetchone()
            if row is None:
                return None
            found = self._ids[context] = int(row[0])
        return found

    def _write(self) -> None:
        connection, now = self._connection, time.time_ns()
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany(
                f"INSERT OR IGNORE INTO contexts ({_CONTEXT}) VALUES (?, ?, ?, ?, ?)",
                [astuple(context) for context in sorted({context for context, _ in self._pending})],
            )
            connection.executemany(
                "INSERT OR REPLACE INTO answers (context, key, question, answer, seal, used) VALUES (?, ?, ?, ?, ?, ?)",
                [(self._context_id(c), key, question, answer, seal_of(c, question, answer), now)
                 for (c, key), (question, answer) in self._pending.items()],
            )  # fmt: skip
            connection.executemany(
                "UPDATE answers SET used = ? WHERE context = ? AND key = ?",
                [(now, number, key) for number, key in sorted(self._touched)],
            )
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self._pending.clear()
        self._touched.clear()
        self._shrink()

    def _used_bytes(self) -> int:
        pages, free, size = (
            self._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def _shrink(self) -> None:
        """Remove the answers that were not used for longest while the file is above its cap."""
        while (used := self._used_bytes()) > self.max_bytes:
            count = self._connection.execute("SELECT count(*) FROM answers").fetchone()[0]
            if not count:
                break
            surplus = int(count * (1 - KEPT_SHARE * self.max_bytes / used)) + 1
            self._connection.execute(
                "DELETE FROM answers WHERE (context, key) IN "
                "(SELECT context, key FROM answers ORDER BY used, key LIMIT ?)", (surplus,)
            )  # fmt: skip
            self._connection.execute("PRAGMA incremental_vacuum").fetchall()


# -- the cache of this process -------------------------------------------------------------------------------
_shared: dict[Path, AnswerCache] = {}
_abandoned: list[AnswerCache] = []
_shared_lock = threading.Lock()


def shared_cache() -> AnswerCache | None:
    """The cache that the environment names, opened once per process; None when it is switched off.

    `TTOPT_ANSWER_CACHE` is a file or `off` (default: `answers.sqlite3` in ttopt's cache folder),
    `TTOPT_ANSWER_CACHE_BYTES` its cap.
    """
    named = os.environ.get(PATH_VARIABLE) or ""
    if named == "off":
        return None
    path = Path(named).absolute() if named else default_path()
    with _shared_lock:
        cache = _shared.get(path)
        if cache is None:
            cache = _shared[path] = AnswerCache(path, whole_number(BYTES_VARIABLE, DEFAULT_MAX_BYTES))
            Finalize(None, close_shared, exitpriority=100)  # worker processes end without `atexit`
        return cache


def default_path() -> Path:
    try:
        return cache_folder() / "answers.sqlite3"
    except EnvironmentProblem as error:
        raise OpModelError(f"no place for the answer cache: {error}; {PATH_VARIABLE} names a file, or 'off'") from error


def close_shared() -> None:
    """Write and close; the next use opens again."""
    with _shared_lock:
        caches = list(_shared.values())
        _shared.clear()
    for cache in caches:
        cache.close()


def _abandon() -> None:
    """A connection must not be used, nor closed, in a process forked from the one that opened it."""
    global _shared_lock
    _shared_lock = threading.Lock()
    _abandoned.extend(_shared.values())
    _shared.clear()


atexit.register(close_shared)
os.register_at_fork(after_in_child=_abandon)


def _is_passing(error: sqlite3.DatabaseError) -> bool:
    """Whether it says nothing against the file."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _PASSING


def _damaged(what: str) -> sqlite3.DatabaseError:
    """What SQLite would say of a file that holds something else."""
    error = sqlite3.DatabaseError(what)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


@contextlib.contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    """Only one process at a time opens or replaces the file."""
    with open(f"{path}.lock", "a", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
