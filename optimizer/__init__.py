"""ttopt: chooses tensor layouts, shardings and op configs for TTNN graphs on Tenstorrent boards.

    from optimizer import load, optimize
    result = optimize(load("resnet50.onnx"), "n150")
    result.to_json()

Names are resolved on first use, so importing the package loads no third-party library.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as `typing` has it; loading that takes longer than all the rest of this
if TYPE_CHECKING:
    from typing import Any

    from optimizer.device import DeviceSpec
    from optimizer.errors import TtoptError
    from optimizer.export.registry import emit
    from optimizer.importers import load
    from optimizer.ir.builder import GraphBuilder
    from optimizer.ir.graph import Graph
    from optimizer.options import Options
    from optimizer.pipeline import optimize
    from optimizer.process.version import __version__ as __version__
    from optimizer.result import OptimizedGraph

__all__ = ["DeviceSpec", "Graph", "GraphBuilder", "OptimizedGraph", "Options", "TtoptError", "emit", "load", "optimize"]

_HOMES = {
    "__version__": "optimizer.process.version",
    "DeviceSpec": "optimizer.device",
    "Graph": "optimizer.ir.graph",
    "GraphBuilder": "optimizer.ir.builder",
    "OptimizedGraph": "optimizer.result",
    "Options": "optimizer.options",
    "TtoptError": "optimizer.errors",
    "emit": "optimizer.export.registry",
    "load": "optimizer.importers",
    "optimize": "optimizer.pipeline",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'optimizer' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(("__version__", *__all__))
