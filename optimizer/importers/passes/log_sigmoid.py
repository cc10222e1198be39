"""log(sigmoid(x)), as exporters write LogSigmoid, in one op."""

from __future__ import annotations

from optimizer.importers.passes.rewriting import fuse, only_use, produced_by, rewrites_each
from optimizer.ir.graph import Graph, Op


@rewrites_each("log-sigmoid", "log")
def log_sigmoid(graph: Graph, op: Op) -> int:
    """log(sigmoid(x)) -> log_sigmoid, where nothing else reads the sigmoid."""
    gate = produced_by(graph, op.inputs[0], "sigmoid")
    if gate is None or only_use(graph, gate.outputs[0]) is None:
        return 0
    fuse(graph, op, op, "log_sigmoid", gate.inputs, {}, [gate])
    return 1
