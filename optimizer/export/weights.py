"""`weights.safetensors`: the weights of a model as its program takes them, by the names in PARAMETERS.

A safetensors file is a length, a JSON header of that length and the elements (github.com/huggingface/safetensors).
It is written tensor by tensor, so that no more than one is in memory.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np

from optimizer.errors import DTypeError
from optimizer.export.model_file import import_options, model_file
from optimizer.export.ttnn_py.run_model import TYPES, Array, to_bfloat16
from optimizer.importers.onnx_arrays import open_weights, weights_of
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Value
from optimizer.process.files import make_folder, replacing
from optimizer.result import OptimizedGraph

FILE_NAME = "weights.safetensors"
_ALIGNMENT = 8
_KINDS = {DType.BF16: "BF16", DType.F32: "F32", DType.I32: "I32", DType.U32: "U32", DType.U16: "U16", DType.U8: "U8"}
"""Block formats, which only the device makes, are held as F32."""


def write(result: OptimizedGraph, folder: Path) -> Path:
    """Write the weights of the model that a result was made of. OptionError when its file is not known."""
    source, _ = model_file(result, "weights")
    arrays = weights_of(source, result.graph, import_options(result))
    make_folder(folder)
    path = folder / FILE_NAME
    write_safetensors(path, open_weights(result.graph), arrays)
    return path


def write_safetensors(path: Path, values: Mapping[str, Value], arrays: Mapping[str, Array]) -> None:
    """A safetensors file of these values, each of its own type and shape. DTypeError for elements it cannot hold."""
    header: dict[str, object] = {}
    at = 0
    for name, value in values.items():
        kind = _KINDS.get(value.dtype, "F32")
        size = prod(value.shape) * np.dtype(TYPES[kind]).itemsize
        header[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % _ALIGNMENT)
    with replacing(path) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, value in values.items():
            file.write(_elements(name, value, arrays[name]).tobytes())


def _elements(name: str, value: Value, array: Array) -> Array:
    kind = _KINDS.get(value.dtype, "F32")
    if kind == "BF16":
        return to_bfloat16(array).astype("<u2")
    if kind == "F32":
        return array.astype("<f4")
    converted = array.astype(TYPES[kind])
    if bool((converted != array).any()):
        raise DTypeError(f"weight '{name}' has elements that {value.dtype.value} does not hold", node=name)
    return converted
