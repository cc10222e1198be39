"""Names that steer a terminal are shown by every command, and JSON stays what it was."""

from __future__ import annotations

import io
import json
import unicodedata
from pathlib import Path

import pytest

from optimizer.cli import main
from optimizer.cli.terminal import ShownText, one_line, redraw, shown

EVIL = "a\x1b[2Jb\x1b]0;title\x07c\rd\u202ee\x9bf\u200bg\nh\u2028i\U000e0041j\x7f"
SEEN = r"a\u001b[2Jb\u001b]0;title\u0007c\u000dd\u202ee\u009bf\u200bg\nh\u2028i\udb40\udc41j\u007f"
"""What a reader sees of it."""
COMMANDS = (
    ("inspect", "model"), ("top", "result"), ("chains", "result"), ("timeline", "result"), ("timeline", "result", "op"),
    ("timeline", "result", "--csv"), ("explain", "result", "op"), ("diff", "result", "result"), ("check", "result"),
    ("price", "result"), ("check", "result", "--model", "model"), ("explain", "result", "nowhere"),
)  # fmt: skip


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A model all of whose names are evil, and its result."""
    folder = tmp_path_factory.mktemp("evil")
    graph = chain_of(EVIL, EVIL + "relu", EVIL + "exp")
    model = folder / "model.json"
    model.write_text(json.dumps(graph))
    return {"model": str(model), "result": str(folder / "out"), "op": f"{EVIL}relu"}


def chain_of(name: str, first: str, last: str) -> dict[str, object]:
    """A graph of two ops with values named after `name`."""
    x, y, z = (f"{name}{place}" for place in "xyz")
    kinds = {x: "input", y: "activation", z: "activation"}
    return {
        "schema": "ttopt.annotated-graph/1",
        "model": {"name": name, "inputs": [x], "outputs": [z]},
        "values": {value: {"shape": [1, 1, 32, 64], "dtype": "bf16", "kind": kind} for value, kind in kinds.items()},
        "ops": [
            {"id": first, "op": "ttnn.relu", "inputs": [x], "outputs": [y]},
            {"id": last, "op": "ttnn.exp", "inputs": [y], "outputs": [z]},
        ],
    }


def is_harmless(text: str) -> bool:
    return all(c in "\n\t" or unicodedata.category(c) not in {"Cc", "Cf", "Zl", "Zp", "Cs"} for c in text)


def test_an_evil_name_is_shown_as_json_writes_it() -> None:
    assert one_line(EVIL) == SEEN
    assert one_line(SEEN) == SEEN
    assert json.loads(shown(json.dumps(EVIL, ensure_ascii=False))) == EVIL
    assert shown("größer 模型\n\tthan") == "größer 模型\n\tthan"


def test_optimize_shows_it(given: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", given["model"], "-o", given["result"], "--policy", "dram"]) == 0
    said = capsys.readouterr()
    assert is_harmless(said.out + said.err)


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_shows_it(
    command: tuple[str, ...], form: str, given: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    if not Path(given["result"]).exists():
        main(["optimize", given["model"], "-o", given["result"], "--policy", "dram"])
    capsys.readouterr()
    has_form = "--csv" not in command
    if form == "json" and not has_form:
        pytest.skip("a table of its own")
    main([*(given.get(word, word) for word in command), *(["--format", form] if has_form else [])])
    said = capsys.readouterr()
    assert is_harmless(said.out + said.err)
    if form == "json" and said.out:
        json.loads(said.out)
    elif has_form:
        assert not [line for line in said.out.splitlines() if line.startswith("h\\u2028")], "a name makes a line"


def test_artifacts_for_spreadsheets_have_no_formulas(tmp_path: Path) -> None:
    graph = chain_of("m", "=cmd()", "@sum")
    model = tmp_path / "model.json"
    model.write_text(json.dumps(graph))
    assert main(["optimize", str(model), "-o", str(tmp_path), "--policy", "dram", "--emit", "perf-csv"]) == 0
    text = (tmp_path / "ops_perf_results_predicted.csv").read_text()
    assert "=cmd()" in text
    assert ",=cmd()" not in text
    assert not text.startswith("=")


def test_a_bar_is_the_only_thing_that_steers() -> None:
    stream = io.StringIO()
    redraw(ShownText(stream), "half\r\x1b[31m")
    assert stream.getvalue() == "\r\x1b[Khalf\\u000d\\u001b[31m"
