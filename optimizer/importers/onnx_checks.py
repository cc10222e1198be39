"""Checks of an ONNX protobuf that need neither schemas nor inference: function calls, tensor data, names, sizes.

The libraries used later trust their input: a data field of the wrong length is read as it is, and functions that call
one another are expanded without any bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import prod
from typing import Any

import onnx
from google.protobuf.message import Message  # type: ignore[import-untyped]

from optimizer.errors import FormatError, GraphError, LimitError
from optimizer.importers.model import ImportLimits
from optimizer.ir.sizes import check_shape
from optimizer.ir.topological import topological_order

MAX_CALL_DEPTH = 256
"""Local functions that call one another; inlining recurses once per level."""
DATA_FIELDS = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
_BITS = {
    name: bits
    for bits, names in {
        4: ("UINT4", "INT4", "FLOAT4E2M1"),
        8: ("UINT8", "INT8", "BOOL", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0"),
        16: ("UINT16", "INT16", "FLOAT16", "BFLOAT16"),
        32: ("FLOAT", "INT32", "UINT32"),
        64: ("INT64", "UINT64", "DOUBLE", "COMPLEX64"),
        128: ("COMPLEX128",),
    }.items()
    for name in names
}
"""Element type -> bits of one element in `raw_data` (onnx.proto3, TensorProto)."""
Key = tuple[str, str, str]


def node_label(node: onnx.NodeProto) -> str:
    """How messages call a node."""
    return f"{node.op_type} '{node.name}'" if node.name else f"{node.op_type} -> '{next(iter(node.output), '?')}'"


def plain_domain(name: str) -> str:
    """A domain by the one name that it has here."""
    return "" if name == "ai.onnx" else name


def opset_versions(proto: onnx.ModelProto) -> dict[str, int]:
    """Domain -> stated opset."""
    return {plain_domain(o.domain): o.version for o in proto.opset_import}


def op_key(node: Any) -> str:
    """`[domain.]OpType` of a node of the protobuf or of the library."""
    domain = plain_domain(node.domain)
    return f"{domain}.{node.op_type}" if domain else str(node.op_type)


def copied[M: Message](message: M) -> M:
    """The same again, which no longer belongs to what is around the first."""
    again: M = type(message).FromString(message.SerializeToString())
    return again


def keep_only(messages: Any, kept: Callable[[Any], bool]) -> list[Any]:
    """Drop from a repeated field those that are not kept; copies of what is dropped."""
    dropped = [index for index, message in enumerate(messages) if not kept(message)]
    copies = [copied(messages[index]) for index in dropped]
    for index in reversed(dropped):
        del messages[index]
    return copies


def walk(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes and those of their subgraphs."""
    stack = [iter(nodes)]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
            continue
        yield node
        stack += [iter(graph.node) for graph in subgraphs(node)]


def subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs that a node's attributes hold."""
    return [g for a in node.attribute for g in ([a.g] if a.HasField("g") else [*a.graphs])]


# -- local functions -------------------------------------------------------------------------------
def check_functions(proto: onnx.ModelProto, limits: ImportLimits) -> None:
    """LimitError when inlining would exceed the node limit, GraphError on recursion."""
    bodies: dict[Key, list[onnx.NodeProto]] = {
        (plain_domain(f.domain), f.name, f.overload): list(walk(f.node)) for f in proto.functions
    }
    calls = {key: [_key(n) for n in body if _key(n) in bodies] for key, body in bodies.items()}
    size: dict[Key, int] = {}
    held: dict[Key, int] = {}
    depth: dict[Key, int] = {}
    for key in _callees_first(calls):
        size[key] = len(bodies[key]) - len(calls[key]) + sum(size[c] for c in calls[key])
        # subgraphs count again in the node around them, which errs on the safe side
        held[key] = sum(n.ByteSize() for n in bodies[key]) + sum(held[c] for c in calls[key])
        depth[key] = 1 + max((depth[c] for c in calls[key]), default=0)
        if depth[key] > MAX_CALL_DEPTH:
            raise LimitError(
                f"function '{key[1]}' is a chain of more than {MAX_CALL_DEPTH} calls", limit=MAX_CALL_DEPTH
            )
    total = sum(size.get(_key(n), 1) for n in walk(proto.graph.node))
    if total > limits.max_nodes:
        raise LimitError(
            f"{total} nodes with all functions inlined exceed the limit of {limits.max_nodes}", limit=limits.max_nodes
        )
    size_bytes = sum(held.get(_key(n), 0) for n in walk(proto.graph.node))
    if size_bytes > limits.max_inlined_bytes:
        raise LimitError(
            f"{size_bytes} bytes with all functions inlined exceed the limit of {limits.max_inlined_bytes}",
            limit=limits.max_inlined_bytes,
        )


def _key(node: onnx.NodeProto) -> Key:
    return (plain_domain(node.domain), node.op_type, node.overload)


def _callees_first(calls: dict[Key, list[Key]]) -> list[Key]:
    done: dict[Key, None] = {}
    active: set[Key] = set()
    for root in calls:
        stack = [(root, iter(calls[root]))] if root not in done else []
        active.update(key for key, _ in stack)
        while stack:
            key, rest = stack[-1]
            callee = next((c for c in rest if c not in done), None)
            if callee is None:
                stack.pop()
                active.discard(key)
                done[key] = None
            elif callee in active:
                raise GraphError(f"function '{callee[1]}' calls itself", node=callee[1])
            else:
                active.add(callee)
                stack.append((callee, iter(calls[callee])))
    return list(done)


# -- tensors ---------------------------------------------------------------------------------------
def check_data(tensor: onnx.TensorProto, name: str) -> None:
    """FormatError when a tensor's data in the file do not have the length that its dims give."""
    if any(d < 0 for d in tensor.dims):
        return
    count, kind = prod(tensor.dims), _kind(tensor)
    wanted = data_bytes(tensor)
    if tensor.HasField("raw_data") and wanted is not None:
        if len(tensor.raw_data) != wanted:
            raise FormatError(
                f"tensor '{name}' of shape {list(tensor.dims)} has {len(tensor.raw_data)} bytes of data, not {wanted}",
                node=name,
            )
        return
    if not kind or kind == "UNDEFINED" or tensor.HasField("raw_data"):  # strings are in no other field than their own
        shown = kind.lower() or f"number {tensor.data_type}"
        raise FormatError(f"tensor '{name}' of element type {shown} has data that are none of it", node=name)
    numbers = count * (2 if kind.startswith("COMPLEX") else 1)
    for field in DATA_FIELDS[1:]:
        found = len(getattr(tensor, field))
        if found and found != numbers and _BITS.get(kind, 8) >= 8:
            raise FormatError(
                f"tensor '{name}' of shape {list(tensor.dims)} has {found} elements of data, not {numbers}", node=name
            )


def data_bytes(tensor: onnx.TensorProto) -> int | None:
    """Bytes of a tensor's elements as `raw_data`; None for strings and unknown element types."""
    bits = _BITS.get(_kind(tensor))
    return None if bits is None else -(-prod(tensor.dims) * bits // 8)


def _kind(tensor: onnx.TensorProto) -> str:
    values = onnx.TensorProto.DataType.DESCRIPTOR.values_by_number
    return str(values[tensor.data_type].name) if tensor.data_type in values else ""


def has_no_data(tensor: onnx.TensorProto) -> bool:
    """Whether a tensor's elements were left out of the file (weights stripped)."""
    return (
        prod(tensor.dims) > 0
        and not tensor.HasField("raw_data")
        and not any(len(getattr(tensor, field)) for field in DATA_FIELDS[1:])
    )


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
        nodes = [copied(graph.node[i]) for i in order]
        del graph.node[:]
        graph.node.extend(nodes)


def drop_default_inputs(graph: onnx.GraphProto) -> None:
    """Files of IR version 3 list every initializer among the inputs as well; they are weights all the same."""
    initializers = {t.name for t in graph.initializer}
    keep_only(graph.input, lambda info: info.name not in initializers)


def check_sizes(graph: onnx.GraphProto, limits: ImportLimits) -> None:
    """`sizes.check_shape` of every input and initializer, all of static shape."""
    declared = [(i.name, [d.dim_value for d in i.type.tensor_type.shape.dim]) for i in graph.input]
    declared += [(t.name, list(t.dims)) for t in graph.initializer]
    for name, dims in declared:
        check_shape(name, dims, limits.max_elements, limits.max_rank, empty=True)
