"""Operands of a node against the schema of its op, once their types are inferred: element types, and axes within ranks.

Every node is looked at before it is evaluated, and those that remain once more. What a mapping has not read of its node
although it changes the result is told too: such a use of the op is not mapped.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from math import prod

import onnx
import onnx.defs
import onnx_ir as ir

from optimizer.errors import DTypeError, GraphError
from optimizer.importers.onnx_checks import plain_domain
from optimizer.importers.onnx_schemas import later_of, schema_of, versions_of

_AXES = ("axis", "axes", "batch_axis", "time_axis")
"""Attributes, and names of operands, that are axes."""
MOST_AXES = 100
"""More than any tensor has; of so many, one is out of range or given twice."""
_PER_CHANNEL = frozenset({"DequantizeLinear", "QuantizeLinear"})
"""Ops that read their axis only where operand 1 has a number for each of its elements."""


@dataclass(frozen=True)
class _Parameter:
    """What a schema says of an operand or result."""

    name: str
    variable: str
    """Parameters with the same have the same type."""
    kinds: frozenset[str]
    """Types that it may have, in this opset or a later one."""
    alike: bool
    """Whether all that a variadic one takes have the same type."""


@dataclass(frozen=True)
class _Signature:
    operands: tuple[_Parameter, ...]
    results: tuple[_Parameter, ...]


@cache
def _signature(op_type: str, domain: str, version: int) -> _Signature | None:
    schema = schema_of(op_type, domain, version)
    if schema is None:
        return None
    versions = (schema, *later_of(schema))
    return _Signature(_parameters([s.inputs for s in versions]), _parameters([s.outputs for s in versions]))


def _parameters(versions: Sequence[Sequence[onnx.defs.OpSchema.FormalParameter]]) -> tuple[_Parameter, ...]:
    found: list[_Parameter] = []
    for index, first in enumerate(versions[0]):
        allowed = [kind for later in versions if index < len(later) for kind in later[index].types]
        found.append(_Parameter(first.name, first.type_str, frozenset(allowed), first.is_homogeneous))
    return tuple(found)


def check_operands(node: ir.Node, opsets: Mapping[str, int], weights: Container[str | None] = ()) -> None:
    """DTypeError or GraphError where operands have types or axes that the op does not take.

    `weights`: inputs of the graph that are weights of the model.
    """
    domain = plain_domain(node.domain)
    signature = _signature(node.op_type, domain, opsets.get(domain, opsets.get("ai.onnx", 1) if not domain else 1))
    if signature is None:
        return
    _check_types(node, signature, weights)
    for name, axes in _axes(node, signature):
        _check_axes(node, name, axes)


def node_place(node: ir.Node) -> str:
    """How messages call a node of the library."""
    return f"{node.op_type} '{node.name or next((v.name for v in node.outputs if v.name), '?')}'"


# -- element types --------------------------------------------------------------------------------
def _check_types(node: ir.Node, signature: _Signature, weights: Container[str | None]) -> None:
    bound: dict[str, tuple[str, str]] = {}
    for values, parameters in ((node.inputs, signature.operands), (node.outputs, signature.results)):
        for index, value in enumerate(values):
            parameter = parameters[min(index, len(parameters) - 1)]
            kind = None if value is None else _kind(value.type)
            if kind is None:
                continue
            if kind not in parameter.kinds:
                raise DTypeError(
                    f"{node_place(node)}: '{parameter.name}' cannot be {_shown(kind)}",
                    node=node.name,
                    alternatives=sorted(map(_shown, parameter.kinds)),
                )
            other, first = bound.setdefault(parameter.variable, (parameter.name, kind))
            if kind != first and parameter.alike and not _is_folded(value, kind, first, weights):
                raise DTypeError(
                    f"{node_place(node)}: '{other}' is {_shown(first)}, but '{parameter.name}' {_shown(kind)}; the op "
                    "takes one element type for both: cast one of them",
                    node=node.name,
                )


def _is_folded(value: ir.Value | None, kind: str, first: str, weights: Container[str | None]) -> bool:
    """Whether an operand is a weight in f32 beside bf16: torch's exporter folds norms into convolutions so."""
    held = value is not None and (value.const_value is not None or value.name in weights)
    return held and (first, kind) == ("tensor(bfloat16)", "tensor(float)")


def _kind(kind: ir.TypeProtocol | None) -> str | None:
    """A type as schemas write it; None where it is not known."""
    if isinstance(kind, ir.TensorType):
        return None if kind.dtype == ir.DataType.UNDEFINED else f"tensor({kind.dtype.name.lower()})"
    wrapper: dict[type, str] = {
        ir.SequenceType: "seq",
        ir.OptionalType: "optional",
        ir.SparseTensorType: "sparse_tensor",
    }
    inner = _kind(getattr(kind, "elem_type", None)) if type(kind) in wrapper else None
    return None if inner is None else f"{wrapper[type(kind)]}({inner})"


def _shown(kind: str) -> str:
    return kind.removeprefix("tensor(").removesuffix(")") if kind.startswith("tensor(") else kind


# -- axes -----------------------------------------------------------------------------------------
def _axes(node: ir.Node, signature: _Signature) -> Iterator[tuple[str, list[int]]]:
    """Axes that are given as attributes, or as constant operands."""
    for name in _AXES:
        attribute = node.attributes.get(name)
        if attribute is not None and attribute.type == ir.AttributeType.INT:
            yield name, [attribute.as_int()]
        elif attribute is not None and attribute.type == ir.AttributeType.INTS:
            yield name, list(attribute.as_ints())
    for value, parameter in zip(node.inputs, signature.operands, strict=False):
        if parameter.name in _AXES and value is not None and value.const_value is not None:
            yield parameter.name, [int(axis) for axis in value.const_value.numpy().reshape(-1)[:MOST_AXES]]


def _check_axes(node: ir.Node, name: str, axes: list[int]) -> None:
    """Each within the rank, none twice."""
    x = node.inputs[0] if node.inputs else None
    if x is None or x.shape is None or (node.op_type in _PER_CHANNEL and not _has_numbers(node.inputs[1])):
        return
    low, high = _bounds(node.op_type, len(x.shape), len(axes))
    for axis in axes:
        if not low <= axis < high:
            raise GraphError(f"{node_place(node)}: {name} {axis} is outside of a tensor of rank {-low}", node=node.name)
    if len({axis % max(-low, 1) for axis in axes}) < len(axes):
        raise GraphError(f"{node_place(node)}: {name} {axes} name a dim twice", node=node.name)


def _bounds(op_type: str, rank: int, count: int) -> tuple[int, int]:
    """The least axis, and the number after the greatest."""
    if op_type == "Unsqueeze":
        rank += count
    elif op_type == "OneHot":
        rank += 1
    rank = max(rank, 1)
    return -rank, rank + (op_type == "Flatten")


def _has_numbers(scale: ir.Value | None) -> bool:
    if scale is None or scale.shape is None:
        return False
    return len(scale.shape) > 0 and prod(int(d) if isinstance(d, int) else 2 for d in scale.shape) != 1


_INFERRED = frozenset(
    {"allowzero", "axes", "dtype", "keepdims", "noop_with_empty_axes", "num_outputs", "output_dtype", "split", "to"}
    | {"Flatten.axis", "Resize.roi", "Resize.scales", "Resize.sizes"}
)
"""Attributes and operands that shape and type inference read."""
_IMMATERIAL = frozenset(
    {"accuracy_level", "momentum", "precision", "ratio", "saturate", "seed", "softmax_precision", "sorted"}
    | {"stash_type", "storage_order", "extrapolation_value", "qk_matmul_output_mode", "qk_output", "mask_index_type"}
    | {"k_norm_epsilon", "q_norm_epsilon", "qk_norm_epsilon", "EmbedLayerNormalization.mask"}
)
"""Those that change neither a result that is mapped nor more than its rounding."""


def unread(node: ir.Node, version: int, names: Set[str], indices: Set[int]) -> Iterator[str]:
    """Attributes that say something else than their absence would, and operands, that are not among those read."""
    schema = schema_of(node.op_type, node.domain, version)
    if schema is None:
        return
    for name, attribute in node.attributes.items():
        if name not in names and not _settled(node, name) and not _is_default(attribute, schema):
            yield f"attribute '{name}' {attribute.value}"
    for index, (value, parameter) in enumerate(zip(node.inputs, schema.inputs, strict=False)):
        optional = parameter.option is onnx.defs.OpSchema.FormalParameterOption.Optional
        if optional and value is not None and index not in indices and not _settled(node, parameter.name):
            yield f"operand '{parameter.name}'"


def _settled(node: ir.Node, name: str) -> bool:
    return not {name, f"{node.op_type}.{name}"}.isdisjoint(_INFERRED | _IMMATERIAL)


def _is_default(attribute: ir.Attr, schema: onnx.defs.OpSchema) -> bool:
    """Whether any version of the op means this by the absence of the attribute."""
    stated = (version.attributes.get(attribute.name) for version in versions_of(schema))
    values = [
        onnx.helper.get_attribute_value(s.default_value) for s in stated if s is not None and s.default_value.name
    ]
    return attribute.value in [value.decode() if isinstance(value, bytes) else value for value in values]
