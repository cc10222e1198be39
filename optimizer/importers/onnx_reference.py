"""A model as the reference that a program's values are compared with: whole, self-contained, in f32.

What an ONNX runtime executes here is the file's own graph, not the imported one. Half-width floats become f32, which no
runtime lacks an op for, so that rounding of activations is the program's alone; weights keep the values of the file.
External data are read from the model's folder only, as the importer reads them, before any library sees the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner

from optimizer.errors import FormatError, LimitError
from optimizer.importers.loading import read_model_file
from optimizer.importers.model import Budget, ImportLimits
from optimizer.importers.onnx_checks import drop_default_inputs, has_no_data, keep_only
from optimizer.importers.onnx_dims import unread_inputs
from optimizer.importers.onnx_external import read_data, references
from optimizer.importers.onnx_front_end import inlined, parse
from optimizer.importers.onnx_tensors import messages, settle
from optimizer.importers.onnx_weights import weight_places

MOST_BYTES = (1 << 31) - 1
"""Of a protobuf message."""
_HALVES = frozenset({onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16})
_TYPE_ATTRIBUTES = frozenset(
    {"to", "dtype", "output_dtype", "stash_type", "softmax_precision", "qk_matmul_output_type"}
)
"""Attributes that name an element type (ONNX 1.23's schemas)."""


@dataclass(frozen=True)
class ReferenceModel:
    """A serialized model and what it gives."""

    data: bytes
    outputs: tuple[str, ...]
    """Of the file, in order."""


def reference_model(path: Path, limits: ImportLimits | None = None, taps: Iterable[str] = ()) -> ReferenceModel:
    """The model in a file; `taps` are values that it returns too, if nodes compute them.

    FormatError or GraphError where elements are missing or no runtime could take the model, LimitError where it is too
    large for one message.
    """
    limits = limits or ImportLimits()
    data = read_model_file(path, limits)
    proto = parse(data)
    _take_in(proto, path.parent, Budget(limits, len(data)))
    if proto.functions:
        proto = inlined(proto)
    _widen(proto)
    drop_default_inputs(proto.graph)
    unread = unread_inputs(proto.graph)  # a runtime wants every input, also those that the imported graph left out
    keep_only(proto.graph.input, lambda info: info.name not in unread)
    outputs = tuple(o.name for o in proto.graph.output)
    computed = {name for node in proto.graph.node for name in node.output if name}
    del proto.graph.value_info[:]
    for name in taps:
        if name in computed and name not in outputs:
            proto.graph.output.add().name = name
    if proto.ByteSize() > MOST_BYTES:
        raise LimitError(f"in f32 the model takes {proto.ByteSize()} bytes", node=path.name, limit=MOST_BYTES)
    return ReferenceModel(proto.SerializeToString(), outputs)


def _take_in(proto: onnx.ModelProto, folder: Path, budget: Budget) -> None:
    """Give every tensor its elements; no reference to another file is left."""
    external = references(proto)
    settle(proto, folder, budget)
    for number, tensor in enumerate(weight_places(proto)):
        if not has_no_data(tensor):
            continue
        reason = "they were left out of the file"
        if number in external:
            reason = read_data(tensor, external[number], folder)
        if reason:
            raise FormatError(f"no elements of weight '{tensor.name}': {reason}", node=tensor.name)


def _widen(proto: onnx.ModelProto) -> None:
    for message, _ in messages(proto):
        if isinstance(message, onnx.TensorProto) and message.data_type in _HALVES:
            wide = np.asarray(onnx.numpy_helper.to_array(message)).astype(np.float32)
            message.CopyFrom(onnx.numpy_helper.from_array(wide, message.name))
        elif isinstance(message, onnx.TypeProto.Tensor) and message.elem_type in _HALVES:
            message.elem_type = onnx.TensorProto.FLOAT
        elif isinstance(message, onnx.AttributeProto) and message.name in _TYPE_ATTRIBUTES and message.i in _HALVES:
            message.i = onnx.TensorProto.FLOAT


def fitted(inputs: Mapping[str, Any], wanted: Mapping[str, tuple[str, int]]) -> dict[str, np.ndarray[Any, Any]]:
    """Inputs of a program as a model takes them: by its element types (numpy's names) and ranks."""
    return {
        name: np.asarray(inputs[name]).astype(dtype).reshape(() if rank == 0 else np.shape(inputs[name]))
        for name, (dtype, rank) in wanted.items()
    }
