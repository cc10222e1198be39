"""Answers on disk: kept, shared, capped, and begun again when the file is damaged."""

from __future__ import annotations

import json
import logging
import multiprocessing
import sqlite3
from pathlib import Path

import pytest

from optimizer.errors import FormatError, OpModelError, OptionError
from optimizer.opmodel import answer_cache
from optimizer.opmodel.answer_cache import AnswerCache
from optimizer.opmodel.answer_records import Context, canonical

MOCK = Context("0.81.1", "a1", "n150", 32768, "mock")
OTHERS = [
    Context("0.82.0", "a1", "n150", 32768, "mock"),
    Context("0.81.1", "a2", "n150", 32768, "mock"),
    Context("0.81.1", "a1", "p150", 32768, "mock"),
    Context("0.81.1", "a1", "n150", 0, "mock"),
    Context("0.81.1", "a1", "n150", 32768, "real"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "answers.sqlite3"


def question(number: int) -> str:
    return canonical({"call": f"ttnn.relu(x{number})", "inputs": []})


def answer(number: int) -> str:
    return canonical({"valid": True, "number": number})


def filled(path: Path, count: int = 20, **options: float) -> AnswerCache:
    cache = AnswerCache(path, **options)  # type: ignore[arg-type]
    for number in range(count):
        cache.put(MOCK, question(number), answer(number))
    return cache


def test_an_answer_is_there_at_once_and_in_the_next_run(path: Path) -> None:
    cache = filled(path)
    assert [cache.get(MOCK, question(n)) for n in range(21)] == [*(answer(n) for n in range(20)), None]
    cache.close()
    again = AnswerCache(path)
    assert [again.get(MOCK, question(n)) for n in range(21)] == [*(answer(n) for n in range(20)), None]
    again.close()


def test_a_later_answer_replaces_an_earlier_one(path: Path) -> None:
    cache = filled(path, 1)
    cache.flush()
    cache.put(MOCK, question(0), answer(7))
    cache.flush()
    assert cache.get(MOCK, question(0)) == answer(7)
    assert cache.statistics().answers == 1


@pytest.mark.parametrize(
    "other", OTHERS, ids=lambda c: f"{c.version}-{c.build}-{c.board}-{c.l1_small_bytes}-{c.source}"
)
def test_contexts_do_not_mix(path: Path, other: Context) -> None:
    cache = filled(path, 1)
    cache.put(other, question(1), answer(1))
    cache.flush()
    assert cache.get(other, question(0)) is None
    assert cache.get(MOCK, question(1)) is None
    assert cache.contexts() == sorted([MOCK, other])


@pytest.mark.parametrize("damage", ["text", "middle", "schema"])
def test_a_damaged_file_is_moved_aside_and_begun_anew(
    path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    filled(path, 400).close()
    if damage == "text":
        path.write_text("this is no database, and long enough to be looked at as one " * 100)
    elif damage == "middle":
        data = bytearray(path.read_bytes())
        data[4096:] = b"\xa5" * (len(data) - 4096)
        path.write_bytes(data)
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA user_version = 99")
        connection.close()
    with caplog.at_level(logging.WARNING):
        cache = AnswerCache(path)
        assert cache.get(MOCK, question(1)) is None
        cache.put(MOCK, question(1), answer(1))
        cache.flush()
    assert "is not usable" in caplog.text
    assert cache.get(MOCK, question(1)) == answer(1)
    assert len(list(path.parent.glob("answers.sqlite3.unusable-*"))) >= 1
    cache.close()


@pytest.mark.parametrize(
    "damage",
    [
        """UPDATE answers SET answer = replace(answer, '1', '2') WHERE question LIKE '%x1)%'""",
        "UPDATE answers SET answer = substr(answer, 1, 9)",
        "UPDATE answers SET question = question || ' '; UPDATE answers SET seal = x'00'",
        "UPDATE answers SET answer = ''",
        "UPDATE contexts SET build = 'a2'",
        "UPDATE contexts SET l1_small = 0",
    ],
)
def test_an_answer_that_is_not_what_was_written_is_dropped(
    path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    filled(path, 3).close()
    with sqlite3.connect(path) as connection:
        connection.executescript(damage)
        who = Context(*connection.execute("SELECT version, build, board, l1_small, source FROM contexts").fetchone())
    connection.close()
    cache = AnswerCache(path)
    assert cache.get(who, question(1)) is None
    assert "dropped, to be asked again: 1 damaged answers" in caplog.text
    assert cache.statistics().answers == 2
    cache.close()


def test_an_export_leaves_damaged_answers_out(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = filled(path, 3)
    cache.flush()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE answers SET answer = '{' WHERE question = ?", (question(1),))
    connection.close()
    assert len(list(cache.export_lines())) == 2
    assert "1 damaged answers" in caplog.text
    cache.close()


@pytest.mark.parametrize("damage", ["DROP TABLE answers", "ALTER TABLE answers RENAME seal TO other"])
def test_a_file_with_other_tables_is_moved_aside(path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    cache = filled(path, 3)
    cache.flush()
    with sqlite3.connect(path) as connection:
        connection.execute(damage)
    connection.close()
    assert cache.get(MOCK, question(1)) is None
    assert "is not usable" in caplog.text
    cache.put(MOCK, question(1), answer(1))
    cache.flush()
    assert cache.get(MOCK, question(1)) == answer(1)
    cache.close()


def test_a_folder_in_its_place_is_named(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(OpModelError, match="cannot use the answer cache"):
        AnswerCache(path)


def _write_many(path: str, first: int, count: int) -> None:
    cache = AnswerCache(Path(path))
    for number in range(first, first + count):
        cache.put(MOCK, question(number), answer(number))
        assert cache.get(MOCK, question(number)) == answer(number)
    cache.close()


def test_two_processes_write_one_file(path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_write_many, args=(str(path), first, 700)) for first in (0, 500)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    cache = AnswerCache(path)
    assert cache.statistics().answers == 1200
    assert [cache.get(MOCK, question(n)) for n in range(1200)] == [answer(n) for n in range(1200)]
    cache.close()


def test_a_locked_file_loses_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(answer_cache, "BUSY_SECONDS", 0.05)
    cache = filled(path, 3)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    cache.flush()
    assert "3 answers are not written yet" in caplog.text
    assert cache.get(MOCK, question(2)) == answer(2)
    other.execute("ROLLBACK")
    other.close()
    cache.close()
    again = AnswerCache(path)
    assert again.statistics().answers == 3
    again.close()


def test_the_cap_removes_what_was_not_used_for_longest(path: Path) -> None:
    cache = filled(path, 2000, touch_after_seconds=0)
    cache.flush()
    full = cache.statistics().bytes
    for number in range(0, 2000, 10):
        assert cache.get(MOCK, question(number)) is not None
    cache.flush()
    cache.max_bytes = full // 2
    cache.put(MOCK, question(5000), answer(5000))
    cache.flush()
    assert cache.get(MOCK, question(5000)) == answer(5000)
    left = {number for number in range(2000) if cache.get(MOCK, question(number)) is not None}
    assert cache.statistics().bytes <= cache.max_bytes
    assert set(range(0, 2000, 10)) <= left
    assert 500 < len(left) < 1200
    cache.close()


def test_clear_removes_everything(path: Path) -> None:
    cache = filled(path, 300)
    assert cache.statistics().answers == 300
    cache.put(MOCK, question(300), answer(300))
    assert cache.clear() == 301
    assert cache.statistics().answers == 0
    assert cache.get(MOCK, question(1)) is None
    cache.close()


def test_an_export_serves_another_machine(path: Path, tmp_path: Path) -> None:
    cache = filled(path)
    for other in OTHERS:
        cache.put(other, question(1), answer(2))
    lines = list(cache.export_lines())
    assert len(lines) == 25
    copy = AnswerCache(tmp_path / "copy.sqlite3")
    assert copy.import_records(json.loads(line) for line in lines) == 25
    assert list(copy.export_lines()) == lines
    assert copy.get(MOCK, question(5)) == answer(5)
    cache.close()
    copy.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 1}, "'schema' must be 2, got 1"),
        ({"board": 7}, "'board' must be str, got 7"),
        ({"l1_small_bytes": None}, "'l1_small_bytes' must be int"),
        ({"question": "relu"}, "'question' must be dict"),
        ({"answer": {}}, "'answer' has no 'valid'"),
        ({"answer": {"valid": True, "number": 2}}, "the line was changed after its export"),
        ({"build": "a2"}, "the line was changed after its export"),
    ],
)
def test_what_is_no_export_is_refused_by_its_line(path: Path, change: dict, message: str) -> None:
    cache = filled(path, 2)
    records = [json.loads(line) for line in cache.export_lines()]
    records[1].update(change)
    with pytest.raises(FormatError, match=f"line 2: {message}"):
        cache.import_records(records)
    cache.close()


def _put_in_shared(number: int) -> None:
    cache = answer_cache.shared_cache()
    assert cache is not None
    cache.put(MOCK, question(number), answer(number))


class TestSharedCache:
    @pytest.mark.parametrize("method", ["spawn", "fork"])
    @pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
    def test_worker_processes_write_what_they_hold(
        self, monkeypatch: pytest.MonkeyPatch, path: Path, method: str
    ) -> None:
        monkeypatch.setenv("TTOPT_ANSWER_CACHE", str(path))
        try:
            _put_in_shared(0)
            worker = multiprocessing.get_context(method).Process(target=_put_in_shared, args=(1,))
            worker.start()
            worker.join(60)
            assert worker.exitcode == 0
            _put_in_shared(2)
        finally:
            answer_cache.close_shared()
        cache = AnswerCache(path)
        assert [cache.get(MOCK, question(n)) for n in range(3)] == [answer(n) for n in range(3)]
        cache.close()

    def test_the_environment_names_the_file(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        monkeypatch.setenv("TTOPT_ANSWER_CACHE", str(path))
        monkeypatch.setenv("TTOPT_ANSWER_CACHE_BYTES", "1000000")
        try:
            cache = answer_cache.shared_cache()
            assert cache is not None
            assert cache is answer_cache.shared_cache()
            assert (cache.path, cache.max_bytes) == (path, 1_000_000)
        finally:
            answer_cache.close_shared()

    def test_off_is_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TTOPT_ANSWER_CACHE", "off")
        assert answer_cache.shared_cache() is None

    def test_a_wrong_cap_is_refused(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        monkeypatch.setenv("TTOPT_ANSWER_CACHE", str(path))
        monkeypatch.setenv("TTOPT_ANSWER_CACHE_BYTES", "lots")
        with pytest.raises(OptionError, match="TTOPT_ANSWER_CACHE_BYTES"):
            answer_cache.shared_cache()
