"""`graph.txt`: the plan in the text form of graphs (`optimizer.ir.text`), a layout behind every type."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from optimizer.ir.graph import Graph
from optimizer.ir.text import graph_text
from optimizer.layouts.memory_config import TensorLayout
from optimizer.process.files import written
from optimizer.result import OptimizedGraph
from optimizer.wording.entries import layout_text


def placed_text(graph: Graph, layouts: Mapping[str, TensorLayout]) -> str:
    """A graph as text, with the layouts that are known."""
    return graph_text(graph, {v: layout_text(layout.to_json()) for v, layout in layouts.items()})


def write(result: OptimizedGraph, folder: Path) -> Path:
    """Write `graph.txt`."""
    return written(folder / "graph.txt", placed_text(result.graph, result.layouts))
