"""Names of an ONNX graph, each defined once and before it is read, and how large its tensors may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import onnx

from optimizer.errors import GraphError
from optimizer.importers.model import ImportLimits
from optimizer.importers.onnx_checks import node_label, subgraphs
from optimizer.ir.sizes import check_shape
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


def check_sizes(graph: onnx.GraphProto, limits: ImportLimits) -> None:
    """`sizes.check_shape` of every input and initializer, all of static shape."""
    declared = [(i.name, [d.dim_value for d in i.type.tensor_type.shape.dim]) for i in graph.input]
    declared += [(t.name, list(t.dims)) for t in graph.initializer]
    for name, dims in declared:
        check_shape(name, dims, limits.max_elements, limits.max_rank, empty=True)
