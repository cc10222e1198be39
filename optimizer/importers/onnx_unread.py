"""What a mapping has not read of its node although it changes the result: such a use of the op is not mapped."""

from __future__ import annotations

from collections.abc import Iterator, Set

import onnx
import onnx_ir as ir

from optimizer.importers.onnx_schemas import schema_of, versions_of

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
