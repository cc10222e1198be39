"""ONNX bytes to a folded model with static shapes; no weight is read.

The order was measured on 75 real models: take references to other files out, inline functions, drop stale shapes,
bind input dims, turn large tensors and those without data into graph inputs (remembered as parameters), then infer
shapes and fold constants until nothing changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import onnx
import onnx.inliner
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from optimizer.errors import FormatError, GraphError, LimitError, ShapeError
from optimizer.importers.model import Budget, ImportOptions
from optimizer.importers.onnx_checks import (
    check_functions,
    check_names,
    check_sizes,
    drop_default_inputs,
    opset_versions,
)
from optimizer.importers.onnx_dims import OpenInput, Sizes, bind_inputs, drop_unread, refuse_open
from optimizer.importers.onnx_folding import LIBRARY_ERRORS
from optimizer.importers.onnx_refusals import refuse_control_flow, refuse_guessed, refuse_unresolved
from optimizer.importers.onnx_schemas import check_nodes
from optimizer.importers.onnx_stated import Stated, compared, restate_sources, take_out
from optimizer.importers.onnx_tensors import Settled, settle
from optimizer.importers.onnx_weights import Keep, hoist_weights, keep_nothing, promote_weights, strip_weights

if TYPE_CHECKING:
    import onnx_ir as ir

OPSETS = range(7, 24)
LAST_VERSION = 2**31 - 1
"""What ONNX's registry of ops takes for a version."""
_OTHER_FILES = {
    b"PK\x03\x04": "it is a ZIP archive, such as PyTorch's checkpoints; torch.onnx.export writes ONNX",
    b"version https://git-lfs": "it is a pointer of Git LFS; `git lfs pull` fetches the file that it stands for",
    b"\x1f\x8b": "it is compressed by gzip; unpack it first",
    b"\x89HDF": "it is an HDF5 file, as Keras writes them; tf2onnx converts such models",
}
"""How files begin that are taken for models -> what they are."""
TOLD_BY = 256
"""Bytes by which text is known."""
SHOWN_HEAD = 40
"""Characters of it that an error repeats."""
_TEXT = frozenset((*b"\t\r\n", *range(32, 127)))


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
    unread: Mapping[str, str] = field(default_factory=dict)
    """Value of external data -> why its elements are not there."""
    open_inputs: tuple[OpenInput, ...] = ()
    """Inputs that lack numbers; empty unless they were let through."""

    def why_without_elements(self, name: str) -> str:
        """What an error says of a weight whose elements are needed."""
        return self.unread.get(name, "they are not in the file")


def parse(data: bytes) -> onnx.ModelProto:
    """Bytes to a protobuf model; FormatError when they are no ONNX model of a supported opset."""
    if not data:
        raise FormatError("not an ONNX model: there are no bytes in it")
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise FormatError(f"not an ONNX model: {_what_it_is(data)}") from error
    if not proto.HasField("graph") or proto.ir_version <= 0:
        raise FormatError("not an ONNX model: no graph inside")
    if not proto.graph.output:
        raise GraphError("the graph has no outputs, so nothing of it would be computed")
    return proto


def _what_it_is(data: bytes) -> str:
    """What bytes are that are no protobuf, where their beginning tells."""
    for first, about in _OTHER_FILES.items():
        if data.startswith(first):
            return about
    head = data[:TOLD_BY]
    if all(byte in _TEXT for byte in head):
        return f"it is text, which begins with {head[:SHOWN_HEAD].decode('ascii', 'replace').splitlines()[0]!r}"
    return "the protobuf cannot be parsed (truncated file?)"


def _check_opset(proto: onnx.ModelProto) -> None:
    versions = opset_versions(proto)
    for domain, version in sorted(versions.items()):
        if not 0 < version <= LAST_VERSION:
            raise FormatError(f"opset {version} of domain '{domain}' is no version", limit=LAST_VERSION)
    if "" in versions and versions[""] not in OPSETS:
        raise FormatError(
            f"opset {versions['']} is not supported; export with opset {OPSETS[0]} to {OPSETS[-1]}, "
            "or convert the model with onnx.version_converter",
            limit=OPSETS[-1],
        )
    if "" not in versions and any(n.domain in ("", "ai.onnx") for n in proto.graph.node):
        raise FormatError("the model does not say which ONNX opset it uses (no opset_import)")


@dataclass(frozen=True)
class NamedModel:
    """A model without functions, whose weights are initializers and Constants of its one graph, without elements."""

    proto: onnx.ModelProto
    sizes: Sizes
    statements: tuple[Stated, ...]
    """What the file says of values whose types are inferred."""
    left_out: tuple[str, ...]
    settled: Settled


def inlined(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A model without local functions."""
    try:
        return onnx.inliner.inline_local_functions(proto)
    except LIBRARY_ERRORS as error:
        raise GraphError(f"local functions cannot be inlined: {error}") from error


def name_weights(
    proto: onnx.ModelProto, options: ImportOptions, budget: Budget, keep: Keep = keep_nothing, open_sizes: bool = False
) -> NamedModel:
    """Everything that decides what the weights of a model are called; `keep` is given those that the file holds.

    `open_sizes`: inputs may lack numbers, else that is an OpenSizesError.
    """
    limits = options.limits
    settled = settle(proto, options.folder, budget)
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
    statements = take_out(proto)
    drop_default_inputs(proto.graph)
    sizes = bind_inputs(proto.graph, options.input_shapes, options.dims, budget)
    if not open_sizes:
        refuse_open(sizes.open_inputs)
    left_out = drop_unread(proto.graph)
    hoist_weights(proto.graph)
    return NamedModel(proto, sizes, statements, left_out, settled)


def fold(proto: onnx.ModelProto, options: ImportOptions, budget: Budget, open_sizes: bool = False) -> FrontEndModel:
    """Make every shape static and fold what is constant; raises FormatError, GraphError, ShapeError or LimitError.

    `open_sizes`: inputs may lack numbers, and so may every other shape then.
    """
    named = name_weights(proto, options, budget, open_sizes=open_sizes)
    proto = named.proto
    check_sizes(proto.graph, options.limits)
    refuse_control_flow(proto.graph)
    initializers = frozenset(t.name for t in proto.graph.initializer)
    promoted, causal = promote_weights(proto.graph)
    parameters = frozenset(promoted)
    restate_sources(proto.graph)
    model = _folded(proto, budget, parameters)
    if not named.sizes.open_inputs:
        refuse_guessed(model, parameters)
    remarks = compared(model, named.statements, named.sizes, lambda: _as_stated(proto, named.sizes, budget, parameters))
    front = FrontEndModel(
        model, parameters, frozenset(causal), initializers, named.left_out,
        (*named.settled.notes, *remarks), named.settled.unread, named.sizes.open_inputs,
    )  # fmt: skip
    if not front.open_inputs:
        refuse_unresolved(model, front.parameters, front.why_without_elements, opset_versions(proto))
    return front


def _as_stated(proto: onnx.ModelProto, sizes: Sizes, budget: Budget, weights: frozenset[str]) -> ir.Model | None:
    """The model with the sizes that the file states of its inputs; None where these do not even fit each other."""
    given = {info.name: info for info in sizes.given}
    for info in proto.graph.input:
        if info.name in given:
            info.CopyFrom(given[info.name])
    restate_sources(proto.graph)
    try:
        return _folded(proto, budget, weights)
    except (GraphError, ShapeError):
        return None


def _folded(proto: onnx.ModelProto, budget: Budget, weights: frozenset[str]) -> ir.Model:
    import onnx_ir as ir

    from optimizer.importers.onnx_folding import first_line, fold_model

    try:
        model: ir.Model = ir.from_proto(proto)
    except LIBRARY_ERRORS as error:
        raise GraphError(f"the model is inconsistent: {first_line(error)}") from error
    fold_model(model, budget, weights)
    return model
