"""Kernels launched with values on a simulator or a board, against the witnesses of this machine.

with KernelDevice(board, "sim") as device:
    found = launched(program, KernelOptions(board=board), device, seed=0)
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from optimizer.device import DeviceSpec
from optimizer.errors import ExecutionError
from optimizer.export.launcher import FUNCTION, launcher_text
from optimizer.files import make_folder, write_text
from optimizer.kernels.tensix.arguments import NO_ARGUMENTS, Arguments
from optimizer.kernels.tensix.emit_cpp import KernelSource, emit_program
from optimizer.kernels.tensix.error_bound import TIMES_BOUND, times_bound
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.launch import Launch, launch_of
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.rounding import Array
from optimizer.kernels.tensix.whole_tensors import executed, expected, inputs_of
from optimizer.kernels.tensix.witness import differing
from optimizer.opmodel.ttmetal.environment import cache_folder
from optimizer.opmodel.ttmetal.execution import ExecutionSession, open_execution
from optimizer.opmodel.ttnn_calls.text import dtype_text, literal, memory_config_text

FOLDER = "launched-kernels"
"""Of the C++ that was launched, below the cache. tt-metal keeps what it compiles by the paths of sources: the same
kernel has the same path."""


@dataclass(frozen=True)
class Launched:
    """One launch, compared."""

    tensors: Mapping[str, Array]
    """What the device left in the tensors that the kernel writes, by the program's argument."""
    elements: int
    """That cores write."""
    executed_differs: int | None
    """Elements that are not, bit for bit, those of the C++ under g++; None without a compiler."""
    interpreter_differs: int
    """Elements that are not, bit for bit, the DST interpreter's."""
    largest_error: float
    """Distance from the meaning without rounding, in error bounds."""
    judged: int
    """Elements that have an exact value and a bound."""

    @property
    def right(self) -> bool:
        return self.largest_error <= TIMES_BOUND and self.judged > 0

    def to_json(self) -> dict[str, Any]:
        return {
            "agrees": self.right,
            "elements": self.elements,
            "executed_differs": self.executed_differs,
            "interpreter_differs": self.interpreter_differs,
            "largest_error_in_bounds": float(f"{self.largest_error:.4g}"),
            "judged": self.judged,
        }


class KernelDevice:
    """A device for kernel after kernel, in a process of its own; the next kernel after one that ended it gets another.

    ExecutionError is the answer of a device that does not open, refuses a kernel, or ends.
    """

    def __init__(self, board: DeviceSpec, source: str) -> None:
        """`source`: `sim`, `real`, or `mock`, which computes nothing."""
        self.board, self._source = board, source
        self._open = ExitStack()
        self._session: ExecutionSession | None = None

    def __enter__(self) -> KernelDevice:
        self._ready()
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._open.close()
        self._session = None

    def run(
        self,
        launch: Launch,
        sources: Sequence[KernelSource],
        inputs: Mapping[str, Array],
        arguments: Arguments = NO_ARGUMENTS,
    ) -> dict[str, Array]:
        """Launch a kernel on these tensors: what it leaves in those that it writes, by the program's argument."""
        try:
            session = self._ready()
            session.load(f"__file__ = {literal(str(_written(launch, sources)))}\n{launcher_text(launch)}")
            numbered = {f"x{k}": inputs[tensor.argument] for k, tensor in enumerate(launch.inputs)}
            session.feed("arrays", numbered)
            session.run(_feeding(launch), "the inputs")
            own = _arguments_text(launch, arguments)
            session.run(f"made = {FUNCTION}(device, *given{own})\nmade = made if isinstance(made, tuple) else (made,)")
            found = session.fetch(["made"])
            session.run("del arrays, given, made", "the end")
            session.unload()
        except ExecutionError:
            self.close()
            raise
        return {tensor.argument: found[f"made.{k}"] for k, tensor in enumerate(launch.outputs)}

    def _ready(self) -> ExecutionSession:
        if self._session is None or not self._session.alive:
            self.close()
            self._session = self._open.enter_context(open_execution(self.board, 0, self._source))
        return self._session


def launched(
    program: Op, options: KernelOptions, device: KernelDevice, seed: int = 0, arguments: Arguments = NO_ARGUMENTS
) -> Launched:
    """Random inputs through a kernel on a device and through its witnesses. ExecutionError if the device refuses it,
    VerificationError if a witness does."""
    lowered = lower(program, options)
    sources = emit_program(lowered)
    launch = launch_of(program, lowered, sources, device.board)
    inputs = inputs_of(program, launch, seed)
    wanted = expected(program, launch, options, inputs, arguments)
    here = executed(launch, lowered, sources, options, inputs, arguments) if has_compiler() else None
    got = device.run(launch, sources, inputs, arguments)
    errors = [times_bound(got[name][w.written], w.exact[w.written], w.near[w.written]) for name, w in wanted.items()]
    return Launched(
        tensors=got,
        elements=sum(int(w.written.sum()) for w in wanted.values()),
        executed_differs=None
        if here is None
        else sum(_differing(here[n], got[n], w.written) for n, w in wanted.items()),
        interpreter_differs=sum(_differing(w.interpreted, got[n], w.written) for n, w in wanted.items()),
        largest_error=max((largest for largest, _ in errors), default=0.0),
        judged=sum(count for _, count in errors),
    )


def _differing(wanted: Array, got: Array, written: np.ndarray[Any, np.dtype[np.bool_]]) -> int:
    return differing(wanted[written], got[written])


def _arguments_text(launch: Launch, arguments: Arguments) -> str:
    """Run-time arguments behind others in a call, those that differ by core by the (x, y) of the chip."""
    left, top = launch.cores[0][:2]
    found = []
    for name in launch.runtime_args:
        value = arguments[name]
        if isinstance(value, Mapping):
            found.append(
                ", {" + ", ".join(f"({left + x}, {top + y}): {n}" for (x, y), n in sorted(value.items())) + "}"
            )
        else:
            found.append(f", {value}")
    return "".join(found)


def _written(launch: Launch, sources: Sequence[KernelSource]) -> Path:
    """Path of the launcher, beside whose folder's C++ it is."""
    texts = {thread.file: source.text for thread, source in zip(launch.threads, sources, strict=True)}
    folder = cache_folder() / FOLDER / hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:16]
    make_folder(folder)
    for name, text in texts.items():
        write_text(folder / name, text)
    return folder / "launch.py"


def _feeding(launch: Launch) -> str:
    """Statements that put `arrays` on the device as the tensors that the kernel reads."""
    lines = ["given = []"]
    for k, tensor in enumerate(launch.inputs):
        host = f"ttnn.Tensor(arrays['x{k}'], {dtype_text(tensor.dtype)}, layout=ttnn.TILE_LAYOUT)"
        lines.append(
            f"given.append(ttnn.to_device({host}, device, memory_config={memory_config_text(tensor.layout.memory)}))"
        )
    return "\n".join(lines)
