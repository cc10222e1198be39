"""What the report says is what the result says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from optimizer.answers.timeline import timeline
from optimizer.errors import FormatError
from optimizer.export.annotated_json import write as write_json
from optimizer.export.reader import read_result
from optimizer.export.report.record import record
from optimizer.export.report.rendering import render
from optimizer.options import Options
from optimizer.result import OptimizedGraph, Role
from optimizer.wording.units import time_text
from tests.export.report.made_results import MadeResult
from tests.plans import planned_file

ROOT = Path(__file__).resolve().parent.parent.parent.parent
GRAPHS = ("attention", "concat", "conv2d_relu", "fork", "opaque")


@pytest.fixture(scope="module", params=[(name, policy) for name in GRAPHS for policy in ("global", "dfsharding2")])
def result(request: pytest.FixtureRequest) -> OptimizedGraph:
    name, policy = request.param
    return planned_file(ROOT / f"fixtures/graphs/{name}.json", Options(policy=policy, allow_host_ops=True))


@pytest.fixture(scope="module")
def shown(result: OptimizedGraph) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(record(result)))
    return found


def test_ops_are_all_there_in_order(result: OptimizedGraph, shown: dict[str, Any]) -> None:
    ops = list(result.graph.ops())
    assert [op["id"] for op in shown["ops"]] == [op.id for op in ops]
    assert [op["role"] for op in shown["ops"]] == [result.records[op.id].role.value for op in ops]
    values = shown["values"]
    assert [[values[v]["id"] for v in op["inputs"]] for op in shown["ops"]] == [list(op.inputs) for op in ops]
    assert [[values[v]["id"] for v in op["outputs"]] for op in shown["ops"]] == [list(op.outputs) for op in ops]


def test_every_op_of_the_run_is_drawn_once(result: OptimizedGraph, shown: dict[str, Any]) -> None:
    drawn = [at for kind, at, *_ in shown["graph"]["nodes"] if kind in ("op", "copy")]
    run = [at for at, op in enumerate(result.graph.ops()) if result.records[op.id].role is not Role.HOST]
    lacking = [
        at for at, op in enumerate(result.graph.ops()) if [op.op, op.id] in map(list, result.summary.unsupported)
    ]
    assert drawn == sorted([*run, *lacking])


def test_edges_are_the_reads_of_the_graph(result: OptimizedGraph, shown: dict[str, Any]) -> None:
    nodes, ops = shown["graph"]["nodes"], list(result.graph.ops())
    drawn = {nodes[a][1]: set[int]() for a, *_ in shown["graph"]["edges"] if nodes[a][0] in ("op", "copy")}
    for source, target, *_ in shown["graph"]["edges"]:
        if nodes[source][0] in ("op", "copy") and nodes[target][0] in ("op", "copy"):
            drawn[nodes[source][1]].add(nodes[target][1])
    at = {op.id: n for n, op in enumerate(ops)}
    for position, readers in drawn.items():
        expected = {at[c.id] for v in ops[position].outputs for c in result.graph.consumers(v)}
        assert readers == expected


def test_l1_adds_up_to_the_timeline_of_the_verifier(result: OptimizedGraph, shown: dict[str, Any]) -> None:
    found = timeline(result)
    memory = shown["memory"]
    assert (memory["limit_bytes"], memory["bank_bytes"]) == (found.limit_bytes, found.bank_bytes)
    kinds = ("weight", "tensor", "result", "circular_buffers", "temporaries")
    assert memory["steps"] == [[p.position, *(p.bytes_of(kind) for kind in kinds)] for p in found.positions]
    values = shown["values"]
    for step, position in enumerate(found.positions):
        held = {values[v]["id"] for v, first, last, *_ in memory["held"] if first <= step <= last}
        assert held == {item.value for item in position.items if item.value}


def test_times_add_up_to_the_plan(result: OptimizedGraph, shown: dict[str, Any]) -> None:
    summary = result.summary
    assert sum(ns for _, ns, _ in shown["times"]["kind"]) == sum(
        r.predicted.time_ns for r in result.records.values() if r.predicted is not None
    )
    assert dict(map(tuple, shown["times"]["class"])) == dict(summary.time_by_class_ns)
    assert shown["plans"][-1][:2] == ["this plan", summary.predicted_time_ns]
    assert ["all in DRAM", summary.baselines.dram_ns, "+0.0 %"] in shown["plans"]
    assert shown["compared"][0]["after"] == time_text(summary.predicted_time_ns)


def test_copies_and_placements_are_those_of_the_ops(result: OptimizedGraph, shown: dict[str, Any]) -> None:
    counts = {role: count for role, count, _ in shown["moved"]["copies"]}
    summary = result.summary
    assert counts == {"reshard": summary.reshards, "spill": summary.spills, "load": summary.loads}


def test_fresh_and_read_back_give_the_same_page(result: OptimizedGraph, tmp_path: Path) -> None:
    write_json(result, tmp_path)
    read = read_result(tmp_path)
    read.source = result.source
    assert render(read) == render(result) == render(result)


@pytest.mark.parametrize(
    ("name", "file", "title"),
    [("net", "a.onnx", "net"), ("main_graph", "a.onnx", "a"), ("main_graph", None, "main_graph"), ("model", "b", "b")],
)
def test_the_title_is_the_models_own_name_or_its_files(name: str, file: str | None, title: str) -> None:
    result = MadeResult(2).result()
    result.model["name"] = name
    result.source = None if file is None else Path(file)
    assert record(result)["title"] == title


def test_a_document_without_figures_is_shown_without() -> None:
    shown = record(MadeResult(12).result())
    assert (shown["plan"], shown["compared"], shown["figures"]) == (None, [], [])
    assert len(shown["ops"]) == 12
    assert [notice["kind"] for notice in shown["notices"]] == ["failed chain", "failed chain"]


def test_what_the_reason_says_of_dram_is_beside_the_time() -> None:
    """Not the time of an alternative in DRAM, which may read its operands from elsewhere."""
    shown = record(MadeResult(12).result())
    assert {op["dram_ns"] for op in shown["ops"]} == {1200}


@pytest.mark.parametrize("name", ["attention", "conv2d_relu", "fork"])
def test_the_times_all_in_dram_of_a_global_plan_add_up_to_the_baseline(name: str) -> None:
    result = planned_file(ROOT / f"fixtures/graphs/{name}.json", Options(policy="global"))
    shown = record(result)
    assert sum(op.get("dram_ns", 0) for op in shown["ops"]) == result.summary.baselines.dram_ns


def test_fused_kernels_are_told() -> None:
    result = planned_file(ROOT / "fixtures/graphs/fork.json", Options(fuse_kernels=True))
    shown = record(result)
    assert [op["id"] for op in shown["ops"] if op.get("kernel")] == result.fused_kernels[0]["ops"]
    fused = [notice for notice in shown["notices"] if notice["kind"] == "fused kernels"]
    assert fused[0]["text"].startswith("1 regions, 1 kernels: ")
    assert len(fused[0]["ops"]) == len(result.fused_kernels[0]["ops"])


def test_kernels_that_nobody_has_judged_are_told() -> None:
    result = planned_file(ROOT / "fixtures/graphs/fork.json", Options(fuse_kernels=True))
    region = {**result.fused_kernels[0], "unjudged": ["exp of f32"], "judged_by": None}
    shown = record(replace(result, fused_kernels=(region,)))
    assert "NOT JUDGED" in next(n["text"] for n in shown["notices"] if n["kind"] == "not judged")


def test_what_ops_share_is_there_once() -> None:
    shown = record(MadeResult(200).result())
    predicted = {op["predicted"] for op in shown["ops"]}
    assert len(predicted) == 1
    assert shown["shared"][predicted.pop()]["time_ns"] == 1000
    assert len({json.dumps(part) for part in shown["shared"]}) == len(shown["shared"])


def test_a_value_without_layout_is_refused() -> None:
    result = MadeResult(3).result()
    del result.layouts["op_1_out"]
    with pytest.raises(FormatError, match="op_1_out: the value has no layout"):
        record(result)
