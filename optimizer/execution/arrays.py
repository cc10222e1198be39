"""Arrays that users give, checked against what a program takes before anything is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

import numpy as np

from optimizer.errors import DTypeError, FormatError, ShapeError, UnknownNameError
from optimizer.export.ttnn_py import TensorEntry
from optimizer.export.ttnn_py.run_model import Array, random_array, read_arrays
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Value
from optimizer.values.given import require

_INTEGERS = {DType.I32: np.int32, DType.U32: np.uint32, DType.U16: np.uint16, DType.U8: np.uint8}


def read_file(path: Path) -> dict[str, Array]:
    """Arrays of a .safetensors or .npz file by name; FormatError when it is neither or cannot be read."""
    try:
        return read_arrays(path)
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise FormatError(str(error)) from error


def inputs_of(entries: Sequence[TensorEntry], given: Mapping[str, Array] | None, seed: int) -> dict[str, Array]:
    """An array for every input: the given ones, which must be all of them, or random ones."""
    if given is None:
        return {
            e.name: random_array(e.spec.shape, not e.spec.dtype.is_float, e.below, seed, position)
            for position, e in enumerate(entries)
        }
    names = [entry.name for entry in entries]
    for name in given:
        if name not in names:
            raise UnknownNameError("input", name, names)
    require(names, given, "inputs")
    return {entry.name: given[entry.name] for entry in entries}


def as_fed(entry: TensorEntry, array: Array, what: str) -> Array:
    """An array as the program is fed with it: f32, or the integers of the entry. ShapeError or DTypeError names it."""
    shape, dtype = entry.spec.shape, entry.spec.dtype
    if array.shape != shape and (array.shape, shape) != ((), (1,)):
        raise ShapeError(f"{what} '{entry.name}' has the shape {list(array.shape)}, not {list(shape)}", node=entry.name)
    if array.dtype.kind not in "fiubV" and array.dtype.name != "bfloat16":
        raise DTypeError(f"{what} '{entry.name}' has elements {array.dtype.name}, no numbers", node=entry.name)
    if dtype.is_float:
        return np.ascontiguousarray(array.reshape(shape).astype(np.float32))
    wanted = np.dtype(_INTEGERS[dtype])
    with np.errstate(invalid="ignore"):
        converted = array.astype(wanted)
    if bool((converted != array).any()):
        raise DTypeError(f"{what} '{entry.name}' has elements that {wanted.name} does not hold", node=entry.name)
    if entry.below is not None and converted.size and int(converted.max()) >= entry.below:
        raise DTypeError(
            f"{what} '{entry.name}' has the index {int(converted.max())}, its table has {entry.below} rows",
            node=entry.name,
            limit=entry.below,
        )
    return np.ascontiguousarray(converted.reshape(shape))


def as_the_model_has_it(value: Value, array: Array) -> Array:
    """What an input is fed, with its dims in the model's order, which another order of the program's may stand for."""
    held = value.stands_for
    if held is None or array.size != prod(held.shape):
        return array
    fed = array.reshape([held.shape[d] for d in held.dims])
    return np.ascontiguousarray(fed.transpose(np.argsort(held.dims)))
