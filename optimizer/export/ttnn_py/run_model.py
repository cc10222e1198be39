"""Run model_ttnn.py, the program beside this file, with weights and inputs. Needs ttnn and numpy, nothing of ttopt.

    python run_model.py weights.safetensors --inputs x.npz --output y.npz
    python run_model.py weights.safetensors --trace --queues 2 --iterations 100 --check

The second way runs it at full speed: captured as a trace, inputs written while a run computes (full_speed.py).

`ttopt optimize MODEL.onnx --emit weights` writes weights.safetensors; an .npz file with the names of PARAMETERS does as
well. Inputs that are not given are drawn at random from a seed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import struct
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

Array = np.ndarray[Any, Any]

TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
"""Element type in a safetensors file -> its bytes."""
LARGEST_HEADER = 100_000_000
"""Bytes of a safetensors header that its reference implementation accepts."""


# -- files of arrays -----------------------------------------------------------------------------------------
def read_arrays(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Arrays of a .safetensors or .npz file by name; bfloat16 becomes f32. ValueError when it is neither."""
    if str(path).endswith(".safetensors"):
        return read_safetensors(path)
    try:
        with np.load(path, allow_pickle=False) as found:
            if isinstance(found, np.ndarray):
                raise ValueError("a single array, not several by name")
            return {name: widened(found[name]) for name in found.files}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is no .npz file of plain arrays: {error}") from error


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Arrays of a safetensors file: a length, a JSON header of that length, the elements."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            prefix = file.read(8)
            length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else size
            if length > min(size - 8, LARGEST_HEADER):
                raise ValueError(f"a header of {length} bytes")
            header = json.loads(file.read(length))
            if not isinstance(header, dict):
                raise ValueError("the header is no JSON object")
            header.pop("__metadata__", None)
            return {name: _read(file, 8 + length, size, name, entry) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is no safetensors file: {error}") from error


def _read(file: IO[bytes], start: int, size: int, name: str, entry: Any) -> Array:
    kind, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
    if kind not in TYPES:
        raise ValueError(f"{name} has element type {kind}; known are {', '.join(TYPES)}")
    dtype = np.dtype(TYPES[kind])
    if not all(type(n) is int and n >= 0 for n in (*shape, begin, end)):
        raise ValueError(f"{name} has sizes that are no whole numbers")
    if end - begin != math.prod(shape) * dtype.itemsize or start + end > size:
        raise ValueError(f"{name} has {end - begin} bytes from {begin} on, which do not fit its shape or the file")
    file.seek(start + begin)
    array = np.frombuffer(file.read(end - begin), dtype).reshape(shape)
    return from_bfloat16(array) if kind == "BF16" else array


def widened(array: Array) -> Array:
    """An array as it is, but bfloat16, which .npz files hold as two bytes without a type, as f32."""
    if array.dtype.kind != "V":
        return array
    if array.dtype.itemsize != 2 or array.dtype.names is not None:
        raise ValueError(f"an array of elements {array.dtype}")
    return from_bfloat16(array.view("<u2"))


def from_bfloat16(bits: Array) -> Array:
    """f32 values of bfloat16 bits."""
    wide: Array = (bits.astype(np.uint32) << 16).view(np.float32)
    return wide


def to_bfloat16(array: Array) -> Array:
    """Bits of the nearest bfloat16 values, ties to even. NaN stays NaN."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = (bits + (((bits >> 16) & 1) + 0x7FFF)) >> 16
    chosen: Array = np.where(np.isnan(array), 0x7FC0, rounded).astype(np.uint16)
    return chosen


def write_arrays(file: Any, arrays: Mapping[str, Array]) -> None:
    """An .npz file of these arrays, whatever their names; the same arrays give the same bytes."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as part:
                np.lib.format.write_array(part, np.asarray(array, order="C"), allow_pickle=False)  # type: ignore[no-untyped-call]


# -- inputs ----------------------------------------------------------------------------------------------------
def random_array(shape: Sequence[int], whole: bool, below: int | None, seed: int, position: int) -> Array:
    """The input at a position: normal values that bfloat16 holds, or whole numbers from 0 to `below` (else 0 and 1)."""
    random = np.random.default_rng([seed, position])
    if whole:
        return np.asarray(random.integers(0, below or 2, tuple(shape)))
    return from_bfloat16(to_bfloat16(random.standard_normal(tuple(shape), np.float32)))


# -- the program -----------------------------------------------------------------------------------------------
def main() -> None:
    """Open device 0, run the program with the weights and inputs, write or show its outputs."""
    args = _arguments()
    import model_ttnn
    import ttnn

    run = _at_full_speed if _fast(args) else _one_by_one
    try:
        found, told = run(args, model_ttnn, ttnn)
    except (ValueError, OSError) as error:
        sys.exit(f"run_model.py: {error}")
    if args.output:
        part = Path(f"{args.output}.part")
        write_arrays(part, found)
        part.replace(args.output)
    for name, array in found.items():
        print(name, array.shape, array.dtype)
    print("\n".join(told), end="\n" if told else "")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", help="weights.safetensors or an .npz file: arrays by the names in PARAMETERS")
    parser.add_argument("--inputs", help=".npz file: arrays by the names in INPUTS (default: random)")
    parser.add_argument("--seed", type=int, default=0, help="of random inputs")
    parser.add_argument("--output", help=".npz file to write the outputs to")
    parser.add_argument("--iterations", type=int, default=0, help="runs to time after the first one")
    parser.add_argument("--trace", action="store_true", help="capture a run once and replay it")
    parser.add_argument("--queues", type=int, choices=(1, 2), default=1, help="2: one of them for inputs")
    parser.add_argument("--check", action="store_true", help="with --trace or --queues 2: against runs without either")
    parser.add_argument("--trace-region-size", type=int, metavar="BYTES", help="default: TRACE_REGION_SIZE")
    args = parser.parse_args()
    if args.check and not _fast(args):
        parser.error("--check compares runs with --trace or --queues 2 with plain ones: give one of them")
    if args.trace_region_size is not None and not args.trace:
        parser.error("--trace-region-size is for --trace")
    return args


def _fast(args: argparse.Namespace) -> bool:
    return bool(args.trace or args.queues == 2)


def _read_files(args: argparse.Namespace, program: Any, ttnn: Any) -> tuple[dict[str, Array], dict[str, Array]]:
    wanted = {entry["name"] for entry in program.PARAMETERS}
    weights = {name: array for name, array in read_arrays(args.weights).items() if name in wanted}
    return weights, read_arrays(args.inputs) if args.inputs else drawn_inputs(program, ttnn, args.seed)


def drawn_inputs(program: Any, ttnn: Any, seed: int) -> dict[str, Array]:
    """Random inputs of a program, by name."""
    whole = (ttnn.int32, ttnn.uint32, ttnn.uint16, ttnn.uint8)
    return {
        entry["name"]: random_array(entry["shape"], entry["dtype"] in whole, entry.get("below"), seed, position)
        for position, entry in enumerate(program.INPUTS)
    }


def _one_by_one(args: argparse.Namespace, program: Any, ttnn: Any) -> tuple[dict[str, Array], list[str]]:
    """Outputs by name, and what further runs took."""
    weights, inputs = _read_files(args, program, ttnn)
    device = ttnn.open_device(device_id=0, l1_small_size=program.L1_SMALL_SIZE)
    try:
        found, seconds = _execute(program, ttnn, device, weights, inputs, args.iterations)
    finally:
        ttnn.close_device(device)
    if not seconds:
        return found, []
    best, middle = min(seconds) * 1e3, sorted(seconds)[len(seconds) // 2] * 1e3
    return found, [f"{best:.3f} ms at best, {middle:.3f} ms in the middle"]


def _execute(
    program: Any, ttnn: Any, device: Any, weights: Mapping[str, Array], inputs: Mapping[str, Array], iterations: int
) -> tuple[dict[str, Array], list[float]]:
    """Outputs by name, and the seconds of each further run."""
    parameters = program.make_parameters(device, weights)
    given = program.make_inputs(device, inputs)
    outputs = program.run(device, given, parameters)
    found = {name: host_array(ttnn, tensor) for name, tensor in zip(program.OUTPUTS, outputs, strict=True)}
    seconds = []
    for _ in range(iterations):
        outputs = None  # its tensors go, so that every run finds the same room
        ttnn.synchronize_device(device)
        start = time.perf_counter()
        outputs = program.run(device, given, parameters)
        ttnn.synchronize_device(device)
        seconds.append(time.perf_counter() - start)
    return found, seconds


def _at_full_speed(args: argparse.Namespace, program: Any, ttnn: Any) -> tuple[dict[str, Array], list[str]]:
    """Outputs by name, of a replay where there is a trace, and what was measured and checked."""
    import full_speed

    settings = full_speed.Settings(args.trace, args.queues, full_speed.is_mock())
    full_speed.refuse_host_ops(program)
    weights, inputs = _read_files(args, program, ttnn)
    opening = {"num_command_queues": args.queues}
    if args.trace:
        size = args.trace_region_size
        opening["trace_region_size"] = program.TRACE_REGION_SIZE if size is None else size
    device = ttnn.open_device(device_id=0, l1_small_size=program.L1_SMALL_SIZE, **opening)
    try:
        device.enable_program_cache()
        parameters = program.make_parameters(device, weights)
        runner = full_speed.Runner(ttnn, device, program, parameters, settings)
        given = [inputs, drawn_inputs(program, ttnn, args.seed + 1)] if args.check else [inputs]
        made = full_speed.executed(runner, given, lambda tensor: host_array(ttnn, tensor), args.iterations, args.check)
        found = dict(zip(program.OUTPUTS, made.outputs, strict=True))
        return found, full_speed.told(made, settings, program.PREDICTED_NS)
    finally:
        ttnn.close_device(device)


def host_array(ttnn: Any, tensor: Any) -> Array:
    """A tensor's elements: integers as they are, all else in f32."""
    if tensor.storage_type() == ttnn.StorageType.DEVICE:
        tensor = ttnn.from_device(tensor)
    if tensor.layout != ttnn.ROW_MAJOR_LAYOUT:
        tensor = ttnn.to_layout(tensor, ttnn.ROW_MAJOR_LAYOUT)
    if tensor.dtype in (ttnn.bfloat16, ttnn.bfloat8_b, ttnn.bfloat4_b):
        tensor = ttnn.to_dtype(tensor, ttnn.float32)
    return np.asarray(tensor.to_numpy())


if __name__ == "__main__":
    main()
