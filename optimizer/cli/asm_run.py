"""`ttopt asm run`: a kernel in the interpreter of assembly text, which refuses what the hardware leaves undefined."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import re
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizer.cli.arguments import path_argument
from optimizer.cli.asm_programs import one_program
from optimizer.errors import FormatError, LimitError, OptionError
from optimizer.process.files import make_folder, replacing

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]

DTYPES = {"f32": "float32", "f16": "float16", "i32": "int32", "u32": "uint32", "u16": "uint16", "i8": "int8",
          "u8": "uint8", "u64": "uint64"}  # fmt: skip
FILLS = ("random", "range", "zeros")
SHOWN = 8
MAX_BYTES = 1 << 28
"""Of one array."""
_ARRAY = re.compile(r"(\w+):([0-9]{1,12}(?:x[0-9]{1,12}){0,7})(?::(\w+))?")
_SCALAR = re.compile(r"(\w+)=(\S+)")


def add(subcommands: Any) -> None:
    run = subcommands.add_parser("run", help="build a kernel and run it in the interpreter", allow_abbrev=False)
    run.add_argument("source", type=path_argument, metavar="PROGRAM.json|K.kir|K.s", help="a program, or assembly")
    run.add_argument("--id", dest="case_id", metavar="ID", help="which case of a document of several")
    run.add_argument(
        "--mcpu", default="gfx942", metavar="NAME", help="processor to build a program for (default: gfx942)"
    )
    run.add_argument("--kernel", metavar="NAME", help="which kernel of an assembly file of several")
    run.add_argument("--grid", default="1", metavar="X[,Y,Z]", help="workgroups (default: 1)")
    run.add_argument("--workgroup", metavar="X[,Y,Z]", help="threads (default: what the program says)")
    run.add_argument(
        "--argument",
        action="append",
        default=[],
        metavar="NAME:VALUE",
        help="x:f32:64x16[:random|range|zeros], x:FILE.npy, or n:u32=5; in the order of the kernel's arguments",
    )
    run.add_argument("--seed", type=int, default=0, help="of random arrays (default: 0)")
    run.add_argument("-o", "--output", type=path_argument, metavar="DIR", help="write DIR/NAME.npy per array")
    run.set_defaults(run=run_run)


def run_run(args: argparse.Namespace) -> int:
    """JSON: what every array holds after the run, and what was executed."""
    from optimizer.kernels.amdgpu.witness.interpreter import run_kernel

    if args.seed < 0:
        raise OptionError(f"--seed {args.seed} is negative", node="--seed", limit=0)
    arguments = _arguments(args.argument, args.seed)
    text, kernel, workgroup = _kernel(args, tuple(arguments))
    done = run_kernel(text, kernel, _sizes(args.grid, "--grid"), workgroup, arguments)
    record: dict[str, Any] = {"kernel": kernel, "buffers": {}}
    for name, array in done.buffers.items():
        record["buffers"][name] = _summary(array)
        if args.output is not None:
            _write(args.output, name, array)
    statistics = dataclasses.asdict(done.statistics)
    statistics["by_mnemonic"] = dict(sorted(done.statistics.by_mnemonic.items()))
    statistics["executed_lines"] = len(done.statistics.executed_lines)
    record["statistics"] = statistics
    print(json.dumps(record))
    return 0


def _kernel(args: argparse.Namespace, names: tuple[str, ...]) -> tuple[str, str, tuple[int, ...]]:
    """Assembly, name of the kernel, threads of a workgroup."""
    from optimizer.kernels.amdgpu.pipeline import AssemblyOptions, build
    from optimizer.process.json_document import read_text

    given = _sizes(args.workgroup, "--workgroup") if args.workgroup else None
    if args.source.suffix != ".s":
        program = one_program(args.source, args.case_id)
        wanted = tuple(a.name for a in program.launch.arguments)
        if names != wanted:
            raise OptionError(
                f"--argument gives ({', '.join(names)}), {program.name} takes ({', '.join(wanted)})",
                node=str(args.source),
            )
        return build(program, AssemblyOptions(args.mcpu)).text, program.name, given or program.launch.workgroup
    text = read_text(args.source)
    kernels = re.findall(r"^\s*\.amdhsa_kernel\s+(\S+)", text, re.MULTILINE)
    name = args.kernel or (kernels[0] if len(kernels) == 1 else None)
    if name is None:
        raise OptionError("--kernel must say which kernel to run", node=str(args.source), alternatives=kernels)
    return text, name, given or (64,)


def _sizes(text: str, flag: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[0-9]{1,12}(,[0-9]{1,12}){0,2}", text):
        raise OptionError(f"{flag} takes one to three numbers, not '{text}'", alternatives=("64", "16,16"))
    return tuple(map(int, text.split(",")))


def _arguments(texts: list[str], seed: int) -> dict[str, Array | np.generic]:
    import numpy as np

    found: dict[str, Array | np.generic] = {}
    random = np.random.default_rng(seed)
    for text in texts:
        name, _, value = text.partition(":")
        if not name or name in found:
            raise OptionError(f"--argument '{text}': a name, once", alternatives=("x:f32:64", "n:u32=5"))
        found[name] = _argument(value, text, random)
    return found


def _argument(value: str, text: str, random: np.random.Generator) -> Array | np.generic:
    import numpy as np

    if value.endswith(".npy"):
        try:
            # Mapped first: a header may claim any size, the file is what there is.
            mapped = np.load(value, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, SyntaxError, TypeError, OverflowError) as error:
            raise FormatError(f"no NumPy array: {error}", node=value) from None
        if not isinstance(mapped, np.ndarray):
            raise FormatError("no NumPy array but several", node=value)
        if mapped.dtype.kind not in "biufc":
            raise FormatError(f"elements of {mapped.dtype} are none that a kernel takes", node=value)
        _check_bytes(mapped.nbytes, text)
        return np.array(mapped)
    if match := _SCALAR.fullmatch(value):
        dtype = _dtype(match[1], text)
        return _scalar(match[2], dtype, text)
    match = _ARRAY.fullmatch(value)
    if match is None:
        raise OptionError(f"--argument '{text}' cannot be read", alternatives=("x:f32:64x16:random", "n:u32=5"))
    dtype, shape, fill = _dtype(match[1], text), tuple(map(int, match[2].split("x"))), match[3] or "random"
    if fill not in FILLS:
        raise OptionError(f"--argument '{text}': no fill '{fill}'", alternatives=FILLS)
    _check_bytes(prod(shape) * dtype.itemsize, text)
    if fill == "zeros":
        return np.zeros(shape, dtype)
    if fill == "range":
        return np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def _check_bytes(count: int, text: str) -> None:
    if count > MAX_BYTES:
        raise LimitError(f"--argument '{text}': {count} bytes", node="--argument", limit=MAX_BYTES)


def _scalar(value: str, dtype: np.dtype[Any], text: str) -> np.generic:
    import numpy as np

    try:
        number: float | int = float(value) if dtype.kind == "f" else int(value, 0)
    except ValueError as error:
        raise OptionError(f"--argument '{text}': {error}") from None
    if isinstance(number, int):
        limits = np.iinfo(dtype)
        if not limits.min <= number <= limits.max:
            raise OptionError(f"--argument '{text}': not in {limits.min}..{limits.max}", limit=int(limits.max))
    scalar: np.generic = dtype.type(number)
    return scalar


def _dtype(name: str, text: str) -> np.dtype[Any]:
    import numpy as np

    if name not in DTYPES:
        raise OptionError(f"--argument '{text}': no type '{name}'", alternatives=DTYPES)
    return np.dtype(DTYPES[name])


def _summary(array: Array) -> dict[str, Any]:
    first = [float(x) if array.dtype.kind == "f" else int(x) for x in array.reshape(-1)[:SHOWN]]
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
        "first": first,
    }


def _write(folder: Path, name: str, array: Array) -> None:
    import numpy as np

    if not re.fullmatch(r"[\w.-]+", name):
        raise FormatError(f"'{name}' cannot name a file", node=name)
    make_folder(folder)
    with replacing(folder / f"{name}.npy") as file:
        np.save(file, array, allow_pickle=False)
