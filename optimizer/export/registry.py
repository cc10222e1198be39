"""Emitters by name: each turns an `OptimizedGraph` into one artifact in a folder.

An emitter is a function `(result, folder) -> path of the file or folder written`. One line here makes it available
as `--emit NAME`, to `ttopt export` and over HTTP; other distributions add theirs through the entry-point group
`ttopt.emitters`. Emitters are named by text and imported on first use, so that one may stand in any room above the
result: those that replay the plan's L1 are in `optimizer.export.memory`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from optimizer.process.garbage import rare_collections
from optimizer.process.plugins import Catalogue, plugins_named
from optimizer.result import OptimizedGraph

Emitter = Callable[[OptimizedGraph, Path], Path]

_BUILT_IN: dict[str, tuple[str, str]] = {
    "json": ("optimizer.export.annotated_json:write", "the annotated graph itself (always written by optimize)"),
    "minimalloc": (
        "optimizer.export.memory.minimalloc:write",
        "the L1 buffers per core as a MiniMalloc problem with our offsets",
    ),
    "mlir": ("optimizer.export.mlir:write", "the plan in tt-mlir's TTNN dialect, a layout on every tensor"),
    "model-explorer": ("optimizer.export.model_explorer:write", "the graph and overlays for Google's Model Explorer"),
    "onnx": ("optimizer.export.onnx_annotated:write", "the ONNX model with the plan as metadata of its nodes"),
    "overrides": ("optimizer.export.overrides:write", "the decisions as tt-mlir's override options"),
    "perf-csv": ("optimizer.export.perf_csv:write", "predicted times per device program, for tt-perf-report"),
    "report": ("optimizer.export.report:write", "the plan as one page to look at: graph, L1, times, reasons"),
    "text": ("optimizer.export.placed_text:write", "the plan in lines: one an op, with layouts"),
    "ttnn-py": ("optimizer.export.ttnn_py:write", "a runnable TTNN program in Python"),
    "visualizer": ("optimizer.export.memory.visualizer:write", "a report folder that ttnn-visualizer opens"),
    "weights": ("optimizer.export.weights:write", "the weights that the program takes, as safetensors"),
}
"""Name -> (module:function, what it writes, in one line)."""


_EMITTERS = Catalogue("emitter", "ttopt.emitters", _BUILT_IN)


def emitter_descriptions() -> dict[str, str]:
    """What every emitter writes, in one line, by name; that of another distribution says it in its docstring."""
    return _EMITTERS.descriptions()


def emitter_names() -> tuple[str, ...]:
    """Names accepted by `--emit`, sorted."""
    return _EMITTERS.names()


def emitter(name: str) -> Emitter:
    """The emitter registered under a name; it is imported on first use."""
    return cast(Emitter, _EMITTERS.load(name))


@plugins_named()
@rare_collections()
def emit(result: OptimizedGraph, name: str, folder: str | Path) -> Path:
    """Write the artifact of a registered emitter into a folder; returns its path."""
    return emitter(name)(result, Path(folder))
