"""The nodes of a model's file, each with the names that a result may call it by.

A result names foreign nodes as the importer saw them: by their name, a nameless one by its first output or by its op
type and that output, and those of local functions as ONNX's inliner names them. What is in a function belongs to the
call.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from optimizer.errors import GraphError
from optimizer.importers.onnx_checks import walk
from optimizer.importers.onnx_front_end import inlined


def named_nodes(model: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, tuple[str, ...]]]:
    """Every node outside of functions, those in branches of others included."""
    called = _calls(model) if model.functions else {}
    for node in walk(model.graph.node):
        own = _names(node)
        yield node, own if own[0] not in called else (*own, *called[own[0]])


def external_files(model: onnx.ModelProto) -> list[str]:
    """Files that weights are said to lie in, relative to the model's own folder, in the order they are met."""
    tensors = list(model.graph.initializer)
    for node in walk(model.graph.node):
        for attribute in node.attribute:
            tensors += (attribute.t, *attribute.tensors, *attribute.g.initializer)
            tensors += (tensor for graph in attribute.graphs for tensor in graph.initializer)
    told = (entry for tensor in tensors for entry in tensor.external_data if entry.key == "location")
    return list(dict.fromkeys(entry.value for entry in told))


def _names(node: onnx.NodeProto) -> tuple[str, ...]:
    output = next(iter(node.output), "")
    return (node.name,) if node.name else (output, f"{node.op_type}_{output}")


def _calls(model: onnx.ModelProto) -> dict[str, tuple[str, ...]]:
    """A call of a local function -> names of the nodes that it becomes; empty where these cannot be told apart."""
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    skeleton = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    skeleton.graph.CopyFrom(
        onnx.GraphProto(name="graph", node=model.graph.node, input=model.graph.input, output=model.graph.output)
    )
    try:
        nodes = list(inlined(skeleton).graph.node)
    except GraphError:
        return {}

    def size(node: onnx.NodeProto) -> int:
        function = functions.get((node.domain, node.op_type, node.overload))
        return 1 if function is None else sum(map(size, function.node))

    found: dict[str, tuple[str, ...]] = {}
    at = 0
    for node in model.graph.node:
        count = size(node)
        if (node.domain, node.op_type, node.overload) in functions:
            found[_names(node)[0]] = tuple(name for body in nodes[at : at + count] for name in _names(body))
        at += count
    return found if at == len(nodes) else {}
