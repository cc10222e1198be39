"""The emitted TTNN program (`--emit ttnn-py`, `docs/emitted-program.md`)."""

from __future__ import annotations

from optimizer.export.ttnn_py.building import FILE_NAME, ttnn_program
from optimizer.export.ttnn_py.prelude import placeholder_text
from optimizer.export.ttnn_py.program import ProgramStep, TensorEntry, TTNNProgram
from optimizer.export.ttnn_py.rendering import render, write, write_files

__all__ = [
    "FILE_NAME",
    "ProgramStep",
    "TTNNProgram",
    "TensorEntry",
    "placeholder_text",
    "render",
    "ttnn_program",
    "write",
    "write_files",
]
