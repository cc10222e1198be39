"""`ttopt timeline` as a person and as a script read it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from optimizer.answers.timeline import COLUMNS
from optimizer.cli.timeline import BAR_WIDTH
from tests.cli.conftest import Run


def test_the_csv_has_the_documented_columns_and_adds_up(run: Run, result_folder: Path, project_root: Path) -> None:
    status, out, err = run("timeline", result_folder, "--csv")
    assert (status, err) == (0, "")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert tuple(rows[0]) == COLUMNS
    totals: dict[str, int] = {}
    for row in rows:
        totals[row["op"]] = totals.get(row["op"], 0) + int(row["bytes"])
    assert totals == {row["op"]: int(row["total_bytes"]) for row in rows}
    page = (project_root / "docs/formats.md").read_text(encoding="utf-8")
    assert [column for column in COLUMNS if f"`{column}`" not in page] == []


def test_the_table_has_a_bar_per_op_and_the_peak(run: Run, result_folder: Path) -> None:
    document = json.loads((result_folder / "graph.json").read_text(encoding="utf-8"))
    status, out, _ = run("timeline", result_folder)
    assert status == 0
    bars = [line[-BAR_WIDTH - 2 :] for line in out.splitlines() if line.endswith("|")]
    assert len(bars) == len([op for op in document["ops"] if op["role"] != "host"])
    assert all(bar[0] == "|" and set(bar[1:-1]) <= set("w=>ct ") for bar in bars)
    peak = max(document["ops"], key=lambda op: op["predicted"]["peak_l1_bytes"] if op["predicted"] else 0)
    assert f"the peak, {peak['id']}" in out


def test_one_op_by_value(run: Run, result_folder: Path) -> None:
    status, out, _ = run("timeline", result_folder, "fc1", "--format", "json")
    record = json.loads(out)
    assert status == 0
    assert record["op"] == "fc1"
    assert sum(item["bytes"] for item in record["items"]) == record["total_bytes"]
    assert "fc1 (compute)" in run("timeline", result_folder, "fc1")[1]


def test_an_op_that_does_not_run_is_refused_with_near_ones(run: Run, result_folder: Path) -> None:
    status, out, err = run("timeline", result_folder, "fc3")
    assert (status, out) == (2, "")
    assert "unknown op 'fc3', did you mean 'fc" in err


def test_csv_of_one_op_is_refused(run: Run, result_folder: Path) -> None:
    status, _, err = run("timeline", result_folder, "fc1", "--csv")
    assert status == 2
    assert "--csv lists every op" in err
