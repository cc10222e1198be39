"""The graph and overlays for Model Explorer: ids, edges and figures of the plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optimizer.export.model_explorer import write
from optimizer.export.model_explorer.overlays import OVERLAYS
from optimizer.result import OptimizedGraph, Role
from tests.export.memory.exported import HOSTILE, RESULTS

Record = dict[str, Any]


@pytest.fixture(scope="module", params=RESULTS)
def result(request: pytest.FixtureRequest) -> OptimizedGraph:
    made: OptimizedGraph = RESULTS[request.param]()
    return made


def opened(result: OptimizedGraph, folder: Path) -> dict[str, Record]:
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in write(result, folder).iterdir()}


def nodes(files: dict[str, Record]) -> list[Record]:
    (graph,) = files["model.json"]["graphs"]
    found: list[Record] = graph["nodes"]
    return found


def test_every_op_is_a_node_and_no_id_stands_twice(result: OptimizedGraph, tmp_path: Path) -> None:
    ids = [node["id"] for node in nodes(opened(result, tmp_path))]

    assert len(set(ids)) == len(ids)
    assert [op.id for op in result.graph.ops() if op.id not in ids] == []


def test_edges_are_those_of_the_plan(result: OptimizedGraph, tmp_path: Path) -> None:
    found = {node["id"]: node for node in nodes(opened(result, tmp_path))}
    for op in result.graph.ops():
        read = []
        for edge in found[op.id]["incomingEdges"]:
            outputs = {item["id"]: item["attrs"] for item in found[edge["sourceNodeId"]]["outputsMetadata"]}
            names = {a["key"]: a["value"] for a in outputs[edge["sourceNodeOutputId"]]}
            read.append((int(edge["targetNodeInputId"]), names["tensor_name"]))
        assert read == list(enumerate(op.inputs))


def test_overlays_tell_of_nodes_of_the_graph(result: OptimizedGraph, tmp_path: Path) -> None:
    files = opened(result, tmp_path)
    ids = {node["id"] for node in nodes(files)}
    (graph,) = files["model.json"]["graphs"]
    for overlay in OVERLAYS:
        ((target, data),) = files[overlay.file].items()
        assert target == graph["id"]
        assert "predicted" in data["name"]
        assert set(data["results"]) <= ids
        assert all("bgColor" in one for one in data["results"].values()) or "gradient" in data


def test_overlays_show_times_places_and_copies(result: OptimizedGraph, tmp_path: Path) -> None:
    files = opened(result, tmp_path)
    found = {
        name: {node: one["value"] for node, one in next(iter(record.values()))["results"].items()}
        for name, record in files.items()
        if name != "model.json"
    }
    run = [op for op in result.graph.ops() if not result.graph.is_const_eval(op)]
    records = result.records
    moves = (Role.RESHARD, Role.SPILL, Role.LOAD, Role.LAYOUT, Role.TRANSFER)

    assert found["predicted_ns.json"] == {o.id: p.time_ns for o in run if (p := records[o.id].predicted)}
    assert found["l1_bytes.json"] == {o.id: p.peak_l1_bytes for o in run if (p := records[o.id].predicted)}
    assert found["copies.json"] == {o.id: r.value for o in run if (r := records[o.id].role) in moves}
    first = {o.id: result.layouts[o.outputs[0]] for o in run}
    assert {op: place.split()[0] for op, place in found["memory_layout.json"].items()} == {
        op: "host" if layout.is_host else "l1" if layout.is_l1 else "dram" for op, layout in first.items()
    }


def test_prediction_stands_in_the_label(result: OptimizedGraph, tmp_path: Path) -> None:
    assert opened(result, tmp_path)["model.json"]["label"].startswith("PREDICTED ")


def test_names_are_kept_whatever_is_in_them(tmp_path: Path) -> None:
    facts = [a for node in nodes(opened(RESULTS["hostile names"](), tmp_path)) for a in node["attrs"]]

    assert {"key": "name", "value": HOSTILE} in facts


def test_values_of_attributes_are_texts(result: OptimizedGraph, tmp_path: Path) -> None:
    """The viewer shows nothing else."""
    for node in nodes(opened(result, tmp_path)):
        metadata = [*node["outputsMetadata"], *node.get("inputsMetadata", [])]
        for fact in [*node["attrs"], *(a for item in metadata for a in item["attrs"])]:
            assert isinstance(fact["value"], str)


def test_two_exports_are_the_same_bytes(result: OptimizedGraph, tmp_path: Path) -> None:
    first, second = write(result, tmp_path / "a"), write(result, tmp_path / "b")

    assert {p.name: p.read_bytes() for p in first.iterdir()} == {p.name: p.read_bytes() for p in second.iterdir()}
