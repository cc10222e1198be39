"""Which tensors of an ONNX file are weights: those that are large or without data; nobody reads them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from math import prod
from typing import Any

import numpy as np
import onnx

from optimizer.importers.onnx_checks import DATA_FIELDS, has_no_data, keep_only, subgraphs, walk

FOLD_LIMIT = 8192
"""Elements; larger constants are treated as weights and never folded."""
MASK_LIMIT = 1 << 22
"""Elements up to which a large inline square constant is looked at to see whether it is a causal mask."""

CAUSAL = "causal mask"
"""The mark of a tensor without data that was a causal mask."""
_MARK = re.compile(rf"weight ([0-9]+)(?:, ({CAUSAL}))?")
"""`doc_string` of a weight: which of the file's tensors it is, and whether it was a causal mask."""
Keep = Callable[[int, onnx.TensorProto], None]
"""Takes the number of a tensor and the tensor, which loses its elements afterwards."""


def weight_places(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor that stands where a weight may: initializers and what Constants give, in a fixed order.

    Of the graph, its branches and its functions. The place in this order is the number of a tensor.
    """
    for graph in [proto.graph, *(g for node in walk(proto.graph.node) for g in subgraphs(node))]:
        yield from graph.initializer
    for node in [*walk(proto.graph.node), *(n for function in proto.functions for n in walk(function.node))]:
        given = _value(node)
        if given is not None:
            yield given


def keep_nothing(number: int, tensor: onnx.TensorProto) -> None:
    """As `Keep`: the elements are of no use to anybody."""


def strip_weights(proto: onnx.ModelProto, keep: Keep = keep_nothing) -> None:
    """Drop the elements of large tensors, which the import does not read, after handing them to `keep`.

    A tensor without elements is a weight from then on. Its `doc_string` names its number, which so goes with it into
    branches and through inlining, and says whether it was a causal mask; a tensor's own text is of no use.
    """
    for number, tensor in enumerate(weight_places(proto)):
        tensor.ClearField("doc_string")
        if not _is_weight(tensor):
            continue
        causal = False
        if not has_no_data(tensor):
            causal = _is_causal(tensor)
            keep(number, tensor)
            for field in DATA_FIELDS:
                tensor.ClearField(field)
        tensor.doc_string = f"weight {number}, {CAUSAL}" if causal else f"weight {number}"


def named_tensors(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    """Name -> tensor of what a graph's weights are: initializers of any size, and Constants that are weights."""
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        tensor = _constant(node)
        if tensor is not None:
            found[node.output[0]] = tensor
    return found


def weight_number(tensor: onnx.TensorProto) -> int | None:
    """The number of a stripped weight among the file's tensors; None for one that kept its elements."""
    mark = _MARK.fullmatch(tensor.doc_string)
    return None if mark is None else int(mark[1])


def hoist_weights(graph: onnx.GraphProto) -> None:
    """Weights of branches become initializers of the graph around them; a name that is in use gets a number."""
    inner = [g for node in walk(graph.node) for g in subgraphs(node)]
    if not inner:
        return
    taken = Counter(v.name for g in [graph, *inner] for v in [*g.initializer, *g.input])
    taken.update(name for node in walk(graph.node) for name in node.output)
    for branch in inner:
        for tensor in _take_weights(branch):
            old = tensor.name
            if taken[old] > 1:  # branches side by side may use a name twice
                tensor.name = next(n for k in count(1) if (n := f"{old}.{k}") not in taken)
                taken[tensor.name] += 1
                _rename(branch, old, tensor.name)
            graph.initializer.append(tensor)


def _take_weights(graph: onnx.GraphProto) -> list[onnx.TensorProto]:
    """Remove the weights of one branch, initializers and Constants, and return copies of them."""
    found: list[onnx.TensorProto] = keep_only(graph.initializer, lambda tensor: not _is_weight(tensor))
    for node in reversed(keep_only(graph.node, lambda node: _constant(node) is None)):
        node.attribute[0].t.name = node.output[0]
        found.append(node.attribute[0].t)
    return found


def _rename(graph: onnx.GraphProto, old: str, new: str) -> None:
    """Every reading of a value in a branch, and in what is inside of it, goes to another name."""
    for node in walk(graph.node):
        for position, name in enumerate(node.input):
            if name == old:
                node.input[position] = new
    for inner in [graph, *(g for node in walk(graph.node) for g in subgraphs(node))]:
        for output in inner.output:
            if output.name == old:
                output.name = new


def promote_weights(graph: onnx.GraphProto) -> tuple[list[str], list[str]]:
    """Tensors without data and large ones (Constant nodes too) become graph inputs.

    Returns their names, and the names of those that are causal masks.
    """
    causal: list[str] = []
    known = {i.name for i in graph.input}
    weights = {tensor.name: tensor for tensor in keep_only(graph.initializer, lambda tensor: not _is_weight(tensor))}
    constants = keep_only(graph.node, lambda node: _constant(node) is None)
    weights |= {node.output[0]: node.attribute[0].t for node in constants}
    for name, tensor in weights.items():
        mark = _MARK.fullmatch(tensor.doc_string)
        if mark is not None and mark[2]:
            causal.append(name)
        if name not in known:
            graph.input.append(onnx.helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims)))
    return list(weights), causal


def _is_weight(tensor: onnx.TensorProto) -> bool:
    return has_no_data(tensor) or prod(tensor.dims) > FOLD_LIMIT


def _value(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """The tensor that a Constant node gives."""
    if node.op_type != "Constant" or not node.output or not node.attribute or not node.attribute[0].HasField("t"):
        return None
    tensor: onnx.TensorProto = node.attribute[0].t
    return tensor


def _constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """The tensor of a Constant node, when it is a weight."""
    tensor = _value(node)
    return tensor if tensor is not None and _is_weight(tensor) else None


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
