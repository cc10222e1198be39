"""`ttopt top`: shares that add up to the whole, however the ops are put together."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from optimizer.cli.top import GROUPS
from optimizer.wording.units import time_text

ROOT = Path(__file__).parents[2]
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


@pytest.mark.parametrize("by", ["op", "class", "bound"])
@pytest.mark.slow
def test_a_kernel_stands_for_its_ops(run: Run, fused_folder: Path, by: str) -> None:
    document = json.loads((fused_folder / "graph.json").read_text(encoding="utf-8"))
    record = json.loads(run("top", fused_folder, "--by", by, "--all", "--format", "json")[1])
    assert record["predicted_time_ns"] == document["summary"]["predicted_time_ns"]
    kernel = document["fused_kernels"][0]
    found = {row["name"]: row for row in record["rows"]}
    if by == "op":
        assert found[kernel["place"]]["call"] == f"kernel {kernel['kernel']}"
        assert found[kernel["place"]]["time_ns"] == kernel["predicted_ns"]
        assert found.keys().isdisjoint(set(kernel["ops"]) - {kernel["place"]})
    elif by == "class":
        assert {name: row["time_ns"] for name, row in found.items()} == document["summary"]["time_by_class_ns"]


def test_an_op_says_what_its_kernel_takes_and_saves(run: Run, fused_folder: Path) -> None:
    document = json.loads((fused_folder / "graph.json").read_text(encoding="utf-8"))
    kernel = document["fused_kernels"][0]
    out = run("explain", fused_folder, kernel["ops"][0], "--recorded")[1]
    assert f"runs in kernel {kernel['kernel']} with {len(kernel['ops']) - 1} other op(s)" in out
    assert "instead of" in out


@pytest.mark.slow
def test_the_summary_says_what_kernels_save(run: Run, fused_folder: Path, tmp_path: Path) -> None:
    out = run("optimize", ROOT / "fixtures/graphs/fork.json", "--fuse-kernels", "-o", tmp_path)[1]
    document = json.loads((fused_folder / "graph.json").read_text(encoding="utf-8"))
    saved = sum(kernel["saved_ns"] for kernel in document["fused_kernels"])
    assert f"{time_text(saved)}, " in next(line for line in out.splitlines() if line.startswith("fused kernels"))


@pytest.fixture
def fused_folder(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result with one of our kernels in it."""
    folder = tmp_path_factory.mktemp("fused")
    assert run("optimize", ROOT / "fixtures/graphs/fork.json", "--fuse-kernels", "-o", folder)[0] == 0
    return folder
