"""Prints a `TTNNProgram` as one Python file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from optimizer.export.ttnn_py.building import FILE_NAME, code, ttnn_program
from optimizer.export.ttnn_py.formatting import comment, indented
from optimizer.export.ttnn_py.program import ProgramStep, TTNNProgram
from optimizer.opmodel.ttnn_calls.text import literal, quoted
from optimizer.process.files import make_folder, write_text
from optimizer.result import OptimizedGraph

RUNNER = Path(__file__).with_name("run_model.py")
"""The script that lies beside every program, as it is."""
FULL_SPEED = Path(__file__).with_name("full_speed.py")
"""What the script runs programs with from a trace or on two queues, also beside every program."""

_MAKE_PARAMETERS = '''

def make_parameters(device, arrays=None, placeholders=False):
    """What `run` takes as parameters, made once: weights in the form that their ops take."""
    return prepare_parameters(device, make_tensors(device, PARAMETERS, arrays, placeholders))


def prepare_parameters(device, tensors):
    """Ops on weights only, and the weights that their ops would otherwise prepare at every call."""
'''

_RUN = '''

def run(device, inputs, parameters):
    """One run of the model; returns its outputs in order. Inputs and parameters stay as they are."""
'''

_MAIN = '''

L1_SMALL_SIZE = {l1_small_bytes}
"""With which the device is to be opened."""
TRACE_REGION_SIZE = {trace_region_bytes}
"""Likewise, where a run is captured as a trace: bytes of DRAM for its commands."""
PREDICTED_NS = {predicted_ns}
"""Times of a run by the plan's cost model: of its kernels, and with their launches, from a trace or without."""


def main():
    """Open device 0, run once with placeholders, close it."""
    device = ttnn.open_device(device_id=0, l1_small_size=L1_SMALL_SIZE)
    try:
        parameters = make_parameters(device, placeholders=True)
        for output in run(device, make_inputs(device, placeholders=True), parameters):
            print(output.shape, output.dtype)
    finally:
        ttnn.close_device(device)


if __name__ == "__main__":
    main()
'''


def render(program: TTNNProgram) -> str:
    """The text of the program's file."""
    parts = [program.prelude.rstrip("\n"), _MAKE_PARAMETERS.rstrip("\n")]
    parts += _body(program.parameter_steps)
    parts.append(indented("return parameters"))
    parts.append(_RUN.rstrip("\n"))
    parts += _body(program.run_steps)
    parts.append(indented(code(f"return [{', '.join(program.outputs)}]")))
    figures = {
        "l1_small_bytes": literal(int(program.l1_small_bytes)),
        "trace_region_bytes": literal(int(program.trace_region_bytes)),
        "predicted_ns": "{" + ", ".join(f"{quoted(k)}: {literal(ns)}" for k, ns in program.predicted_ns.items()) + "}",
    }
    parts.append(_MAIN.format(**figures).rstrip("\n"))
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
        path = folder / name
        make_folder(path.parent)
        write_text(path, text)
