"""Names and inputs of an ONNX graph.

Names: each defined once and before it is read. Inputs: static shapes for all of them, and none that nothing reads and
nothing could stand for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod

import onnx

from optimizer.errors import GraphError, LimitError, ShapeError
from optimizer.importers.model import ImportLimits
from optimizer.importers.onnx_checks import node_label, subgraphs
from optimizer.ir.topological import topological_order


def check_names(graph: onnx.GraphProto) -> None:
    """Every value defined once, every input defined, no cycle; nodes are put in topological order."""
    initializers = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    if len(initializers) != len(graph.initializer) + len(graph.sparse_initializer):
        twice = [name for name, n in Counter(t.name for t in graph.initializer).items() if n > 1]
        raise GraphError(f"two initializers have the name '{twice[0]}'", node=twice[0])
    inputs = Counter(i.name for i in graph.input)
    for name, count in inputs.items():
        if count > 1:
            raise GraphError(f"two graph inputs have the name '{name}'", node=name)
    producer: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        for name in node.output:
            if name and (name in producer or name in inputs or name in initializers):
                raise GraphError(f"value '{name}' is defined twice (again by {node_label(node)})", node=name)
            if name:
                producer[name] = index
    known = producer.keys() | inputs.keys() | initializers
    for node in graph.node:
        for name in node.input:
            if name and name not in known:
                raise GraphError(f"{node_label(node)} reads '{name}', which nothing defines", node=node.name or None)
    for output in graph.output:
        if output.name not in known:
            raise GraphError(f"graph output '{output.name}' is not computed by any node", node=output.name)
    _order(graph, producer)


def captured(node: onnx.NodeProto) -> list[str]:
    """Names that a node's subgraphs read from outside."""
    read: list[str] = []
    defined: set[str] = set()
    stack = subgraphs(node)
    while stack:
        graph = stack.pop()
        defined.update(v.name for v in [*graph.input, *graph.initializer])
        for inner in graph.node:
            read.extend(inner.input)
            defined.update(inner.output)
            stack += subgraphs(inner)
        read.extend(o.name for o in graph.output)
    return [name for name in read if name not in defined]


def _order(graph: onnx.GraphProto, producer: Mapping[str, int]) -> None:
    needs = [{producer[n] for n in (*node.input, *captured(node)) if n in producer} for node in graph.node]
    order = topological_order(needs, lambda i: node_label(graph.node[i]))
    if order != list(range(len(order))):
        nodes = [onnx.NodeProto.FromString(graph.node[i].SerializeToString()) for i in order]
        del graph.node[:]
        graph.node.extend(nodes)


def drop_default_inputs(graph: onnx.GraphProto) -> None:
    """Files of IR version 3 list every initializer among the inputs as well; they are weights all the same."""
    initializers = {t.name for t in graph.initializer}
    for index in reversed([i for i, info in enumerate(graph.input) if info.name in initializers]):
        del graph.input[index]


def _dims(info: onnx.ValueInfoProto) -> list[int | str]:
    """Declared dims: an int, or the symbolic name (`?` for a nameless one)."""
    shape = info.type.tensor_type.shape
    return [d.dim_value if d.HasField("dim_value") else (d.dim_param or "?") for d in shape.dim]


def bind_inputs(graph: onnx.GraphProto, shapes: Mapping[str, tuple[int, ...]]) -> tuple[str, ...]:
    """Give every input its static shape; returns the names of those that could not be and that nothing reads."""
    read = {name for node in graph.node for name in [*node.input, *captured(node)]} | {o.name for o in graph.output}
    inputs = list(graph.input)
    names = [i.name for i in inputs]
    unread = set(names) - read
    for name, shape in shapes.items():
        if name not in names:
            raise ShapeError(f"--input-shapes names '{name}', which is no input of the model", alternatives=names)
        if any(d <= 0 for d in shape):
            raise ShapeError(f"--input-shapes {name}: dims must be positive, not {list(shape)}", node=name)
    bound: dict[str, int] = {}
    for info in inputs:
        if not info.type.HasField("tensor_type"):
            if info.name in unread:
                continue
            kind = info.type.WhichOneof("value") or "typeless"
            raise GraphError(f"input '{info.name}' is of {kind}, only tensors can be represented", node=info.name)
        if info.name in shapes:
            given, declared = shapes[info.name], _dims(info)
            if info.type.tensor_type.HasField("shape") and len(given) != len(declared):
                raise ShapeError(
                    f"--input-shapes {info.name} gives rank {len(given)}, "
                    f"the model says {declared} (rank {len(declared)})",
                    node=info.name,
                )
            bound.update({d: n for d, n in zip(declared, given, strict=False) if isinstance(d, str) and d != "?"})
    dynamic: list[onnx.ValueInfoProto] = []
    for info in inputs:
        if not info.type.HasField("tensor_type"):
            continue
        given = shapes.get(info.name, ())
        if info.name not in shapes:
            given = tuple(bound.get(d, -1) if isinstance(d, str) else d for d in _dims(info))
            if -1 in given or not info.type.tensor_type.HasField("shape"):
                dynamic += [info] if info.name not in unread else []
                continue
        shape = info.type.tensor_type.shape
        del shape.dim[:]
        shape.SetInParent()
        for size in given:
            shape.dim.add().dim_value = size
    if dynamic:
        flags = [f"--input-shapes {i.name}:{','.join(map(str, _dims(i))) or '?'}" for i in dynamic]
        raise ShapeError(
            "the model has dynamic input shapes; give a number for every name in: " + " ".join(flags),
            node=dynamic[0].name,
        )
    return _drop_unread(graph, unread)


def _drop_unread(graph: onnx.GraphProto, unread: set[str]) -> tuple[str, ...]:
    """Take out unread inputs that are no numeric tensor of static shape; returns their names."""
    dropped: list[str] = []
    for index in reversed(range(len(graph.input))):
        info = graph.input[index]
        tensor = info.type.tensor_type if info.type.HasField("tensor_type") else None
        numeric = tensor is not None and tensor.elem_type != onnx.TensorProto.STRING
        static = numeric and info.type.tensor_type.HasField("shape") and all(isinstance(d, int) for d in _dims(info))
        if info.name in unread and not static:
            dropped.insert(0, info.name)
            del graph.input[index]
    return tuple(dropped)


def check_sizes(graph: onnx.GraphProto, limits: ImportLimits) -> None:
    declared = [(i.name, [int(d) for d in _dims(i)]) for i in graph.input]
    declared += [(t.name, list(t.dims)) for t in graph.initializer]
    for name, dims in declared:
        check_shape(name, dims, limits)


def check_shape(name: str, dims: list[int] | tuple[int, ...], limits: ImportLimits) -> None:
    """ShapeError on an empty tensor, LimitError on one that is too large or of too high a rank."""
    if any(d < 0 for d in dims):
        raise ShapeError(f"tensor '{name}' of shape {list(dims)} has a negative size", node=name)
    if len(dims) > limits.max_rank:
        raise LimitError(
            f"tensor '{name}' has rank {len(dims)}, the limit is {limits.max_rank}", node=name, limit=limits.max_rank
        )
    if prod(dims) > limits.max_elements:
        raise LimitError(
            f"tensor '{name}' of shape {list(dims)} has {prod(dims)} elements, the limit is {limits.max_elements}",
            node=name,
            limit=limits.max_elements,
        )
