"""`model.mlir`: the plan in tt-mlir's TTNN dialect, a layout on every tensor (docs/artifacts.md)."""

from __future__ import annotations

from pathlib import Path

from optimizer.export.mlir.module import Module
from optimizer.process.files import make_folder, write_text
from optimizer.result import OptimizedGraph

FILE_NAME = "model.mlir"


def write(result: OptimizedGraph, folder: Path) -> Path:
    make_folder(folder)
    path = folder / FILE_NAME
    write_text(path, Module(result).text())
    return path
