"""`graph.json`: the annotated graph as a document (`docs/formats.md`)."""

from __future__ import annotations

import json
from pathlib import Path

from optimizer.process.files import written
from optimizer.result import OptimizedGraph

FILE_NAME = "graph.json"


def dumps(result: OptimizedGraph) -> str:
    """The document as text: keys in the documented order, one value per line, newline at the end."""
    return json.dumps(result.to_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write(result: OptimizedGraph, folder: Path) -> Path:
    return written(folder / FILE_NAME, dumps(result))
