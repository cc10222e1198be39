"""The tables of a batch as files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from optimizer.batch.tables import read_records, write_tables
from optimizer.errors import FormatError

GOOD = {"name": "a--seed=1", "model": "a", "board": "n150", "seed": 1, "ok": True, "gap": None,
        "predicted_time_ns": 100, "l1_peak_bytes": 7}  # fmt: skip
BETTER = GOOD | {"name": "a--seed=2", "seed": 2, "predicted_time_ns": 50, "gap": 0.25}
BAD = {"name": "b--seed=1", "model": "b", "board": "n150", "seed": 1, "ok": False,
       "error": {"code": "bad-format", "message": "no model, \"really\""}}  # fmt: skip


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_tables_hold_every_record(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [GOOD, BETTER, BAD]
    written = write_tables(records, tmp_path, {"seed": [1, 2]}, parquet=True)
    assert sorted(p.name for p in written) == sorted(p.name for p in tmp_path.iterdir())
    assert read_records(tmp_path) == records
    found = rows(tmp_path / "results.csv")
    assert [r["name"] for r in found] == [r["name"] for r in records]
    assert found[2]["error"] == 'no model, "really"'
    assert [r["predicted_time_ns"] for r in rows(tmp_path / "pareto.csv")] == ["50"]
    assert rows(tmp_path / "pivot.csv") == [
        {"model": "a", "seed=1": "100", "seed=2": "50"},
        {"model": "b", "seed=1": "", "seed=2": ""},
        {"model": "geometric mean", "seed=1": "1.0", "seed=2": "0.5"},
    ]
    table = parquet.read_table(tmp_path / "results.parquet").to_pylist()
    assert [row["gap"] for row in table] == [None, 0.25, None]
    assert [row["predicted_time_ns"] for row in table] == [100, 50, None]


def test_without_a_sweep_there_is_nothing_to_compare(tmp_path: Path) -> None:
    write_tables([GOOD], tmp_path, {})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["results.csv", "results.json"]


@pytest.mark.parametrize("content", [None, "", "{}", '[{"name": "a", "ok": true}]', "[1]"])
def test_what_is_no_earlier_batch_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "results.json").write_text(content)
    with pytest.raises(FormatError, match="batch"):
        read_records(tmp_path)


def test_swept_values_of_several_types_become_text(tmp_path: Path) -> None:
    write_tables(
        [GOOD | {"time_limit": None}, BETTER | {"time_limit": 2}, BAD | {"time_limit": 0.5}], tmp_path, {}, True
    )
    table = parquet.read_table(tmp_path / "results.parquet").to_pylist()
    assert [row["time_limit"] for row in table] == [None, "2", "0.5"]
    assert json.loads((tmp_path / "results.json").read_text())[1]["time_limit"] == 2
