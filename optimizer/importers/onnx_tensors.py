"""Every tensor and every name of an ONNX file, wherever it stands, before anything else looks at them.

The libraries used later open the file that a tensor with external data names, whichever it is. So none of them ever
sees such a tensor: here, right after parsing, each one loses its reference. What is left is a weight without data;
or, for a model given by its path, the elements of a small tensor, read from the model's own folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.descriptor import Descriptor, FieldDescriptor  # type: ignore[import-untyped]

from optimizer.errors import FormatError, GraphError
from optimizer.importers.model import Budget
from optimizer.importers.onnx_checks import DATA_FIELDS, check_data, node_label
from optimizer.importers.onnx_external import Reference, read_elements

_FREE_TEXT = frozenset({"doc_string", "metadata_props", "producer_name", "producer_version"})
"""Fields that nothing reads; they may be in any encoding."""


@cache
def _fields(kind: Descriptor) -> tuple[tuple[tuple[str, bool], ...], tuple[tuple[str, bool], ...]]:
    """Names of a message's text fields and of its fields that are messages, each with whether it is repeated."""
    text, parts = [], []
    for field in kind.fields:
        if field.name in _FREE_TEXT:
            continue
        if field.type == FieldDescriptor.TYPE_STRING:
            text.append((field.name, field.is_repeated))
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            parts.append((field.name, field.is_repeated))
    return tuple(text), tuple(parts)


def messages(root: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """All messages of a protobuf tree, each with the chain of messages around it, the innermost first."""
    stack: list[tuple[Any, tuple[Any, ...]]] = [(root, ())]
    while stack:
        message, around = stack.pop()
        yield message, around
        inner = (message, *around[:2])
        for name, repeated in _fields(message.DESCRIPTOR)[1]:
            if repeated:
                stack.extend((part, inner) for part in getattr(message, name))
            elif message.HasField(name):
                stack.append((getattr(message, name), inner))


@dataclass(frozen=True)
class Settled:
    """What became of the references to external data."""

    notes: tuple[str, ...]
    """Remarks for the user."""
    unread: Mapping[str, str]
    """Name of a value that such a tensor gives -> why its elements are not there."""


def settle(proto: onnx.ModelProto, folder: Path | None, budget: Budget) -> Settled:
    """Take every reference to external data out of the model.

    FormatError for names that are no UTF-8, for data of another length than the dims give, and for external data
    that lie outside of `folder` or do not fit their tensor; GraphError for a tensor without elements where only
    elements make sense (an attribute's). Parts of the file that serve training only are dropped.
    """
    proto.ClearField("training_info")
    read: dict[str, int] = {}
    unread: dict[str, str] = {}
    links: dict[str, str] = {}
    for message, around in messages(proto):
        _check_text(message, around)
        if not isinstance(message, onnx.TensorProto):
            continue
        name = message.name or _owner(around)
        if message.data_location != onnx.TensorProto.EXTERNAL and not message.external_data:
            check_data(message, name)
            continue
        for entry in message.external_data:
            _check_text(entry, around)
        reference = _detach(message, name)
        why = "they are external data, which are read only for a model given by its path, never for an upload"
        if folder is not None:
            why = read_elements(message, reference, folder, budget)
            if not why:
                read[reference.location] = read.get(reference.location, 0) + 1
                continue
            if why.startswith("a link"):
                links[reference.location] = why
        unread[_value_name(message, around)] = why
        if not _may_be_weight(around):
            raise GraphError(f"{_owner(around)} needs the elements of tensor '{name}': {why}", node=name)
    notes = [f"{n} small tensors were read from '{location}' beside the model" for location, n in sorted(read.items())]
    notes += [f"'{location}' beside the model was not read: {why}" for location, why in sorted(links.items())]
    return Settled(tuple(notes), unread)


def _value_name(tensor: onnx.TensorProto, around: tuple[Any, ...]) -> str:
    """What a weight is called in the graph: by itself, or like the result of its Constant."""
    node = around[1] if len(around) > 1 else None
    return str(node.output[0]) if isinstance(node, onnx.NodeProto) and node.output else str(tensor.name)


def _check_text(message: Any, around: tuple[Any, ...]) -> None:
    for name, repeated in _fields(message.DESCRIPTOR)[0]:
        value = getattr(message, name)
        for text in value if repeated else (value,):
            if isinstance(text, bytes):  # what protobuf gives for text that is no UTF-8
                raise FormatError(f"{_owner(around)}: '{name}' {text[:40]!r} is not UTF-8 text")


def _detach(tensor: onnx.TensorProto, name: str) -> Reference:
    """The tensor's reference, taken out of it, with any data beside it, which ONNX says to ignore."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    external = tensor.data_location == onnx.TensorProto.EXTERNAL
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    if external:
        for field in DATA_FIELDS:
            tensor.ClearField(field)
    return Reference(name, entries)


def _may_be_weight(around: tuple[Any, ...]) -> bool:
    """Whether a tensor stands where a weight may: an initializer, or what a Constant gives."""
    if isinstance(around[0], onnx.GraphProto):
        return True
    node = around[1] if len(around) > 1 else None
    return isinstance(node, onnx.NodeProto) and node.op_type == "Constant" and around[0].name == "value"


def _owner(around: tuple[Any, ...]) -> str:
    """What a message belongs to, for messages."""
    for message in around:
        if isinstance(message, onnx.NodeProto):
            return node_label(message)
        if isinstance(message, onnx.FunctionProto):
            return f"function '{message.name}'"
        if isinstance(message, onnx.AttributeProto) and not any(isinstance(m, onnx.NodeProto) for m in around):
            return f"attribute '{message.name}'"
    return "the graph" if around else "the model"
