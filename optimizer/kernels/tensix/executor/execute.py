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
from optimizer.kernels.tensix.arguments import NO_ARGUMENTS, Arguments, Place, core_arguments, cores_of
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


def execute(
    program: Op,
    kernels: Sequence[KernelSource],
    tensors: Mapping[str, Array],
    capacity: int | None = None,
    core: Place = (0, 0),
    arguments: Arguments = NO_ARGUMENTS,
    chip: str | None = None,
) -> Execution:
    """Run the kernels of a program lowered to TTKernel calls on one core, the one at (x, y).

    `tensors`: program argument -> elements (rows and columns of whole tiles); arguments that are missing start as zero.
    Of an argument that backs a circular buffer it is this core's shard. `arguments`: the run-time ones. `chip`: values
    are what the units of this architecture make of them (`device.hpp`); None: every result is rounded once.
    VerificationError with the core's message if anything goes wrong, the compiler's included.
    """
    with compiled(program, kernels, capacity, chip) as run:
        return run(tensors, (core,), arguments)


def execute_grid(
    program: Op,
    kernels: Sequence[KernelSource],
    tensors: Mapping[str, Array],
    arguments: Arguments = NO_ARGUMENTS,
    capacity: int | None = None,
    chip: str | None = None,
) -> Execution:
    """The same on all cores of the program's grid at once; shards of a tensor are one below the other, core by core."""
    with compiled(program, kernels, capacity, chip) as run:
        return run(tensors, cores_of(program), arguments)


Run = Callable[[Mapping[str, Array], Sequence[Place], Arguments], Execution]
"""A run of a compiled kernel on these tensors, on these cores at once. Of a tensor that a circular buffer lies in it
takes and gives the shards of the cores, one below the other."""


@contextmanager
def compiled(
    program: Op, kernels: Sequence[KernelSource], capacity: int | None = None, chip: str | None = None
) -> Iterator[Run]:
    """As `execute`, for run after run, until the block ends."""
    wide = bool(program.attr("fp32_dest_acc_en", False))
    slots = capacity_of(program, capacity)
    with tempfile.TemporaryDirectory(prefix="ttopt-kernel-") as name:
        folder = Path(name)
        _write_sources(folder, program, kernels, _main(program, kernels, slots, wide, chip))
        runtime = _precompiled() if next(_RUNS) else _runtime(folder)
        _run([*COMPILE, "-I", str(folder), "-I", str(runtime), "-o", "core", "main.cpp"], folder)

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
    """`folder`, with the executor's headers in it."""
    for source in files("optimizer.kernels.tensix.executor").iterdir():
        if source.name.endswith(".hpp"):
            (folder / source.name).write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    return folder


@cache
def _precompiled() -> Path:
    """A folder with the executor's headers, precompiled, until the process ends.

    It takes as long as two kernels without it (3 s) and saves two thirds of each that follows: not for a single one.
    """
    folder = _runtime(Path(tempfile.mkdtemp(prefix="ttopt-runtime-")))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _run([*COMPILE, "-x", "c++-header", "noc.hpp"], folder)
    return folder


def _write_sources(folder: Path, program: Op, kernels: Sequence[KernelSource], main: str) -> None:
    called = {name for kernel in kernels for name in re.findall(r"\b[a-z]\w*", kernel.text)}
    (folder / "kernel_api.hpp").write_text(header(called), encoding="utf-8")
    # g++ takes a precompiled header first or not at all.
    parts = ['#include "noc.hpp"', '#include "kernel_api.hpp"']
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
    """The program that runs cores; its words are column, row and run-time arguments of one after the other."""
    lines = [
        "tensix::Core& made(uint8_t x, uint8_t y) {",
        "    using namespace tensix;",
        "    cores.push_back(std::make_unique<Core>());",
        "    Core& core = *cores.back();",
        "    core.x = x; core.y = y; core.dst = new Dst;",
        f"    core.dst->capacity = {capacity}; core.dst->sixteen_bits = {str(not wide).lower()};",
        f"    core.dst->tiles.resize({capacity}); core.dst->defined.assign({capacity}, 0);",
    ]
    if chip is not None:
        units = Units.of(program, chip)
        lines.append(f"    on_device = true; wide_dst = {str(wide).lower()}; phases = {units.phases};")
        lines.append(f"    least_slips = {str(units.least_slips).lower()};")
        lines.append(f"    signless_sums = {str(units.signless_sums).lower()};")
    for op in program.body.ops:
        if op.name == "ttl.bind_cb":
            cb = op.result.typed(CircularBufferType)
            tiles, number = cb.block.tiles * cb.block_count, FORMAT_NUMBERS[cb.dtype]
            lines.append(f"    {{ auto& b = core.buffers[{op.integer('index')}]; b.bound = true; b.capacity = {tiles};")
            lines.append(f"      b.format = Format({number}); b.tile_bytes = {cb.dtype.tile_bytes};")
            if op.attr("unpack_to_dst", False):
                lines.append("      b.straight = true;")
            lines.append(f"      b.tiles.resize({tiles}); b.poisoned.assign({tiles}, 1); b.filled.assign({tiles}, 0);")
            lines.append(f"      b.arrived.resize({tiles}); }}")
    for k, initial in enumerate(semaphores(program).values()):
        lines.append(f"    core.semaphores[{k}].there = true; core.semaphores[{k}].value = {initial}u;")
    lines += ["    return core;", "}", "int main(int count, char** words) {", "    using namespace tensix;"]
    numbers = {v.name: k for k, v in enumerate(program.body.args)}
    backed = _backed(program, numbers)
    own = len(runtime_args(program))
    lines.append(f"    const int core_count = (count - 1) / {2 + own}, kernels = {len(kernels)};")
    sharded = {tensor for _, tensor in backed}
    for k, v in enumerate(program.body.args):
        times = " * core_count" if k in sharded else ""
        lines.append(f"    tensors.emplace_back(); tensors[{k}].tiles.resize({v.typed(TensorType).tiles}{times});")
    lines += _FILES.splitlines()
    lines += [
        "    machine.alive = kernels * core_count;",
        "    std::vector<std::string> errors(machine.alive); std::vector<Given> given;",
        "    for (int n = 0; n < core_count; ++n) {",
        f"        char** word = words + 1 + n * {2 + own};",
        "        Core& core = made(std::atoi(word[0]), std::atoi(word[1]));",
        "        std::vector<uint32_t> unique;",
        f"        for (int k = 0; k < {own}; ++k) unique.push_back(uint32_t(std::strtoul(word[2 + k], nullptr, 10)));",
    ]
    lines += [f"        back_by_tensor(core, {index}, {tensor}, n);" for index, tensor in backed]
    for k, kernel in enumerate(kernels):
        common = ", ".join(f"{numbers[t]}u" for t in kernel.tensors)
        entry = f'&core, "{kernel.kind}", n * kernels + {k}, {{{common}}}, unique, kernel_{k}::kernel_main'
        lines.append(f"        given.push_back({{{entry}, &errors[n * kernels + {k}]}});")
    lines.append("    }")
    given_back = "".join(f" keep_in_tensor(*cores[n], {index}, {tensor}, n);" for index, tensor in backed)
    lines += _ENDING.replace("GIVEN_BACK", given_back).splitlines()
    return "\n".join(lines)


def _backed(program: Op, numbers: Mapping[str, int]) -> list[tuple[int, int]]:
    """(circular buffer, number of the tensor whose shard it lies in)."""
    binds = (op for op in program.body.ops if op.name == "ttl.bind_cb" and op.has_attr("tensor"))
    return [(op.integer("index"), numbers[op.string("tensor")]) for op in binds]


_FILES = """    FILE* in = fopen("tensors.in", "rb");
    for (auto& t : tensors) if (fread(t.tiles.data(), sizeof(Tile), t.tiles.size(), in) != t.tiles.size()) return 2;
    fclose(in);"""
_ENDING = """    std::vector<std::thread> threads;
    for (auto& g : given) threads.emplace_back(run_thread, g);
    for (auto& t : threads) t.join();
    std::string first;
    for (auto& e : errors) if (!e.empty() && (first.empty() || first.ends_with("stopped"))) first = e;
    for (auto& c : cores) if (first.empty()) first = left_over(*c);
    if (!first.empty()) { fprintf(stderr, "%s\\n", first.c_str()); return 1; }
    for (int n = 0; n < core_count; ++n) {GIVEN_BACK }
    FILE* out = fopen("tensors.out", "wb");
    for (auto& t : tensors) fwrite(t.tiles.data(), sizeof(Tile), t.tiles.size(), out);
    fclose(out);
    int sections = 0, inits = 0, most = 0;
    for (auto& c : cores) {
        sections += c->dst->sections; inits += c->dst->inits; most = std::max(most, c->dst->most);
    }
    printf("%d %d %d\\n", sections, inits, most);
    return 0;
}"""


def _held(program: Op, cores: int) -> dict[str, tuple[int, int]]:
    """Tiles of every argument: of one that a circular buffer lies in, of the shards of so many cores."""
    binds = (op for op in program.body.ops if op.name == "ttl.bind_cb" and op.has_attr("tensor"))
    backed = {op.string("tensor") for op in binds}
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
