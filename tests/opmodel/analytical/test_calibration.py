"""`scripts/calibrate.py`: bounded, reproducible, and better than where it starts."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "fixtures" / "opmodel" / "measured_times.csv"
CONSTANTS = ROOT / "optimizer" / "opmodel" / "analytical" / "constants"


def _rows(path: Path, classes: set[str]) -> Path:
    with SAMPLE.open(encoding="utf-8", newline="") as file:
        table = csv.DictReader(file)
        rows = [row for row in table if row["op_class"] in classes]
        fields = table.fieldnames or ()
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def _run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "calibrate.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


@pytest.fixture
def constants(tmp_path: Path) -> Path:
    """Constants of which one fitted class has been put out of place."""
    folder = tmp_path / "constants"
    shutil.copytree(CONSTANTS, folder)
    path = folder / "blackhole.json"
    record = json.loads(path.read_text("utf-8"))
    for entry in record.values():
        if entry.get("fit") == "norm":
            entry["value"] = entry["low"]
    path.write_text(json.dumps(record), "utf-8")
    return folder


def test_a_refit_is_bounded_reproducible_and_ignores_values_in_force(tmp_path: Path, constants: Path) -> None:
    rows = _rows(tmp_path / "rows.csv", {"norm"})
    written = []
    for _ in range(2):
        done = _run(rows, "--write", "--constants", constants)
        assert done.returncode == 0, done.stderr
        assert "without the row's shape family" in done.stdout
        assert "without the row's capture" in done.stdout
        written.append([(constants / f"{name}.json").read_text("utf-8") for name in ("blackhole", "spans")])
    assert written[0] == written[1]
    record, spans = map(json.loads, written[0])
    assert spans["blackhole"]["norm"]["rows"] == sum(
        "blackhole" in line for line in rows.read_text("utf-8").splitlines()
    )
    assert (
        spans["blackhole"]["networks"]
        == json.loads((CONSTANTS / "spans.json").read_text("utf-8"))["blackhole"]["networks"]
    )
    fitted = {name: entry for name, entry in record.items() if entry.get("fit") == "norm"}
    assert fitted
    assert all(entry["low"] <= entry["value"] <= entry["high"] for entry in fitted.values())
    assert any(entry["value"] > entry["low"] for entry in fitted.values())
    other = json.loads((constants / "wormhole_b0.json").read_text("utf-8"))
    copied = [name for name, entry in other.items() if entry.get("as") == "blackhole" and name in fitted]
    assert copied
    slower = {name: 1.35 if other[name]["unit"] == "ns" else 1 for name in copied}  # the same cycles of a slower clock
    assert {n: other[n]["value"] for n in copied} == {
        n: pytest.approx(fitted[n]["value"] * slower[n], rel=1e-3) for n in copied
    }


def test_errors_of_the_constants_in_force_are_printed_without_a_fit(tmp_path: Path) -> None:
    before = (CONSTANTS / "blackhole.json").read_text("utf-8")
    done = _run(_rows(tmp_path / "rows.csv", {"norm", "pool"}), "--as-they-are")
    assert done.returncode == 0, done.stderr
    assert "in sample" in done.stdout
    assert "without the row" not in done.stdout
    assert {"norm", "pool"} <= {line.split()[0] for line in done.stdout.splitlines() if line.strip()}
    assert (CONSTANTS / "blackhole.json").read_text("utf-8") == before


def test_an_unreadable_row_names_its_column(tmp_path: Path) -> None:
    path = _rows(tmp_path / "rows.csv", {"matmul"})
    path.write_text(path.read_text("utf-8").replace("bf16", "bf17"), "utf-8")
    done = _run(path, "--as-they-are")
    assert done.returncode != 0
    assert "bf17" in done.stderr
