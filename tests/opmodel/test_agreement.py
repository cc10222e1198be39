"""The analytical backend against recorded tt-metal answers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from optimizer.device import DeviceSpec
from optimizer.opmodel import registry
from optimizer.opmodel.base import Rejection
from optimizer.opmodel.query import query_rows
from optimizer.opmodel.rows import answer_to_row, query_from_row

Pair = tuple[dict[str, Any], dict[str, Any]]


@pytest.fixture(scope="module")
def folder() -> Path:
    return Path(__file__).resolve().parents[2] / "fixtures" / "opmodel"


@pytest.fixture(scope="module")
def pairs(folder: Path) -> list[Pair]:
    """(recorded row, our answer)."""
    rows = [json.loads(line) for line in (folder / "sample.jsonl").read_text("utf-8").splitlines()]
    return list(zip(rows, query_rows(rows), strict=True))


@pytest.fixture(scope="module")
def limits(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "sample_limits.json").read_text("utf-8"))
    return record


def test_verdicts_disagree_no_more_than_recorded(pairs: list[Pair], limits: dict[str, Any]) -> None:
    asked = [(row, answer) for row, answer in pairs if answer["kind"] != Rejection.WRONG_VALUES]
    wrong = Counter(row["op"] for row, answer in asked if row["valid"] != answer["valid"])
    worse = {op: count for op, count in wrong.items() if count > limits["wrong"].get(op, 0)}
    assert worse == {}


def test_accepting_what_is_refused_stays_rare(pairs: list[Pair], limits: dict[str, Any]) -> None:
    optimistic = [row["id"] for row, answer in pairs if answer["valid"] and not row["valid"]]
    assert len(optimistic) <= limits["optimistic"], optimistic


@pytest.mark.parametrize("op", ["matmul", "linear", "conv2d", "layer_norm", "rms_norm", "softmax", "relu"])
def test_produced_layouts_are_exact(pairs: list[Pair], op: str) -> None:
    both = [(r, a) for r, a in pairs if r["op"] == op and r["valid"] and a["valid"]]
    assert both
    assert [r["id"] for r, a in both if r["out_mem"] != a["out_mem"]] == []


@pytest.mark.parametrize("op", ["matmul", "linear"])
def test_matmul_bytes_are_exact(pairs: list[Pair], op: str) -> None:
    both = [(r, a) for r, a in pairs if r["op"] == op and r["valid"] and a["valid"] and r["peak_total"] is not None]
    assert both
    assert [r["id"] for r, a in both if r["peak_total"] != a["peak_total"]] == []


@pytest.mark.parametrize(("name", "known_faults"), [("block_floats", 7), ("dram_sharded", 0), ("knobs", 0)])
def test_element_types_and_configs_are_answered_as_tt_metal_does(folder: Path, name: str, known_faults: int) -> None:
    """Verdict, element type, layout and bytes of every recorded row but those that it takes and computes wrongly."""
    wrong, faulty = [], list[int]()
    for line in (folder / f"{name}.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        answer = registry.create("analytical", DeviceSpec.preset(row["board"]), 32768).constraints(query_from_row(row))
        if answer.kind is Rejection.WRONG_VALUES and row["valid"]:
            faulty.append(row["id"])
            continue
        recorded: list[Any] = [row["valid"]]
        ours: list[Any] = [answer.valid]
        if row["valid"] and answer.valid:
            recorded += [row["out_dtype"], row["out_mem"], row["peak_total"]]
            told = answer_to_row(row["id"], answer)
            ours += [answer.outputs[0].dtype.value, told["out_mem"], told["peak_total"]]
        if recorded != ours:
            wrong.append((row["id"], row["op"], recorded, ours))
    assert wrong == []
    assert len(faulty) == known_faults, faulty
