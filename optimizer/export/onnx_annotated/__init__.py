"""`annotated.onnx`: the user's model with the plan in the metadata of its nodes, and the same as JSON beside it.

Tools that rewrite a model drop the metadata of nodes (onnxslim does), so annotating is the last step; the JSON, keyed
by node name, outlives them. Weights are not touched: those that the model keeps in other files stay there, and tools
that read them find them where the annotated file lies in the model's own folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

from optimizer.errors import LimitError, OptionError
from optimizer.export.facts import as_text
from optimizer.export.model_file import model_file
from optimizer.export.onnx_annotated.facts import as_properties, facts_by_node, joined, record
from optimizer.export.onnx_annotated.nodes import external_files, named_nodes
from optimizer.importers.loading import format_of
from optimizer.importers.onnx_front_end import parse
from optimizer.process.files import make_folder, write_bytes, write_text
from optimizer.process.version import __version__
from optimizer.result import OptimizedGraph

NAME = "onnx"
MODEL_FILE, NODES_FILE = "annotated.onnx", "annotated.nodes.json"
PREFIX = "ttopt."
SCHEMA = "ttopt.annotated-nodes/1"
ABSENT = "no op of the plan names it: folded into constants, merged into others or not needed"
_FIGURES = ("status", "predicted_time_ns", "l1_peak_bytes", "l1_limit_bytes", "reshards", "loads", "spills")


def write(result: OptimizedGraph, folder: Path) -> Path:
    """Write both files; OptionError where the model's file is not known, is no ONNX file or would be written over."""
    source, data = model_file(result, NAME)
    kind = format_of(data, source.suffix.lower())
    if kind.name != NAME:
        raise OptionError(f"annotates ONNX files, and {source.name} is a model of the format '{kind.name}'", node=NAME)
    make_folder(folder)
    path = folder / MODEL_FILE
    if path.exists() and path.samefile(source):
        raise OptionError(f"{path} is the model itself, and would be written over", node=NAME)
    model = parse(data)
    sidecar = annotate(model, result)
    try:
        annotated = model.SerializeToString()
    except (EncodeError, ValueError) as error:
        raise LimitError("the annotated model exceeds the 2 GiB of a protobuf message", node=source.name) from error
    write_bytes(path, annotated)
    write_text(folder / NODES_FILE, json.dumps(sidecar, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    return path


def annotate(model: onnx.ModelProto, result: OptimizedGraph) -> dict[str, Any]:
    """Put the plan into a model's metadata; returns the same as JSON, by node."""
    named = list(named_nodes(model))
    facts = facts_by_node(result, {name for _, names in named for name in names})
    whole = _whole(result, external_files(model))
    _set(model.metadata_props, {f"{PREFIX}{key}": as_text(value) for key, value in whole.items()})
    for value in (*model.graph.input, *model.graph.output):
        layout = result.layouts.get(value.name)
        _set(value.metadata_props, {} if layout is None else {f"{PREFIX}layout": layout.describe()})
    nodes: dict[str, Any] = {}
    met: set[str] = set()
    for node, names in named:
        matching = [name for name in names if name in facts]
        met.update(matching)
        if matching:
            found = record(result, joined([facts[name] for name in matching]))
        else:
            found = {} if node.op_type == "Constant" else {"absent": ABSENT}
        _set(node.metadata_props, as_properties(found))
        if found:
            nodes[names[0]] = found
    elsewhere = {name: record(result, found) for name, found in facts.items() if name not in met}
    return {"schema": SCHEMA, "model": whole, "nodes": nodes, "not_in_file": elsewhere}


def _whole(result: OptimizedGraph, elsewhere: list[str]) -> dict[str, Any]:
    summary = result.summary_json()
    return {
        "version": __version__,
        "predicted": "every figure is a prediction: nothing was measured",
        "board": result.device.name,
        "policy": result.options.policy,
        "sha256": result.model.get("sha256"),
        **({"external_data": elsewhere} if elsewhere else {}),
        **{name: summary[name] for name in _FIGURES if name in summary},
    }


def _set(entries: Any, properties: Mapping[str, str]) -> None:
    """Replace our own entries of a list of metadata by these."""
    kept = [entry for entry in entries if not entry.key.startswith(PREFIX)]
    del entries[:]
    entries.extend(kept)
    for key, value in properties.items():
        entries.add(key=key, value=value)
