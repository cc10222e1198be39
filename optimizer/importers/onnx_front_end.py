"""ONNX bytes to a folded model with static shapes; no weight is read.

The order was measured on 75 real models: take references to other files out, inline functions, drop stale shapes,
bind input dims, turn large tensors and those without data into graph inputs (remembered as parameters), then infer
shapes and fold constants until nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx
import onnx.inliner
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from optimizer.errors import FormatError, GraphError, LimitError, ShapeError
from optimizer.importers.model import Budget, ImportOptions
from optimizer.importers.onnx_checks import absent_from_opset, check_functions, check_nodes, opset_versions
from optimizer.importers.onnx_folding import CONTROL_FLOW, LIBRARY_ERRORS
from optimizer.importers.onnx_inputs import bind_inputs, check_names, check_sizes, drop_default_inputs
from optimizer.importers.onnx_tensors import settle
from optimizer.importers.onnx_weights import Keep, hoist_weights, keep_nothing, promote_weights, strip_weights

if TYPE_CHECKING:
    import onnx_ir as ir

OPSETS = range(7, 24)
LAST_VERSION = 2**31 - 1
"""What ONNX's registry of ops takes for a version."""


@dataclass(frozen=True)
class FrontEndModel:
    """A folded model and what is known of its weights."""

    model: ir.Model
    parameters: frozenset[str]
    """Values that are weights although the folded model has them as inputs."""
    causal: frozenset[str]
    """Large parameters whose data in the file is exactly a causal (lower triangular) mask."""
    weights: frozenset[str]
    """Names of the file's initializers."""
    left_out: tuple[str, ...] = ()
    """Inputs that nothing reads and that no tensor can stand for: strings, sequences, dynamic shapes."""
    notes: tuple[str, ...] = ()
    """Remarks for the user."""


def parse(data: bytes) -> onnx.ModelProto:
    """Bytes to a protobuf model; FormatError when they are no ONNX model of a supported opset."""
    if not data:
        raise FormatError("the file is empty")
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise FormatError("not an ONNX model: the protobuf cannot be parsed (truncated file?)") from error
    if not proto.HasField("graph") or proto.ir_version <= 0 or not proto.graph.output:
        raise FormatError("not an ONNX model: no graph with outputs inside")
    return proto


def _check_opset(proto: onnx.ModelProto) -> None:
    versions = opset_versions(proto)
    for domain, version in sorted(versions.items()):
        if not 0 < version <= LAST_VERSION:
            raise FormatError(f"opset {version} of domain '{domain}' is no version", limit=LAST_VERSION)
    if "" in versions and versions[""] not in OPSETS:
        raise FormatError(f"opset {versions['']} is not supported; export with opset {OPSETS[0]} to {OPSETS[-1]}")
    if "" not in versions and any(n.domain in ("", "ai.onnx") for n in proto.graph.node):
        raise FormatError("the model does not say which ONNX opset it uses (no opset_import)")


@dataclass(frozen=True)
class NamedModel:
    """A model without functions, whose weights are initializers and Constants of its one graph, without elements."""

    proto: onnx.ModelProto
    left_out: tuple[str, ...]
    notes: tuple[str, ...]


def inlined(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A model without local functions."""
    try:
        return onnx.inliner.inline_local_functions(proto)
    except LIBRARY_ERRORS as error:
        raise GraphError(f"local functions cannot be inlined: {error}") from error


def name_weights(
    proto: onnx.ModelProto, options: ImportOptions, budget: Budget, keep: Keep = keep_nothing
) -> NamedModel:
    """Everything that decides what the weights of a model are called; `keep` is given those that the file holds."""
    limits = options.limits
    notes = settle(proto, options.folder, budget)
    _check_opset(proto)
    strip_weights(proto, keep)
    if proto.functions:
        check_functions(proto, limits)
        proto = inlined(proto)
    if len(proto.graph.node) > limits.max_nodes:
        raise LimitError(
            f"{len(proto.graph.node)} nodes exceed the limit of {limits.max_nodes}", limit=limits.max_nodes
        )
    check_nodes(proto, budget)
    check_names(proto.graph)
    drop_default_inputs(proto.graph)
    _drop_stated_shapes(proto)
    left_out = bind_inputs(proto.graph, options.input_shapes)
    hoist_weights(proto.graph)
    return NamedModel(proto, left_out, tuple(notes))


def fold(proto: onnx.ModelProto, options: ImportOptions, budget: Budget) -> FrontEndModel:
    """Make every shape static and fold what is constant; raises FormatError, GraphError, ShapeError or LimitError."""
    named = name_weights(proto, options, budget)
    proto = named.proto
    check_sizes(proto.graph, options.limits)
    for node in proto.graph.node:
        if node.op_type in CONTROL_FLOW and node.op_type != "If":  # an If on a constant folds away
            raise _control_flow(node.op_type, node.name or next(iter(node.output), "?"))
    initializers = frozenset(t.name for t in proto.graph.initializer)
    parameters, causal = promote_weights(proto.graph)
    _restate_sources(proto.graph)
    model = _folded(proto, budget)
    _check_resolved(model, frozenset(parameters), opset_versions(proto))
    return FrontEndModel(model, frozenset(parameters), frozenset(causal), initializers, named.left_out, named.notes)


def _folded(proto: onnx.ModelProto, budget: Budget) -> ir.Model:
    import onnx_ir as ir

    from optimizer.importers.onnx_folding import first_line, fold_model

    try:
        model: ir.Model = ir.from_proto(proto)
    except LIBRARY_ERRORS as error:
        raise GraphError(f"the model is inconsistent: {first_line(error)}") from error
    fold_model(model, budget)
    return model


def _drop_stated_shapes(proto: onnx.ModelProto) -> None:
    """Stated shapes can be stale or wrong, so only those of ops that nobody can infer are kept."""
    versions = opset_versions(proto)
    foreign: set[str] = set()
    for node in proto.graph.node:
        domain = node.domain if node.domain != "ai.onnx" else ""
        if not onnx.defs.has(node.op_type, versions.get(domain, 1), domain):
            foreign.update(node.output)
    kept = [onnx.ValueInfoProto.FromString(v.SerializeToString()) for v in proto.graph.value_info if v.name in foreign]
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(kept)
    for output in proto.graph.output:
        if output.name not in foreign and output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")


def _restate_sources(graph: onnx.GraphProto) -> None:
    """An output that no node computes has the type of the input or initializer that it is."""
    sources = {i.name: i for i in graph.input}
    for tensor in graph.initializer:
        sources[tensor.name] = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
    for output in graph.output:
        if output.name in sources:
            output.type.CopyFrom(sources[output.name].type)


def _control_flow(op_type: str, name: str) -> GraphError:
    return GraphError(
        f"{op_type} '{name}' cannot be represented: what runs depends on run-time values; "
        "export the model with the control flow unrolled or removed",
        node=name,
    )


def _why_unresolved(node: ir.Node, parameters: frozenset[str], versions: dict[str, int]) -> str | None:
    """A cause that the file shows: an op newer than the opset, or a shape whose elements were left out."""
    remark = absent_from_opset(node.op_type, node.domain, versions)
    if remark is not None:
        return f"{node.op_type} '{node.name or node.outputs[0].name}': {remark}"
    for value in node.inputs:
        if value is not None and value.name in parameters and value.dtype is not None and value.dtype.is_integer():
            return (
                f"{node.op_type} '{node.name or node.outputs[0].name}' needs the elements of '{value.name}', "
                "which are not in the file"
            )
    return None


def _check_resolved(model: ir.Model, parameters: frozenset[str], versions: dict[str, int]) -> None:
    from optimizer.importers.onnx_folding import unresolved as find_unresolved

    for node in model.graph:
        if node.op_type in CONTROL_FLOW:
            raise _control_flow(node.op_type, node.name or node.outputs[0].name or "?")
    unresolved = find_unresolved(model)
    if unresolved:
        for node in model.graph:
            untyped = any(v.shape is None or v.dtype is None or not v.shape.is_static() for v in node.outputs)
            reason = _why_unresolved(node, parameters, versions) if untyped else None
            if reason is not None:
                raise ShapeError(reason, node=node.name or node.outputs[0].name)
        shown = "; ".join(unresolved[:3]) + (f"; and {len(unresolved) - 3} more" if len(unresolved) > 3 else "")
        raise ShapeError(
            f"the shape of {len(unresolved)} node(s) depends on run-time values or cannot be inferred: {shown}; "
            "give --input-shapes for every input, or export with static shapes",
            node=unresolved[0].split(" -> ")[0],
        )
