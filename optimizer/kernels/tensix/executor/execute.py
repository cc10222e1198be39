"""Compiles emitted kernels with g++ and runs reader, compute and writer, of one core or of all, as threads."""

from __future__ import annotations

import atexit
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import count
from pathlib import Path

import numpy as np

from optimizer.errors import VerificationError
from optimizer.kernels.tensix.arguments import Arguments, Place, core_arguments
from optimizer.kernels.tensix.buffers import backing
from optimizer.kernels.tensix.device.values import Units
from optimizer.kernels.tensix.emit_cpp import KernelSource, runtime_args, semaphores
from optimizer.kernels.tensix.executor.header import header
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.passes.assign_dst import capacity_of
from optimizer.kernels.tensix.rounding import FORMAT_NUMBERS, Array, rounded
from optimizer.kernels.tensix.types import TILE, CircularBufferType, TensorType

COMPILER = "g++"
COMPILE = (COMPILER, "-std=c++20", "-O0", "-ffp-contract=off", "-pthread")
SECONDS = 120
"""After which a run is given up: the executor itself ends deadlocks."""
_RUNS = count()


@dataclass(frozen=True)
class Execution:
    """Tensors after the run, and what the cores counted; `max_dst` is the most of any."""

    tensors: Mapping[str, Array]
    sections: int
    inits: int
    max_dst: int


def has_compiler() -> bool:
    """Whether kernels can be executed here."""
    return shutil.which(COMPILER) is not None


Run = Callable[[Mapping[str, Array], Sequence[Place], Arguments], Execution]
"""A run of a compiled kernel on tensors, on the cores at these (x, y) at once, with run-time arguments.

Tensors: program argument -> elements (rows and columns of whole tiles); arguments that are missing start as zero. Of
one that a circular buffer lies in they are the shards of the cores, one below the other.
"""


@contextmanager
def compiled(program: Op, kernels: Sequence[KernelSource], chip: str | None = None) -> Iterator[Run]:
    """Run the kernels of a program lowered to TTKernel calls, again and again until the block ends.

    `chip`: values are what the units of this architecture make of them (`device.hpp`); None: every result is rounded
    once. VerificationError with the core's message if anything goes wrong, the compiler's included.
    """
    wide = bool(program.attr("fp32_dest_acc_en", False))
    slots = capacity_of(program)
    with tempfile.TemporaryDirectory(prefix="ttopt-kernel-") as name:
        folder = Path(name)
        first = next(_RUNS) == 0
        runtime = _runtime(folder) if first else _precompiled()
        _write_sources(folder, kernels, _main(program, kernels, slots, wide, chip), first)
        objects = [] if first else [str(runtime / "runtime.o")]
        _run([*COMPILE, "-I", str(folder), "-I", str(runtime), "-o", "core", "main.cpp", *objects], folder)

        def run(tensors: Mapping[str, Array], cores: Sequence[Place], arguments: Arguments) -> Execution:
            shapes = _held(program, len(cores))
            _write_tensors(folder, program, tensors, shapes)
            given = [n for core in cores for n in (*core, *core_arguments(program, arguments, core))]
            counted = _run([str(folder / "core"), *map(str, given)], folder)
            sections, inits, most = (int(word) for word in counted.split())
            return Execution(_read_tensors(folder, shapes), sections, inits, most)

        yield run


def _run(command: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise VerificationError(f"{Path(command[0]).name} did not end within {SECONDS} s") from None
    if done.returncode:
        text = done.stderr.strip() or f"exit code {done.returncode}"
        errors = [line for line in text.splitlines() if "error:" in line] or text.splitlines()
        raise VerificationError("; ".join(errors[:3]), node=Path(command[0]).name)
    return done.stdout


def _runtime(folder: Path) -> Path:
    """`folder`, with the executor's C++ in it."""
    for source in files("optimizer.kernels.tensix.executor").iterdir():
        if source.name.endswith((".hpp", ".cpp")):
            (folder / source.name).write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    return folder


@cache
def _precompiled() -> Path:
    """A folder with the executor's headers and `runtime.cpp`, compiled, until the process ends.

    It takes as long as two kernels without it (3 s) and saves two thirds of each that follows: not for a single one.
    """
    folder = _runtime(Path(tempfile.mkdtemp(prefix="ttopt-runtime-")))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _run([*COMPILE, "-x", "c++-header", "running.hpp"], folder)
    _run([*COMPILE, "-c", "runtime.cpp"], folder)
    return folder


def _write_sources(folder: Path, kernels: Sequence[KernelSource], main: str, whole: bool) -> None:
    """`main.cpp`, with what it includes; `whole`: with the executor's bodies, else they are compiled already."""
    called = {name for kernel in kernels for name in re.findall(r"\b[a-z]\w*", kernel.text)}
    (folder / "kernel_api.hpp").write_text(header(called), encoding="utf-8")
    # g++ takes a precompiled header first or not at all.
    parts = ['#include "running.hpp"', '#include "kernel_api.hpp"']
    for k, kernel in enumerate(kernels):
        for line in kernel.text.splitlines():
            if line.startswith('#include "'):
                path = folder / line.split('"')[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        (folder / f"kernel_{k}.cpp").write_text(kernel.text, encoding="utf-8")
        parts.append(f'namespace kernel_{k} {{\n#include "kernel_{k}.cpp"\n}}')
    parts.append(main)
    if whole:
        parts.append('#include "runtime.cpp"')
    (folder / "main.cpp").write_text("\n".join(parts) + "\n", encoding="utf-8")


def _main(program: Op, kernels: Sequence[KernelSource], capacity: int, wide: bool, chip: str | None) -> str:
    """The program that tells `running.hpp` what the kernels need, and has it run cores."""
    lines = [f"has_dst({capacity}, {_cpp(not wide)});"]
    if chip is not None:
        units = Units.of(program, chip)
        slips, sums = _cpp(units.least_slips), _cpp(units.signless_sums)
        lines.append(f"has_units({_cpp(wide)}, {units.phases}, {slips}, {sums});")
    binds = [op for op in program.body.ops if op.name == "ttl.bind_cb"]
    for op in binds:
        cb = op.result.typed(CircularBufferType)
        tiles, number = cb.block.tiles * cb.block_count, FORMAT_NUMBERS[cb.dtype]
        straight = _cpp(bool(op.attr("unpack_to_dst", False)))
        lines.append(
            f"has_buffer({op.integer('index')}, {tiles}, Format({number}), {cb.dtype.tile_bytes}, {straight});"
        )
    lines += [f"has_semaphore({k}, {initial}u);" for k, initial in enumerate(semaphores(program).values())]
    numbers = {v.name: k for k, v in enumerate(program.body.args)}
    backed = {op.integer("index"): op.string("tensor") for op in binds if op.has_attr("tensor")}
    for v in program.body.args:
        lines.append(f"has_tensor({v.typed(TensorType).tiles}, {_cpp(v.name in backed.values())});")
    lines += [f"lies_in({index}, {numbers[tensor]});" for index, tensor in backed.items()]
    for k, kernel in enumerate(kernels):
        common = ", ".join(f"{numbers[t]}u" for t in kernel.tensors)
        lines.append(f'has_kernel("{kernel.kind}", kernel_{k}::kernel_main, {{{common}}});')
    lines.append(f"return run_program({len(runtime_args(program))}, count, words);")
    body = "\n".join(f"    {line}" for line in lines)
    return f"int main(int count, char** words) {{\n    using namespace tensix;\n{body}\n}}"


def _cpp(flag: bool) -> str:
    return str(flag).lower()


def _held(program: Op, cores: int) -> dict[str, tuple[int, int]]:
    """Tiles of every argument: of one that a circular buffer lies in, of the shards of so many cores."""
    backed = backing(program).values()
    shapes = {v.name: v.typed(TensorType).shape for v in program.body.args}
    return {name: (rows * cores if name in backed else rows, columns) for name, (rows, columns) in shapes.items()}


def _write_tensors(
    folder: Path, program: Op, tensors: Mapping[str, Array], shapes: Mapping[str, tuple[int, int]]
) -> None:
    with (folder / "tensors.in").open("wb") as file:
        for v in program.body.args:
            rows, columns = shapes[v.name]
            values = tensors.get(v.name, np.zeros((rows * TILE, columns * TILE), np.float32))
            file.write(_to_tiles(rounded(values, v.typed(TensorType).dtype), rows, columns).tobytes())


def _to_tiles(values: Array, rows: int, columns: int) -> Array:
    tiles = values.reshape(rows, TILE, columns, TILE).swapaxes(1, 2)
    return np.ascontiguousarray(tiles, dtype=np.float32)


def _read_tensors(folder: Path, shapes: Mapping[str, tuple[int, int]]) -> dict[str, Array]:
    data = np.fromfile(folder / "tensors.out", dtype=np.float32)
    found: dict[str, Array] = {}
    start = 0
    for name, (rows, columns) in shapes.items():
        count = rows * columns * TILE * TILE
        tiles = data[start : start + count].reshape(rows, columns, TILE, TILE)
        found[name] = tiles.swapaxes(1, 2).reshape(rows * TILE, columns * TILE)
        start += count
    return found
