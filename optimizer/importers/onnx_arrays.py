"""The elements of a model's weights, by the names that the imported graph gives them.

The importer reads no weight; this module reads them for a graph that it has imported. Names are those of
`onnx_front_end.name_weights`, which both go through: functions inlined, weights of branches brought out of them,
tensors of Constants called like the Constant's result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from optimizer.errors import FormatError, GraphError
from optimizer.importers.loading import read_model_file
from optimizer.importers.model import Budget, ImportOptions
from optimizer.importers.onnx_checks import has_no_data
from optimizer.importers.onnx_external import Reference, read_data, references
from optimizer.importers.onnx_front_end import name_weights, parse
from optimizer.importers.onnx_node import BF16_MAX, I32_MAX, I32_MIN
from optimizer.importers.onnx_weights import named_tensors, weight_number
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Value

Array = np.ndarray[Any, Any]
_BOUNDS = {DType.I32: (I32_MIN, I32_MAX), DType.U32: (0, 2**32 - 1), DType.U16: (0, 2**16 - 1), DType.U8: (0, 255)}


class ModelWeights(Mapping[str, Array]):
    """Weights of an ONNX file by name; each is decoded, or read from the file beside the model, when it is asked for.

    Arrays have the element type and shape of the file (bfloat16 and the like: those of `ml_dtypes`).
    """

    def __init__(self, source: Path | bytes, options: ImportOptions) -> None:
        self._folder = None if isinstance(source, bytes) else source.parent
        data = source if isinstance(source, bytes) else read_model_file(source, options.limits)
        proto = parse(data)
        external = references(proto)
        held: dict[int, onnx.TensorProto] = {}

        def keep(number: int, tensor: onnx.TensorProto) -> None:
            held[number] = onnx.TensorProto()
            held[number].CopyFrom(tensor)

        named = name_weights(proto, replace(options, folder=self._folder), Budget(options.limits, len(data)), keep)
        graph = named.proto.graph
        self._tensors = named_tensors(graph)
        self._references: dict[str, Reference] = {}
        for name, tensor in self._tensors.items():
            number = weight_number(tensor)
            if number is not None and number in held:
                self._tensors[name] = held[number]
            elif number is not None and number in external:
                self._references[name] = external[number]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __getitem__(self, name: str) -> Array:
        """KeyError for a name that is no weight; FormatError where the model lacks its elements."""
        tensor = self._tensors[name]
        reference = self._references.get(name)
        if reference is not None:
            if self._folder is None:
                raise FormatError(
                    f"weight '{name}' lies in '{reference.location}', beside a file of the model", node=name
                )
            tensor = onnx.TensorProto(name=name, data_type=tensor.data_type, dims=tensor.dims)
            reason = read_data(tensor, reference, self._folder)
            if reason:
                raise FormatError(f"weight '{name}' at '{reference.location}' beside the model: {reason}", node=name)
        elif has_no_data(tensor):
            raise FormatError(f"weight '{name}' has no elements: they were left out of the model's file", node=name)
        if tensor.data_type == onnx.TensorProto.STRING:
            raise FormatError(f"weight '{name}' holds strings", node=name)
        return np.asarray(onnx.numpy_helper.to_array(tensor))


class GraphWeights(Mapping[str, Array]):
    """What a graph's weights are in its model: those values that nothing computes and that hold no elements.

    Shapes are the graph's (a rank-0 tensor has one element), infinite elements finite as in constants of the graph.
    """

    def __init__(self, model: Mapping[str, Array], values: Mapping[str, Value]) -> None:
        self._model = model
        self._values = values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __getitem__(self, name: str) -> Array:
        value = self._values[name]
        array = self._model[name]
        if (array.shape or (1,)) != value.shape:
            raise GraphError(f"weight has the shape {list(array.shape)}, the graph says {list(value.shape)}", node=name)
        return bounded(array, value.dtype).reshape(value.shape)


def weights_of(source: Path | bytes, graph: Graph, options: ImportOptions | None = None) -> Mapping[str, Array]:
    """The weights of a graph, imported from this model with these options and laid out or not, by value.

    Constants whose elements are part of the graph are not among them. GraphError when the model lacks one.
    """
    values = open_weights(graph)
    model = ModelWeights(source, options or ImportOptions())
    missing = [name for name in values if name not in model]
    if missing:
        shown = ", ".join(f"'{name}'" for name in missing[:5]) + (", ..." if len(missing) > 5 else "")
        file = "the model" if isinstance(source, bytes) else source.name
        raise GraphError(f"{file} lacks {len(missing)} of {len(values)} weights of the result: {shown}")
    return GraphWeights(model, values)


def open_weights(graph: Graph) -> dict[str, Value]:
    """Values of a graph that it takes from its model: nothing computes them, nobody feeds them, no elements here."""
    fed = set(graph.inputs)
    return {
        v.id: v for v in graph.values.values() if v.data is None and v.id not in fed and graph.producer(v.id) is None
    }


def bounded(array: Array, dtype: DType) -> Array:
    """Elements as the importer takes them into constants: infinite ones become the largest bf16, NaN zero.

    Integers stay within those of their element type on the device.
    """
    if array.dtype.kind in "iu" and dtype in _BOUNDS:
        held, (low, high) = np.iinfo(array.dtype), _BOUNDS[dtype]
        narrow: Array = np.clip(array, max(low, held.min), min(high, held.max))
        return narrow
    if array.dtype.kind not in "fV" or bool(np.isfinite(array).all()):
        return array
    wide = np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=BF16_MAX, neginf=-BF16_MAX)
    bounded_elements: Array = np.clip(wide, -BF16_MAX, BF16_MAX).astype(array.dtype)
    return bounded_elements
