"""Which tensors of an ONNX file are weights: those that are large, external or without data; nobody reads them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx

from optimizer.importers.onnx_checks import DATA_FIELDS, has_no_data

FOLD_LIMIT = 8192
"""Elements; larger constants are treated as weights and never folded."""
MASK_LIMIT = 1 << 22
"""Elements up to which a large inline square constant is looked at to see whether it is a causal mask."""


def strip_weights(graph: onnx.GraphProto) -> list[str]:
    """Drop the elements of large inline tensors, which nobody reads; returns which were causal masks."""
    causal: list[str] = []
    tensors = [(t.name, t) for t in graph.initializer]
    tensors += [(n.output[0], t) for n in graph.node if (t := _constant(n)) is not None]
    for name, tensor in tensors:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            continue
        if has_no_data(tensor):
            tensor.data_location = onnx.TensorProto.EXTERNAL
        if prod(tensor.dims) <= FOLD_LIMIT or has_no_data(tensor):
            continue
        if _is_causal(tensor):
            causal.append(name)
        for field in DATA_FIELDS:
            tensor.ClearField(field)
        tensor.data_location = onnx.TensorProto.EXTERNAL
    return causal


def promote_weights(graph: onnx.GraphProto) -> list[str]:
    """Missing, external or large tensors (Constant nodes too) become graph inputs; returns their names."""
    names: list[str] = []
    known = {i.name for i in graph.input}

    def promote(name: str, tensor: onnx.TensorProto) -> None:
        names.append(name)
        if name not in known:
            info = onnx.helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims))
            graph.input.append(info)

    kept = []
    for tensor in graph.initializer:
        if _is_weight(tensor):
            promote(tensor.name, tensor)
        else:
            kept.append(onnx.TensorProto.FromString(tensor.SerializeToString()))
    if len(kept) != len(graph.initializer):
        del graph.initializer[:]
        graph.initializer.extend(kept)
    large = [i for i, n in enumerate(graph.node) if _constant(n) is not None]
    if large:
        for index in large:
            tensor = _constant(graph.node[index])
            assert tensor is not None
            promote(graph.node[index].output[0], tensor)
        for index in reversed(large):
            del graph.node[index]
    return names


def _is_weight(tensor: onnx.TensorProto) -> bool:
    return tensor.data_location == onnx.TensorProto.EXTERNAL or prod(tensor.dims) > FOLD_LIMIT


def _constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """The tensor of a Constant node, when it is a weight."""
    if node.op_type != "Constant" or not node.attribute or not node.attribute[0].HasField("t"):
        return None
    tensor: onnx.TensorProto = node.attribute[0].t
    return tensor if _is_weight(tensor) else None


def _is_causal(tensor: onnx.TensorProto) -> bool:
    dims = list(tensor.dims)
    if len(dims) < 2 or dims[-1] != dims[-2]:
        return False
    if prod(dims[:-2]) != 1 or prod(dims) > MASK_LIMIT:
        return False
    return is_causal_mask(onnx.numpy_helper.to_array(tensor))


def is_causal_mask(array: Any) -> bool:
    """Whether a [..., S, S] array (leading dims 1) lets row i see exactly columns 0..i.

    Boolean: True where visible. Float: 0 where visible, at most -1e4 elsewhere.
    """
    mask = np.asarray(array).reshape(array.shape[-2:])
    if mask.dtype != np.bool_:
        mask = mask.astype(np.float32)
        if not bool(np.all((mask == 0) | (mask <= -1e4))):
            return False
        mask = mask == 0
    return bool(np.array_equal(mask, np.tri(mask.shape[0], dtype=bool)))
