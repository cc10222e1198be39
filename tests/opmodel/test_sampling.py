"""Sampled questions and the table that compares a backend with their answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from optimizer.opmodel.query import query_rows

OPS = ("softmax", "matmul", "reshard", "conv2d", "embedding")


@pytest.fixture
def sampled(project_root: Path, tmp_path: Path):
    """Rows for the options of the sampler."""

    def run(*options: str, name: str = "rows.jsonl") -> list[dict[str, Any]]:
        path = tmp_path / name
        script = str(project_root / "scripts" / "sample_opmodel_queries.py")
        subprocess.run([sys.executable, script, *options, "-o", str(path)], check=True, capture_output=True)
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]

    return run


def test_the_same_options_give_the_same_rows(sampled) -> None:
    options = (*OPS, "--family", "tiny", "--family", "vit_b", "--board", "n150", "--count", "5")
    first = sampled(*options, "--seed", "3")
    assert len(first) == len(OPS) * 2 * 5
    assert first == sampled(*options, "--seed", "3", name="again.jsonl")
    assert first != sampled(*options, "--seed", "4", name="other.jsonl")


def test_what_is_sampled_of_one_op_does_not_depend_on_the_others(sampled) -> None:
    options = ("--family", "bert_base", "--board", "p150", "--count", "5", "--seed", "1")
    alone = [{**row, "id": 0} for row in sampled("softmax", *options)]
    among = [{**row, "id": 0} for row in sampled(*OPS, *options, name="all.jsonl") if row["op"] == "softmax"]
    assert alone == among


def test_every_sampled_question_is_answered(sampled) -> None:
    rows = sampled("--family", "unaligned", "--board", "n150", "--count", "2", "--seed", "0")
    assert len(list(query_rows(rows))) == len(rows) > 100


@pytest.fixture
def compared(project_root: Path, tmp_path: Path):
    """The benchmark on recorded and fresh rows: (exit code, text)."""

    def run(rows: list[dict[str, Any]], fresh: list[dict[str, Any]]) -> tuple[int, str]:
        options = [str(project_root / "benchmarks" / "opmodel_agreement.py")]
        for name, part in (("rows.jsonl", rows), ("fresh.jsonl", fresh)):
            path = tmp_path / name
            path.write_text("".join(json.dumps(row) + "\n" for row in part), encoding="utf-8")
            options.append(str(path) if name == "rows.jsonl" else f"--against={path}")
        done = subprocess.run([sys.executable, *options], capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return done.returncode, done.stdout

    return run


def _row(family: str, valid: bool = True) -> dict[str, Any]:
    """A softmax that the model accepts with these very bytes."""
    memory = {"memory_layout": "interleaved", "buffer": "dram"}
    answer = {"valid": valid, "kind": None if valid else "op", "error": "refused", "out_mem": memory}
    return {
        "id": 0,
        "board": "n150",
        "op": "softmax",
        "family": family,
        "attrs": {"dim": -1},
        "inputs": [{"shape": [1, 1, 64, 3072], "dtype": "bf16", "layout": "tile", **memory}],
        "request_mem": None,
        "request_dtype": None,
        **answer,
        "peak_total": 423936,
    }


def test_fresh_rows_count_for_groups_the_record_lacks(compared) -> None:
    code, text = compared([_row("vit_b")], [_row("tiny"), _row("vit_b", valid=False)])
    assert "1 recorded rows in 1 groups, 1 fresh rows in 1 other groups" in text
    assert "1 fresh rows of recorded groups left out" in text
    assert "FAIL" not in text
    assert code == 0


def test_a_missed_target_is_an_error(compared) -> None:
    code, text = compared([_row("vit_b")], [_row("tiny", valid=False)])
    assert "FAIL  agreement: 50.00 %" in text
    assert "FAIL  optimistic errors: 50.00 %" in text
    assert "tiny 0.0" in text
    assert code == 1
