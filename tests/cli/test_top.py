"""`ttopt top`: shares that add up to the whole, however the ops are put together."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from optimizer.cli.top import GROUPS

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("by", GROUPS)
def test_shares_add_up(run: Run, result_folder: Path, by: str) -> None:
    summary = json.loads((result_folder / "graph.json").read_text(encoding="utf-8"))["summary"]
    record = json.loads(run("top", result_folder, "--by", by, "--all", "--format", "json")[1])
    rows = record["rows"]
    assert record["predicted_time_ns"] == sum(row["time_ns"] for row in rows) == summary["predicted_time_ns"]
    assert [row["time_ns"] for row in rows] == sorted((row["time_ns"] for row in rows), reverse=True)
    assert rows[-1]["cumulative_share"] == 1.0
    assert all(sum(row["bound_ns"].values()) == row["time_ns"] for row in rows)
    if by == "class":
        assert {row["name"]: row["time_ns"] for row in rows} == summary["time_by_class_ns"]
    if by == "bound":
        assert {row["name"]: row["time_ns"] for row in rows} == summary["time_by_bound_ns"]


def test_the_longest_come_first_and_the_rest_is_counted(run: Run, result_folder: Path) -> None:
    whole = json.loads(run("top", result_folder, "--all", "--format", "json")[1])
    first = json.loads(run("top", result_folder, "--count", "1", "--format", "json")[1])
    assert first["rows"] == whole["rows"][:1]
    assert first["left_out"] == len(whole["rows"]) - 1
    out = run("top", result_folder, "--count", "1")[1]
    assert f"the 1 longest of {len(whole['rows'])} take" in out
    assert first["rows"][0]["name"] in out


def test_a_result_without_times_has_no_ranking(run: Run, result_folder: Path, tmp_path: Path) -> None:
    document = json.loads((result_folder / "graph.json").read_text(encoding="utf-8"))
    for op in document["ops"]:
        op["predicted"] = None
    (tmp_path / "graph.json").write_text(json.dumps(document), encoding="utf-8")
    status, out, err = run("top", tmp_path)
    assert (status, out) == (2, "")
    assert "`ttopt price` computes" in err
