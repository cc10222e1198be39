"""The emitted TTNN program (`--emit ttnn-py`, `docs/emitted-program.md`)."""

from __future__ import annotations

from optimizer.export.ttnn_py.building import FILE_NAME, deallocated_values, ttnn_program
from optimizer.export.ttnn_py.lifetimes import DEALLOCATE
from optimizer.export.ttnn_py.prelude import placeholder_text
from optimizer.export.ttnn_py.program import ProgramStep, TensorEntry, TTNNProgram
from optimizer.export.ttnn_py.rendering import render, write, write_files

__all__ = [
    "DEALLOCATE",
    "FILE_NAME",
    "ProgramStep",
    "TTNNProgram",
    "TensorEntry",
    "deallocated_values",
    "placeholder_text",
    "render",
    "ttnn_program",
    "write",
    "write_files",
]
