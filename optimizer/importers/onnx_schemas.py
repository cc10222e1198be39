"""Nodes against the schema of their op in the opset that the model states: counts, attributes, element types, axes.

Schemas are ONNX's, and ours of ops of onnxruntime. The libraries used later trust their input: wrong attribute types
become zero, attributes of no meaning are taken for others, element types are mixed. What leaves no doubt passes:
operands that a later opset allows (bf16, or none), attributes of another opset that say what their absence means.
"""

from __future__ import annotations

from functools import cache
from math import isfinite, isnan

import onnx
import onnx.defs

from optimizer.errors import GraphError, LimitError
from optimizer.importers.model import Budget
from optimizer.importers.onnx_attribute_values import check_value
from optimizer.importers.onnx_checks import node_label, opset_versions, plain_domain, walk
from optimizer.importers.onnx_runtime_schemas import RUNTIME_SCHEMAS

WIDE, WIDE_SHARE = 1024, 64
"""Operands from which a node's squared count is charged, and how many of the libraries' steps make one of work: taking
a node out of the graph, they copy its operands once for each of them."""
_MAY_BE_INFINITE = frozenset({"Clip", "Pad"})
_UNCHECKED = "__"
"""How names begin of attributes that runtimes write for themselves, which ONNX's checker lets through too."""
_POOLS = frozenset({"AveragePool", "LpPool", "MaxPool"})
_Options = onnx.defs.OpSchema.FormalParameterOption


@cache
def schema_of(op_type: str, domain: str, version: int) -> onnx.defs.OpSchema | None:
    """The schema of an op; None of one that neither ONNX nor onnxruntime has there."""
    domain = plain_domain(domain)
    if onnx.defs.has(op_type, version, domain):
        return onnx.defs.get_schema(op_type, version, domain)
    return RUNTIME_SCHEMAS.get((domain, op_type))


def versions_of(schema: onnx.defs.OpSchema) -> list[onnx.defs.OpSchema]:
    """All schemas of an op."""
    return _history().get((schema.domain, schema.name), [schema])


def later_of(schema: onnx.defs.OpSchema) -> list[onnx.defs.OpSchema]:
    """The schemas that an op has in later opsets."""
    return [later for later in versions_of(schema) if later.since_version > schema.since_version]


@cache
def _history() -> dict[tuple[str, str], list[onnx.defs.OpSchema]]:
    found: dict[tuple[str, str], list[onnx.defs.OpSchema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        found.setdefault((schema.domain, schema.name), []).append(schema)
    return found


def absent_from_opset(op_type: str, domain: str, versions: dict[str, int]) -> str | None:
    """A remark when a standard op exists, but not in the opset that the model states."""
    domain = plain_domain(domain)
    version = versions.get(domain, 1)
    if onnx.defs.has(op_type, version, domain) or not onnx.defs.has(op_type, domain):
        return None
    return f"{op_type} is not in opset {version} that the model states"


def check_nodes(proto: onnx.ModelProto, budget: Budget) -> None:
    """GraphError that names node and attribute where one is not as its schema says; LimitError for very wide ones."""
    versions = opset_versions(proto)
    for node in walk(proto.graph.node):
        _check_width(node, budget)
        schema = schema_of(node.op_type, node.domain, versions.get(plain_domain(node.domain), 1))
        _check_attributes(node, schema)
        if schema is not None:
            _check_together(node)
            _check_counts(node, schema)


def _error(node: onnx.NodeProto, text: str) -> GraphError:
    return GraphError(f"{node_label(node)}{text}", node=node.name or None)


def _check_width(node: onnx.NodeProto, budget: Budget) -> None:
    limit = budget.limits.max_operands
    if max(len(node.input), len(node.output)) > limit:
        raise LimitError(
            f"{node_label(node)} has {len(node.input)} inputs and {len(node.output)} outputs, the limit is {limit}",
            node=node.name or None,
            limit=limit,
        )
    if len(node.input) > WIDE:
        budget.work(node_label(node), len(node.input) ** 2 // WIDE_SHARE)


def _check_attributes(node: onnx.NodeProto, schema: onnx.defs.OpSchema | None) -> None:
    given: set[str] = set()
    for attribute in node.attribute:
        if attribute.name in given:
            raise _error(node, f": attribute '{attribute.name}' is given twice")
        given.add(attribute.name)
        if attribute.ref_attr_name:
            raise _error(node, f": attribute '{attribute.name}' refers to a function's attribute outside of a function")
        if schema is not None:
            _check_attribute(node, attribute, schema)
        _check_finite(node, attribute)
    for name, stated in sorted(schema.attributes.items() if schema is not None else ()):
        if stated.required and name not in given:
            raise _error(node, f": attribute '{name}' is missing")


def _check_attribute(node: onnx.NodeProto, attribute: onnx.AttributeProto, schema: onnx.defs.OpSchema) -> None:
    stated = schema.attributes.get(attribute.name)
    if stated is None:
        if attribute.name.startswith(_UNCHECKED) or _changes_nothing(attribute, schema):
            return
        known = ", ".join(sorted(schema.attributes)) or "none"
        raise _error(
            node,
            f": attribute '{attribute.name}' is none of the op's in this opset ({known}); leave it out, or state the "
            "opset that has it",
        )
    expected = int(stated.type.value)  # type: ignore[attr-defined]  # the stubs miss it
    if attribute.type != expected:
        wanted, found = _type_name(expected), _type_name(attribute.type)
        raise _error(node, f": attribute '{attribute.name}' must be of type {wanted}, not {found}")
    check_value(node, attribute)


def _changes_nothing(attribute: onnx.AttributeProto, schema: onnx.defs.OpSchema) -> bool:
    """Whether another version of the op has the attribute and means by its absence what is given."""
    others = (other.attributes.get(attribute.name) for other in versions_of(schema))
    defaults = (stated.default_value for stated in others if stated is not None)
    given = onnx.helper.get_attribute_value(attribute)
    return any(d.type == attribute.type and onnx.helper.get_attribute_value(d) == given for d in defaults if d.name)


def _check_together(node: onnx.NodeProto) -> None:
    """What attributes of an op that is known say of each other and of the rest of the node."""
    given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    perm, count = list(given.get("perm", ())), given.get("num_outputs")
    if sorted(perm) != list(range(len(perm))):
        raise _error(node, f": attribute 'perm' {perm} is no permutation")
    if count is not None and count != len(node.output):
        raise _error(node, f": attribute 'num_outputs' {count} for {len(node.output)} outputs")
    if count is not None and len(node.input) > 1 and node.input[1]:
        raise _error(node, ": attribute 'num_outputs' and input 'split' both say how to split; leave one of them out")
    if given.get("auto_pad", b"NOTSET") != b"NOTSET" and any(given.get("pads", ())):
        raise _error(node, ": attributes 'auto_pad' and 'pads' both say how to pad; leave one of them out")
    kernel, pads = list(given.get("kernel_shape", ())), list(given.get("pads", ()))
    if node.op_type in _POOLS and any(pad >= size for pad, size in zip(pads, 2 * kernel, strict=False)):
        raise _error(node, f": attribute 'pads' {pads} has to be below 'kernel_shape' {kernel}: windows would be empty")


def _check_finite(node: onnx.NodeProto, attribute: onnx.AttributeProto) -> None:
    numbers = [attribute.f] if attribute.type == onnx.AttributeProto.FLOAT else list(attribute.floats)
    if node.op_type == "Constant" or all(map(isfinite, numbers)):
        return
    if any(map(isnan, numbers)) or node.op_type not in _MAY_BE_INFINITE:
        raise _error(node, f": attribute '{attribute.name}' is not a finite number")


def _type_name(number: int) -> str:
    kinds = onnx.AttributeProto.AttributeType.DESCRIPTOR.values_by_number
    return str(kinds[number].name).lower() if number in kinds else f"number {number}"


def _check_counts(node: onnx.NodeProto, schema: onnx.defs.OpSchema) -> None:
    bounds = ((node.input, schema.min_input, schema.max_input), (node.output, schema.min_output, schema.max_output))
    for what, (names, low, high) in zip(("inputs", "outputs"), bounds, strict=True):
        count = len(names)
        while count and not names[count - 1]:
            count -= 1
        if not low <= count <= high:
            wanted = str(low) if low == high else f"at least {low}" if high > 1 << 16 else f"{low} to {high}"
            raise _error(node, f" has {count} {what}, not {wanted}")
    for index, name in enumerate(node.input):
        if not name and not _may_be_absent(schema, index):
            raise _error(node, f": input {index} ('{_parameter(schema, index).name}') is missing")


def _parameter(schema: onnx.defs.OpSchema, index: int) -> onnx.defs.OpSchema.FormalParameter:
    """What the schema calls an input; the last one of a variadic op takes all that remain."""
    return schema.inputs[min(index, len(schema.inputs) - 1)]


def _may_be_absent(schema: onnx.defs.OpSchema, index: int) -> bool:
    """An operand that has to be there in this opset may be left out where a later one does without it."""
    later = (s.inputs[index].option for s in later_of(schema) if index < len(s.inputs))
    return _Options.Optional in (_parameter(schema, index).option, *later)
