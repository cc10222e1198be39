"""The store of finished jobs: durable, one batch at a time, nothing but a store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from optimizer.batch.store import STORE_NAME, ResultStore, Stored
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


def test_a_link_in_place_of_the_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / STORE_NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="it is a link"):
        ResultStore(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
