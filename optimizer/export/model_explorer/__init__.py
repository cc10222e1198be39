"""`model_explorer/`: the graph and overlays as Google's Model Explorer loads them (docs/artifacts.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from optimizer.export.model_explorer.graph import graph_id, graph_record
from optimizer.export.model_explorer.overlays import OVERLAYS
from optimizer.process.files import written
from optimizer.result import OptimizedGraph

FOLDER, GRAPH_FILE = "model_explorer", "model.json"


def write(result: OptimizedGraph, folder: Path) -> Path:
    target = folder / FOLDER
    _write(target / GRAPH_FILE, {"label": f"PREDICTED {graph_id(result)}", "graphs": [graph_record(result)]})
    for overlay in OVERLAYS:
        _write(target / overlay.file, overlay.record(result))
    return target


def _write(path: Path, record: dict[str, Any]) -> None:
    written(path, json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
