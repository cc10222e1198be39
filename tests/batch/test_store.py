"""The store of finished jobs: durable, one batch at a time, nothing but a store."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from optimizer.batch.store import LOCK_NAME, STORE_NAME, ResultStore, Stored
from optimizer.errors import FormatError, OutputError

STORED = Stored({"ops": 3, "gap": None}, {"graph.json": "00"}, 1.5)


def test_what_was_put_is_there_after_a_kill(tmp_path: Path) -> None:
    program = (
        "import os, sys, signal; from pathlib import Path; from optimizer.batch.store import ResultStore, Stored\n"
        "store = ResultStore(Path(sys.argv[1]))\n"
        "store.put('key', Stored({'ops': 3, 'gap': None}, {'graph.json': '00'}, 1.5))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program, tmp_path], check=False).returncode == -9
    store = ResultStore(tmp_path)
    assert store.get("key") == STORED
    assert store.get("other") is None
    store.close()


def test_one_batch_writes_into_a_folder(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    with pytest.raises(OutputError, match="another batch is writing into this folder"):
        ResultStore(tmp_path)
    store.close()
    ResultStore(tmp_path).close()


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / STORE_NAME).write_text("this is not a database, it is a text that is long enough" * 20)
    with pytest.raises(FormatError, match="not a result store"):
        ResultStore(tmp_path)


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / STORE_NAME)) as other:
        other.execute("CREATE TABLE finished (key TEXT PRIMARY KEY, record TEXT)")
    with pytest.raises(FormatError, match="not a result store of this version: its table has other columns"):
        ResultStore(tmp_path)
    with pytest.raises(FormatError):  # and the folder is nobody's
        ResultStore(tmp_path)


def test_a_damaged_store_is_refused_with_a_way_out(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    for n in range(200):
        store.put(f"key{n}", STORED)
    store.close()
    whole = (tmp_path / STORE_NAME).read_bytes()
    (tmp_path / STORE_NAME).write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    store = ResultStore(tmp_path)
    with pytest.raises(FormatError, match="the same folder without this file"):
        store.get("key7")
    with pytest.raises(FormatError, match="not a result store"):
        store.put("key7", STORED)
    store.close()


def test_an_entry_that_is_no_entry_is_refused(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.put("key", STORED)
    store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / STORE_NAME)) as other, other:
        other.execute("UPDATE finished SET figures = '{'")
    store = ResultStore(tmp_path)
    with pytest.raises(FormatError, match="an entry is damaged"):
        store.get("key")
    store.close()


@pytest.mark.parametrize("name", [STORE_NAME, LOCK_NAME])
def test_nothing_is_put_into_a_store_that_was_removed(tmp_path: Path, name: str) -> None:
    store = ResultStore(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(OutputError, match="it was removed while the batch ran"):
        store.put("key", STORED)
    store.close()


def test_a_link_in_place_of_the_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / STORE_NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="it is a link"):
        ResultStore(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
