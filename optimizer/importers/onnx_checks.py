"""Checks of an ONNX protobuf that need no inference: function calls, attributes, operand counts, tensor data.

The libraries used later trust their input: wrong attribute types become zero, a data field of the wrong
length is read as it is, and functions that call one another are expanded without any bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from math import isfinite, isnan, prod

import onnx
import onnx.defs

from optimizer.errors import FormatError, GraphError, LimitError
from optimizer.importers.model import Budget, ImportLimits

MAX_CALL_DEPTH = 256
"""Local functions that call one another; inlining recurses once per level."""
WIDE, WIDE_SHARE = 1024, 64
"""Operands from which a node's squared count is charged, and how many of the libraries' steps make one of work: taking
a node out of the graph, they copy its operands once for each of them."""
DATA_FIELDS = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
_MAY_BE_INFINITE = frozenset({"Clip", "Pad"})
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


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def opset_versions(proto: onnx.ModelProto) -> dict[str, int]:
    """Domain -> stated opset."""
    return {_domain(o.domain): o.version for o in proto.opset_import}


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
        (_domain(f.domain), f.name, f.overload): list(walk(f.node)) for f in proto.functions
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
    return (_domain(node.domain), node.op_type, node.overload)


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


# -- nodes -----------------------------------------------------------------------------------------
@cache
def _schema(op_type: str, version: int, domain: str) -> onnx.defs.OpSchema | None:
    if not onnx.defs.has(op_type, version, domain):
        return None
    return onnx.defs.get_schema(op_type, version, domain)


def absent_from_opset(op_type: str, domain: str, versions: dict[str, int]) -> str | None:
    """A remark when a standard op exists, but not in the opset that the model states."""
    version = versions.get(_domain(domain), 1)
    if onnx.defs.has(op_type, version, _domain(domain)) or not onnx.defs.has(op_type, _domain(domain)):
        return None
    return f"{op_type} is not in opset {version} that the model states"


def check_nodes(proto: onnx.ModelProto, budget: Budget) -> None:
    """Attribute types and operand counts against the schemas; GraphError names node and attribute."""
    limits = budget.limits
    versions = opset_versions(proto)
    for node in walk(proto.graph.node):
        if max(len(node.input), len(node.output)) > limits.max_operands:
            raise LimitError(
                f"{node_label(node)} has {len(node.input)} inputs and {len(node.output)} outputs, "
                f"the limit is {limits.max_operands}",
                node=node.name or None,
                limit=limits.max_operands,
            )
        if len(node.input) > WIDE:
            budget.work(node_label(node), len(node.input) ** 2 // WIDE_SHARE)
        schema = _schema(node.op_type, versions.get(_domain(node.domain), 1), _domain(node.domain))
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                raise GraphError(f"{node_label(node)}: attribute '{attribute.name}' refers to a function's attribute "
                                 "outside of a function", node=node.name or None)  # fmt: skip
            _check_attribute(node, attribute, schema)
            if (
                attribute.name == "perm"
                and schema is not None
                and sorted(attribute.ints) != list(range(len(attribute.ints)))
            ):
                raise GraphError(
                    f"{node_label(node)}: attribute 'perm' {list(attribute.ints)} is no permutation",
                    node=node.name or None,
                )
            if attribute.name == "num_outputs" and node.op_type == "Split" and attribute.i != len(node.output):
                raise GraphError(
                    f"{node_label(node)}: attribute 'num_outputs' {attribute.i} for {len(node.output)} outputs",
                    node=node.name or None,
                )
        if schema is not None:
            _check_required(node, schema)
            _check_operands(node, schema)


def _check_attribute(node: onnx.NodeProto, attribute: onnx.AttributeProto, schema: onnx.defs.OpSchema | None) -> None:
    place = f"{node_label(node)}: attribute '{attribute.name}'"
    stated = schema.attributes.get(attribute.name) if schema is not None else None
    if stated is not None:
        expected = int(stated.type.value)  # type: ignore[attr-defined]  # the stubs miss it
        if attribute.type != expected:
            wanted = _type_name(expected)
            found = _type_name(attribute.type)
            raise GraphError(f"{place} must be of type {wanted}, not {found}", node=node.name or None)
    numbers = [attribute.f] if attribute.type == onnx.AttributeProto.FLOAT else list(attribute.floats)
    if node.op_type == "Constant" or all(map(isfinite, numbers)):
        return
    if any(map(isnan, numbers)) or node.op_type not in _MAY_BE_INFINITE:
        raise GraphError(f"{place} is not a finite number", node=node.name or None)


def _type_name(number: int) -> str:
    kinds = onnx.AttributeProto.AttributeType.DESCRIPTOR.values_by_number
    return str(kinds[number].name).lower() if number in kinds else f"number {number}"


def _check_required(node: onnx.NodeProto, schema: onnx.defs.OpSchema) -> None:
    given = {a.name for a in node.attribute}
    for name, stated in sorted(schema.attributes.items()):
        if stated.required and name not in given:
            raise GraphError(f"{node_label(node)}: attribute '{name}' is missing", node=node.name or None)


def _check_operands(node: onnx.NodeProto, schema: onnx.defs.OpSchema) -> None:
    count = len(node.input)
    while count and not node.input[count - 1]:
        count -= 1
    low, high = schema.min_input, schema.max_input
    if not low <= count <= high:
        wanted = str(low) if low == high else f"at least {low}" if high > 1 << 16 else f"{low} to {high}"
        gone = "; the op is no part of this opset any more" if schema.deprecated else ""
        raise GraphError(f"{node_label(node)} has {count} inputs, not {wanted}{gone}", node=node.name or None)


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
