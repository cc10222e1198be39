"""Logs: who is heard, what a line looks like, and that a run tells the same twice and nothing unasked."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from optimizer.batch.local import LocalExecutor
from optimizer.cli import main
from optimizer.errors import OptionError
from optimizer.process import logs
from optimizer.process.logs import LogSettings


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Every test begins and ends with nobody heard."""
    logs.configure(LogSettings())
    yield
    logs.configure(LogSettings())


@pytest.mark.parametrize(
    ("text", "verbosity", "solver", "policy"),
    [
        ("", 0, logs.OFF, logs.OFF),
        ("debug", 0, logging.DEBUG, logging.DEBUG),
        ("solver=debug, policy=info", 0, logging.DEBUG, logging.INFO),
        ("solver=debug", 1, logging.DEBUG, logging.INFO),
        ("solver=off,debug", 0, logs.OFF, logging.DEBUG),
        ("info", 2, logging.DEBUG, logging.DEBUG),
        ("debug", 1, logging.DEBUG, logging.DEBUG),
        ("", 7, logging.DEBUG, logging.DEBUG),
        ("json,time", 0, logs.OFF, logs.OFF),
    ],
)
def test_who_is_heard(text: str, verbosity: int, solver: int, policy: int) -> None:
    settings = LogSettings.parse(text).raised(verbosity)
    assert (settings.level_of("solver"), settings.level_of("policy")) == (solver, policy)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loud", "TTOPT_LOG: 'loud' means nothing in a log setting (one of: debug, info, off, json, time)"),
        ("solvr=debug", "TTOPT_LOG: 'solvr' means nothing in a log setting (one of: pipeline,"),
        ("solver=2", "TTOPT_LOG: '2' means nothing in a log setting (one of: debug, info, off)"),
    ],
)
def test_what_means_nothing_is_refused(text: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        LogSettings.parse(text)
    assert str(caught.value).startswith(message)


def test_a_line_is_keys_and_values_that_no_name_can_break(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings.parse("info"))
    with logs.labelled(job="m--board=p150"):
        logs.room("policy").info(
            "trial", op="conv 1\n\x1b[2K", ops=["a", "b"], taken=True, because=None, saved_ns=3, sizes=[1, 2]
        )
    assert capsys.readouterr() == (
        "",
        "level=info room=policy event=trial "
        r'op="conv 1\n\u001b[2K" ops=a,b taken=true because=null saved_ns=3 sizes=[1,2] job="m--board=p150"' + "\n",
    )


def test_json_lines_have_the_same_keys(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings.parse("info,json"))
    logs.room("policy").info("trial", op="é", saved_ns=3)
    line = capsys.readouterr().err
    assert json.loads(line) == {"level": "info", "room": "policy", "event": "trial", "op": "é", "saved_ns": 3}
    assert line.isascii()


def test_the_time_is_told_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings.parse("info,time"))
    logs.room("policy").info("trial")
    assert re.match(r"time=\d{4}-\d\d-\d\dT[\d:.]+\+00:00 level=info ", capsys.readouterr().err)


def test_a_program_may_listen_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ttopt"):
        logs.room("policy").info("trial", op="a")
        logs.room("policy").debug("step")
    assert [(r.name, r.getMessage()) for r in caplog.records] == [("ttopt.policy", "event=trial op=a")]


def test_a_room_that_does_not_exist_has_no_log() -> None:
    with pytest.raises(KeyError):
        logs.room("kitchen")


def optimized(capsys: pytest.CaptureFixture[str], folder: Path, *more: str) -> tuple[str, str]:
    graph = Path(__file__).resolve().parents[2] / "fixtures/graphs/fork.json"
    assert main(["optimize", str(graph), "-o", str(folder), *more]) == 0
    printed = capsys.readouterr()
    return printed.out, printed.err


def test_a_run_tells_nothing_unasked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert optimized(capsys, tmp_path)[1] == ""


def test_a_run_tells_every_stage_and_the_same_twice(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    quiet_plan = optimized(capsys, tmp_path / "quiet") and plan(tmp_path / "quiet")
    first = optimized(capsys, tmp_path / "a", "-vv")[1]
    second = optimized(capsys, tmp_path / "b", "-vv")[1]
    assert first == second
    assert plan(tmp_path / "a") == plan(tmp_path / "b") == quiet_plan
    heard = {(m[1], m[2]) for m in re.finditer(r'^level=\w+ room=(\w+) event=("[^"]+"|\S+)', first, re.MULTILINE)}
    assert len(first.splitlines()) == len(re.findall(r"^level=", first, re.MULTILINE))
    assert heard >= {
        ("pipeline", "stage"),
        ("importers", "imported"),
        ("layouts", "legal"),
        ("policy", "chain"),
        ("policy", '"chain state"'),
        ("policy", "trial"),
        ("policy", "incumbent"),
        ("policy", "bound"),
        ("solver", "edge"),
        ("solver", "resolved"),
        ("solver", "elimination"),
        ("transform", "applied"),
        ("verify", "verified"),
    }


def plan(folder: Path) -> object:
    document = json.loads((folder / "graph.json").read_text(encoding="utf-8"))
    del document["timings"]
    return document


def test_once_v_leaves_out_the_steps(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    err = optimized(capsys, tmp_path, "-v")[1]
    assert "level=info room=policy event=chain " in err
    assert "level=debug" not in err


def test_the_environment_says_it_room_by_room(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(logs.VARIABLE, "solver=debug")
    err = optimized(capsys, tmp_path)[1]
    assert set(re.findall(r"room=(\w+)", err)) == {"solver"}


def test_a_wrong_setting_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(logs.VARIABLE, "loud")
    assert main(["boards"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ttopt: error: TTOPT_LOG: 'loud' means nothing")


def settings_here() -> LogSettings:
    return logs.active()


def test_worker_processes_are_heard_as_their_parent_is() -> None:
    settings = LogSettings.parse("solver=debug,json")
    logs.configure(settings)
    executor = LocalExecutor(1, preload=None)
    try:
        executor.submit("one", partial(settings_here))
        (outcome,) = executor.as_completed()
    finally:
        executor.close()
    assert outcome.value == settings


def test_every_room_is_described_and_used(project_root: Path) -> None:
    page = (project_root / "docs/solver.md").read_text(encoding="utf-8")
    assert [room for room, tells in logs.ROOMS.items() if f"| `{room}` | {tells} |" not in page] == []
    files = [path for package in ("optimizer", "api") for path in (project_root / package).rglob("*.py")]
    sources = "\n".join(path.read_text(encoding="utf-8") for path in files)
    assert set(re.findall(r'logs\.room\("(\w+)"\)', sources)) == set(logs.ROOMS)
