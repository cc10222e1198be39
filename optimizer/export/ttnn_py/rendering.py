"""Prints a `TTNNProgram` as one Python file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from optimizer.export.ttnn_py.building import FILE_NAME, code, ttnn_program
from optimizer.export.ttnn_py.formatting import comment, indented, part
from optimizer.export.ttnn_py.program import ProgramStep, TTNNProgram
from optimizer.opmodel.ttnn_calls.text import literal, quoted
from optimizer.process.files import written
from optimizer.result import OptimizedGraph

RUNNER = Path(__file__).with_name("run_model.py")
"""The script that lies beside every program, as it is."""
FULL_SPEED = Path(__file__).with_name("full_speed.py")
"""What the script runs programs with from a trace or on two queues, also beside every program."""


def render(program: TTNNProgram) -> str:
    """The text of the program's file."""
    parts = [program.prelude.rstrip("\n"), f"\n\n{part('parameters')}"]
    parts += _body(program.parameter_steps)
    parts.append(indented("return parameters"))
    parts.append(f"\n\n{part('run')}")
    parts += _body(program.run_steps)
    parts.append(indented(code(f"return [{', '.join(program.outputs)}]")))
    figures = {
        "l1_small_bytes": literal(int(program.l1_small_bytes)),
        "trace_region_bytes": literal(int(program.trace_region_bytes)),
        "predicted_ns": "{" + ", ".join(f"{quoted(k)}: {literal(ns)}" for k, ns in program.predicted_ns.items()) + "}",
    }
    parts.append("\n\n" + part("main").format(**figures))
    return "\n".join(parts) + "\n"


def _body(steps: Iterable[ProgramStep]) -> list[str]:
    lines = []
    for step in steps:
        if not step.printed:
            continue
        if step.comment is not None:
            lines.append(comment(step.comment, 1))
        lines.append(indented(step.code))
        lines.extend(indented(statement) for statement in step.frees)
    return lines


def write(result: OptimizedGraph, folder: Path) -> Path:
    """Write `model_ttnn.py`, what runs it and the kernels into a folder; returns the program's path."""
    program = ttnn_program(result)
    path = folder / FILE_NAME
    scripts = {script.name: script.read_text("utf-8") for script in (RUNNER, FULL_SPEED)}
    write_files(folder, {**scripts, **program.files, FILE_NAME: render(program)})
    return path


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Texts by path below a folder, which is made where it is missing."""
    for name, text in files.items():
        written(folder / name, text)
