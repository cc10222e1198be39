"""Compiles emitted kernels with g++ and runs reader, compute and writer as threads of one program."""

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
from optimizer.kernels.tensix.device.values import Units
from optimizer.kernels.tensix.emit_cpp import KernelSource
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
    """Tensors after the run, and what the core counted."""

    tensors: Mapping[str, Array]
    sections: int
    inits: int
    max_dst: int


def has_compiler() -> bool:
    """Whether kernels can be executed here."""
    return shutil.which(COMPILER) is not None


def execute(
    program: Op,
    kernels: Sequence[KernelSource],
    tensors: Mapping[str, Array],
    capacity: int | None = None,
    core: tuple[int, int] = (0, 0),
    chip: str | None = None,
) -> Execution:
    """Run the kernels of a program lowered to TTKernel calls on one core, the one at (x, y).

    `tensors`: program argument -> elements (rows and columns of whole tiles); arguments that are missing start as zero.
    Of an argument that backs a circular buffer it is this core's shard. `chip`: values are what the units of this
    architecture make of them (`device.hpp`); None: every result is rounded once.
    VerificationError with the core's message if anything goes wrong, the compiler's included.
    """
    with compiled(program, kernels, capacity, chip) as run:
        return run(tensors, core)


@contextmanager
def compiled(
    program: Op, kernels: Sequence[KernelSource], capacity: int | None = None, chip: str | None = None
) -> Iterator[Callable[[Mapping[str, Array], tuple[int, int]], Execution]]:
    """As `execute`, for core after core: a function of the tensors and the core, until the block ends."""
    wide = bool(program.attr("fp32_dest_acc_en", False))
    slots = capacity_of(program, capacity)
    with tempfile.TemporaryDirectory(prefix="ttopt-kernel-") as name:
        folder = Path(name)
        _write_sources(folder, program, kernels, _main(program, kernels, slots, wide, chip))
        runtime = _precompiled() if next(_RUNS) else _runtime(folder)
        _run([*COMPILE, "-I", str(folder), "-I", str(runtime), "-o", "core", "main.cpp"], folder)

        def run(tensors: Mapping[str, Array], core: tuple[int, int]) -> Execution:
            _write_tensors(folder, program, tensors)
            counted = _run([str(folder / "core"), *map(str, core)], folder)
            sections, inits, most = (int(word) for word in counted.split())
            return Execution(_read_tensors(folder, program), sections, inits, most)

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
    """`folder`, with runtime.hpp and what it includes in it."""
    for name in ("runtime.hpp", "device.hpp"):
        source = files("optimizer.kernels.tensix.executor") / name
        (folder / name).write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    return folder


@cache
def _precompiled() -> Path:
    """A folder with runtime.hpp and its precompiled header, until the process ends.

    It takes as long as two kernels without it (3 s) and saves two thirds of each that follows: not for a single one.
    """
    folder = _runtime(Path(tempfile.mkdtemp(prefix="ttopt-runtime-")))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _run([*COMPILE, "-x", "c++-header", "runtime.hpp"], folder)
    return folder


def _write_sources(folder: Path, program: Op, kernels: Sequence[KernelSource], main: str) -> None:
    called = {name for kernel in kernels for name in re.findall(r"\b[a-z]\w*", kernel.text)}
    (folder / "kernel_api.hpp").write_text(header(called), encoding="utf-8")
    # g++ takes a precompiled header first or not at all.
    parts = ['#include "runtime.hpp"', '#include "kernel_api.hpp"']
    for k, kernel in enumerate(kernels):
        for line in kernel.text.splitlines():
            if line.startswith('#include "'):
                path = folder / line.split('"')[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        (folder / f"kernel_{k}.cpp").write_text(kernel.text, encoding="utf-8")
        parts.append(f'namespace kernel_{k} {{\n#include "kernel_{k}.cpp"\n}}')
    parts.append(main)
    (folder / "main.cpp").write_text("\n".join(parts) + "\n", encoding="utf-8")


def _main(program: Op, kernels: Sequence[KernelSource], capacity: int, wide: bool, chip: str | None) -> str:
    lines = [
        "int main(int, char** words) {",
        "    using namespace tensix;",
        f"    dst.capacity = {capacity}; dst.sixteen_bits = {str(not wide).lower()};",
        "    dst.tiles.resize(dst.capacity); dst.defined.assign(dst.capacity, 0);",
        "    core_x = std::atoi(words[1]); core_y = std::atoi(words[2]);",
    ]
    if chip is not None:
        units = Units.of(program, chip)
        lines.append(f"    on_device = true; wide_dst = {str(wide).lower()}; phases = {units.phases};")
        lines.append(f"    least_slips = {str(units.least_slips).lower()};")
    for op in program.body.ops:
        if op.name == "ttl.bind_cb":
            cb = op.result.typed(CircularBufferType)
            tiles, number = cb.block.tiles * cb.block_count, FORMAT_NUMBERS[cb.dtype]
            lines.append(f"    {{ auto& b = core.buffers[{op.integer('index')}]; b.bound = true; b.capacity = {tiles};")
            lines.append(f"      b.format = Format({number}); b.tile_bytes = {cb.dtype.tile_bytes};")
            if op.attr("unpack_to_dst", False):
                lines.append("      b.straight = true;")
            lines.append(f"      b.tiles.resize({tiles}); b.poisoned.assign({tiles}, 1); }}")
    numbers = {v.name: k for k, v in enumerate(program.body.args)}
    for k, v in enumerate(program.body.args):
        lines.append(f"    tensors.emplace_back(); tensors[{k}].tiles.resize({v.typed(TensorType).tiles});")
    lines += _FILES.splitlines()
    backed = _backed(program, numbers)
    lines += [f"    back_by_tensor({index}, {tensor});" for index, tensor in backed]
    lines.append(f"    core.alive = {len(kernels)};")
    lines.append(f"    std::string errors[{len(kernels)}]; std::vector<std::thread> threads;")
    for k, kernel in enumerate(kernels):
        args = ", ".join(f"{numbers[t]}u" for t in kernel.tensors)
        call = f'"{kernel.kind}", std::vector<uint32_t>{{{args}}}, kernel_{k}::kernel_main, &errors[{k}]'
        lines.append(f"    threads.emplace_back(run_thread, {call});")
    given_back = "".join(f" keep_in_tensor({index}, {tensor});" for index, tensor in backed)
    lines += _ENDING.replace("GIVEN_BACK", given_back).splitlines()
    return "\n".join(lines)


def _backed(program: Op, numbers: Mapping[str, int]) -> list[tuple[int, int]]:
    """(circular buffer, number of the tensor whose shard it lies in)."""
    binds = (op for op in program.body.ops if op.name == "ttl.bind_cb" and op.has_attr("tensor"))
    return [(op.integer("index"), numbers[op.string("tensor")]) for op in binds]


_FILES = """    FILE* in = fopen("tensors.in", "rb");
    for (auto& t : tensors) if (fread(t.tiles.data(), sizeof(Tile), t.tiles.size(), in) != t.tiles.size()) return 2;
    fclose(in);"""
_ENDING = """    for (auto& t : threads) t.join();
    std::string first;
    for (auto& e : errors) if (!e.empty() && (first.empty() || first.ends_with("stopped"))) first = e;
    if (first.empty()) first = left_over();
    if (!first.empty()) { fprintf(stderr, "%s\\n", first.c_str()); return 1; }
   GIVEN_BACK
    FILE* out = fopen("tensors.out", "wb");
    for (auto& t : tensors) fwrite(t.tiles.data(), sizeof(Tile), t.tiles.size(), out);
    fclose(out);
    printf("%d %d %d\\n", dst.sections, dst.inits, dst.most);
    return 0;
}"""


def _write_tensors(folder: Path, program: Op, tensors: Mapping[str, Array]) -> None:
    with (folder / "tensors.in").open("wb") as file:
        for v in program.body.args:
            rows, columns = v.typed(TensorType).shape
            values = tensors.get(v.name, np.zeros((rows * TILE, columns * TILE), np.float32))
            file.write(_to_tiles(rounded(values, v.typed(TensorType).dtype), rows, columns).tobytes())


def _to_tiles(values: Array, rows: int, columns: int) -> Array:
    tiles = values.reshape(rows, TILE, columns, TILE).swapaxes(1, 2)
    return np.ascontiguousarray(tiles, dtype=np.float32)


def _read_tensors(folder: Path, program: Op) -> dict[str, Array]:
    data = np.fromfile(folder / "tensors.out", dtype=np.float32)
    found: dict[str, Array] = {}
    start = 0
    for v in program.body.args:
        rows, columns = v.typed(TensorType).shape
        count = rows * columns * TILE * TILE
        tiles = data[start : start + count].reshape(rows, columns, TILE, TILE)
        found[v.name] = tiles.swapaxes(1, 2).reshape(rows * TILE, columns * TILE)
        start += count
    return found
