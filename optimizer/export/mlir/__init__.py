"""`model.mlir`: the plan in tt-mlir's TTNN dialect, a layout on every tensor (docs/artifacts.md)."""

from __future__ import annotations

from pathlib import Path

from optimizer.export.mlir.module import Module
from optimizer.process.files import written
from optimizer.result import OptimizedGraph

FILE_NAME = "model.mlir"


def write(result: OptimizedGraph, folder: Path) -> Path:
    return written(folder / FILE_NAME, Module(result).text())
