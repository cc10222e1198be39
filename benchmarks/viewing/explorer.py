"""Google's Model Explorer: its own records made of our files, and its server serving them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

from optimizer.result import OptimizedGraph
from viewing.site import Checks, content, environment, free_port, server

READ = """
import json, sys, typing
import dacite
from model_explorer import graph_builder, node_data_builder
model, *overlays = sys.argv[1:]
record = json.load(open(model, encoding="utf-8"))
collection = dacite.from_dict(graph_builder.GraphCollection, record, dacite.Config(strict=True))
found = {"label": collection.label, "graphs": {
    graph.id: [[node.id, node.namespace, [edge.sourceNodeId for edge in node.incomingEdges]] for node in graph.nodes]
    for graph in collection.graphs}, "overlays": {}}
for path in overlays:
    for graph, data in json.load(open(path, encoding="utf-8")).items():
        # The page takes words as values too, which the declared type does not.
        words = any(isinstance(one["value"], str) for one in data["results"].values())
        config = dacite.Config(strict=True, check_types=not words)
        made = dacite.from_dict(node_data_builder.GraphNodeData, data, config)
        found["overlays"][path] = [graph, made.name, {node: one.value for node, one in made.results.items()}]
print(json.dumps(found))
"""
"""Run by the Python of its environment; prints what its records hold."""
SERVE = """
import sys
import model_explorer
port, model, *overlays = sys.argv[1:]
config = model_explorer.config().add_model_from_path(model)
for path in overlays:
    config.add_node_data_from_path(path)
model_explorer.visualize_from_config(config, port=int(port), no_open_in_browser=True)
"""


def check(result: OptimizedGraph, folder: Path, environments: Path, scratch: Path, checks: Checks) -> None:
    place = environment(environments, "ai-edge-model-explorer", "0.1.34")
    model = folder / "model.json"
    overlays = sorted(path for path in folder.glob("*.json") if path != model)
    read = [place / "python", "-c", READ, model, *overlays]
    finished = subprocess.run(read, capture_output=True, text=True, check=False)
    checks.equal("its records take the graph and the overlays", (finished.returncode, finished.stderr[-500:]), (0, ""))
    if not finished.returncode:
        _records(result, json.loads(finished.stdout), checks)
    port = free_port()
    base = f"http://localhost:{port}"
    command = [place / "python", "-c", SERVE, port, model, *overlays]
    with server(command, f"{base}/check_health", scratch / "explorer.log", {}):
        for path in (model, *overlays):
            served = json.loads(content(f"{base}/api/v1/read_text_file?path={quote(str(path))}"))
            checks.equal(f"its server hands {path.name} to the page", served, {"content": path.read_text("utf-8")})
        checks.equal("its page is served", b"<html" in content(base + "/").lower(), True)


def _records(result: OptimizedGraph, found: dict[str, Any], checks: Checks) -> None:
    ((graph, nodes),) = found["graphs"].items()
    ids = [node for node, _, _ in nodes]
    checks.equal(f"{len(ids)} nodes, no id twice", len(set(ids)), len(ids))
    ops = list(result.graph.ops())
    checks.equal(f"{len(ops)} ops among them", [op.id for op in ops if op.id not in set(ids)], [])
    sources = {node: read for node, _, read in nodes}
    checks.none("edges start at nodes", [s for read in sources.values() for s in read if s not in sources])
    makers = {v: op.id for op in ops for v in op.outputs}
    wanted = {op.id: [makers.get(v, f"source {v}") for v in op.inputs] for op in ops}
    checks.equal("edges are those of the plan", {op.id: sources[op.id] for op in ops}, wanted)
    checks.equal("PREDICTED stands in its label", "PREDICTED" in found["label"], True)
    for path, (target, name, values) in found["overlays"].items():
        unknown = [node for node in values if node not in sources]
        said = f"{Path(path).name}: '{name}', {len(values)} nodes, all in the graph"
        checks.equal(said, (target, unknown, "predicted" in name), (graph, [], True))
        if Path(path).name == "predicted_ns.json":
            stated = {o.id: p.time_ns for o in ops if (p := result.records[o.id].predicted) and o.id in values}
            checks.equal("times are the predicted ones", values, stated)
