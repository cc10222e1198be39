"""`ttopt opmodel cache`: what is kept, and taking it elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from optimizer.cli import main
from optimizer.opmodel.answer_cache import AnswerCache, close_shared
from optimizer.opmodel.answer_records import Context, canonical

MOCK = Context("0.81.1", "a1", "n150", 32768, "mock")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    found = tmp_path / "answers.sqlite3"
    cache = AnswerCache(found)
    for number in range(3):
        cache.put(MOCK, canonical({"call": f"ttnn.relu(x{number})", "inputs": []}), '{"kind":"abort","valid":false}')
    cache.close()
    monkeypatch.setenv("TTOPT_ANSWER_CACHE", str(found))
    yield found
    close_shared()


def test_stats(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opmodel", "cache", "stats"]) == 0
    first, _, _, row = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{path}: 3 answers, ")
    assert row.split() == ["0.81.1", "a1", "n150", "32768", "mock", "3"]


def test_stats_as_json(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opmodel", "cache", "stats", "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["path"], record["answers"]) == (str(path), 3)
    assert record["contexts"] == [
        {"version": "0.81.1", "build": "a1", "board": "n150", "l1_small_bytes": 32768, "source": "mock", "answers": 3}
    ]


def test_export_clear_import(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opmodel", "cache", "export"]) == 0
    exported = capsys.readouterr().out
    assert len(exported.splitlines()) == 3
    file = path.with_name("export.jsonl")
    file.write_text(exported)
    assert main(["opmodel", "cache", "clear"]) == 0
    assert capsys.readouterr().err == "3 answers removed\n"
    assert main(["opmodel", "cache", "import", str(file)]) == 0
    assert capsys.readouterr().err == "3 answers taken over\n"
    assert main(["opmodel", "cache", "export"]) == 0
    assert capsys.readouterr().out == exported


def test_a_file_that_is_no_export_is_refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = path.with_name("rows.jsonl")
    file.write_text('{"op": "relu"}\n')
    assert main(["opmodel", "cache", "import", str(file)]) == 2
    assert "line 1: 'schema' must be 2, got None" in capsys.readouterr().err


def test_no_cache_no_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TTOPT_ANSWER_CACHE", "off")
    assert main(["opmodel", "cache", "stats"]) == 2
    assert "TTOPT_ANSWER_CACHE is 'off'" in capsys.readouterr().err


def test_jobs_must_be_a_count(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opmodel", "query", str(path), "--jobs", "0"]) == 2
    assert "a whole number of at least 1, got '0'" in capsys.readouterr().err
