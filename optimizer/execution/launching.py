"""Kernels launched with values on a simulator or a board, against the witnesses of this machine.

with KernelDevice(board, "sim") as device:
    found = launched(program, KernelOptions(board=board), device, seed=0)
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

from optimizer.device import DeviceSpec
from optimizer.errors import ExecutionError
from optimizer.export.launcher import FUNCTION, LAUNCHER, MANIFEST, OPTION_FIELDS, PROGRAM, kernel_files
from optimizer.kernels.tensix.arguments import NO_ARGUMENTS, Arguments
from optimizer.kernels.tensix.dst.schedule import Schedule
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.launch import BuiltKernel, Launch, build
from optimizer.kernels.tensix.passes.assign_dst import Allocator
from optimizer.kernels.tensix.passes.push_sections import Push
from optimizer.kernels.tensix.pipeline import KernelOptions
from optimizer.kernels.tensix.rounding import Array
from optimizer.kernels.tensix.source.rules import MAX_INTEGER
from optimizer.kernels.tensix.source.text import parse
from optimizer.kernels.tensix.witness.error_bound import FPU_SUM, TIMES_BOUND, times_bound
from optimizer.kernels.tensix.witness.whole_tensors import WrittenTensor, differing, executed, expected, inputs_of
from optimizer.opmodel.ttmetal.environment import cache_folder
from optimizer.opmodel.ttmetal.execution import ExecutionSession, open_execution
from optimizer.opmodel.ttnn_calls.text import dtype_text, literal, memory_config_text
from optimizer.process.files import make_folder, write_text
from optimizer.process.json_document import read, read_text

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
        kernel: BuiltKernel,
        inputs: Mapping[str, Array],
        module: Path | None = None,
        arguments: Arguments = NO_ARGUMENTS,
    ) -> dict[str, Array]:
        """Launch a kernel on these tensors: what it leaves in those that it writes, by the program's argument.

        `module`: its `launch.py`, beside its C++; by default they are written to the cache.
        """
        launch, module = kernel.launch, module or _kept(kernel)
        try:
            session = self._ready()
            session.load(f"__file__ = {literal(str(module))}\n{module.read_text(encoding='utf-8')}")
            numbered = {f"x{k}": inputs[tensor.argument] for k, tensor in enumerate(launch.inputs)}
            session.feed("arrays", numbered)
            session.run(_feeding(launch), "the inputs")
            session.run(_call(launch, arguments), "the kernel")
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
    kernel = build(program, options)
    return compared(kernel, device, inputs_of(program, kernel.launch, seed), arguments=arguments)


def compared(
    kernel: BuiltKernel,
    device: KernelDevice,
    inputs: Mapping[str, Array],
    module: Path | None = None,
    arguments: Arguments = NO_ARGUMENTS,
) -> Launched:
    """The same for a kernel that is built already, inputs by the program's argument, and a `launch.py` of one's own."""
    launch = kernel.launch
    wanted = expected(kernel.program, launch, kernel.options, inputs, FPU_SUM, arguments)
    here = None
    if has_compiler():
        here = executed(launch, kernel.lowered, kernel.sources, inputs, arguments)
    got = device.run(kernel, inputs, module, arguments)
    errors = [times_bound(got[name][w.written], w.exact[w.written], w.near[w.written]) for name, w in wanted.items()]
    return Launched(
        tensors=got,
        elements=sum(int(w.written.sum()) for w in wanted.values()),
        executed_differs=None if here is None else _differing(wanted, here.tensors, got),
        interpreter_differs=_differing(wanted, {name: w.on_chip for name, w in wanted.items()}, got),
        largest_error=max((largest for largest, _ in errors), default=0.0),
        judged=sum(count for _, count in errors),
    )


def launched_again(folder: Path, device: str, seed: int = 0, arguments: Arguments = NO_ARGUMENTS) -> Launched:
    """The `launch.py` of a folder that `kernel_files` filled, run on a device: random inputs, compared."""
    kernel = read_kernel(folder)
    with KernelDevice(kernel.options.board, device) as opened:
        inputs = inputs_of(kernel.program, kernel.launch, seed)
        return compared(kernel, opened, inputs, folder / LAUNCHER, arguments)


def _call(launch: Launch, arguments: Arguments) -> str:
    """Statements that launch; run-time arguments that differ by core are told by the (x, y) of the chip."""
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
    called = f"{FUNCTION}(device, *given{''.join(found)})"
    return f"made = {called}\nmade = made if isinstance(made, tuple) else (made,)"


def read_kernel(folder: Path) -> BuiltKernel:
    """The kernel of a folder that `kernel_files` filled, built again. FormatError if its manifest is none."""
    program = parse(read_text(folder / PROGRAM))
    fields = read(folder / MANIFEST).any_fields(("board", "compiled_with"))
    said = fields["compiled_with"].fields(OPTION_FIELDS, OPTION_FIELDS)
    numbers = {
        name: None if said[name].is_null else said[name].integer(0, MAX_INTEGER) for name in ("capacity", "l1_bytes")
    }
    options = KernelOptions(
        allocator=cast("Allocator", said["allocator"].text(get_args(Allocator))),
        schedule=None if said["schedule"].is_null else cast("Schedule", said["schedule"].text(get_args(Schedule))),
        fuse=said["fuse"].boolean(),
        push=cast("Push", said["push"].text(get_args(Push))),
        unroll=said["unroll"].boolean(),
        board=DeviceSpec.from_json(fields["board"].value, f"{MANIFEST}: board"),
        **numbers,
    )
    return build(program, options)


def _differing(wanted: Mapping[str, WrittenTensor], here: Mapping[str, Array], got: Mapping[str, Array]) -> int:
    return sum(differing(here[name][w.written], got[name][w.written]) for name, w in wanted.items())


def _kept(kernel: BuiltKernel) -> Path:
    """The launcher among the kernel's files in the cache."""
    texts = kernel_files(kernel)
    folder = cache_folder() / FOLDER / hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:16]
    make_folder(folder)
    for name, text in texts.items():
        write_text(folder / name, text)
    return folder / LAUNCHER


def _feeding(launch: Launch) -> str:
    """Statements that put `arrays` on the device as the tensors that the kernel reads."""
    lines = ["given = []"]
    for k, tensor in enumerate(launch.inputs):
        host = f"ttnn.Tensor(arrays['x{k}'], {dtype_text(tensor.dtype)}, layout=ttnn.TILE_LAYOUT)"
        lines.append(
            f"given.append(ttnn.to_device({host}, device, memory_config={memory_config_text(tensor.layout.memory)}))"
        )
    return "\n".join(lines)
