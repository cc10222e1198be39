"""Emitters by name: each turns an `OptimizedGraph` into one artifact in a folder.

An emitter is a function `(result, folder) -> path of the file written`. One line here makes it available
as `--emit NAME` and over HTTP; other distributions add theirs through the entry-point group
`ttopt.emitters`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

from optimizer.errors import StateError, UnknownNameError
from optimizer.result import OptimizedGraph

Emitter = Callable[[OptimizedGraph, Path], Path]

_BUILT_IN = {
    "json": "optimizer.export.annotated_json:write",
    "report": "optimizer.export.report:write",
    "ttnn-py": "optimizer.export.ttnn_py:write",
    "weights": "optimizer.export.weights:write",
}


def _targets() -> dict[str, str]:
    targets = dict(_BUILT_IN)
    for point in entry_points(group="ttopt.emitters"):
        if point.name in targets:
            raise StateError(f"emitter '{point.name}' is registered twice: {targets[point.name]} and {point.value}")
        targets[point.name] = point.value
    return targets


def emitter_names() -> tuple[str, ...]:
    """Names accepted by `--emit`, sorted."""
    return tuple(sorted(_targets()))


def emitter(name: str) -> Emitter:
    """The emitter registered under a name; it is imported on first use."""
    targets = _targets()
    if name not in targets:
        raise UnknownNameError("emitter", name, targets)
    module, _, attribute = targets[name].partition(":")
    return cast(Emitter, getattr(import_module(module), attribute))


def emit(result: OptimizedGraph, name: str, folder: str | Path) -> Path:
    """Write the artifact of a registered emitter into a folder; returns the file's path."""
    return emitter(name)(result, Path(folder))
