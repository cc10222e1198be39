"""log(sigmoid(x)), as exporters write LogSigmoid, in one op."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from optimizer.importers.passes.rewriting import fuse, only_use, produced_by, rewrite_each
from optimizer.ir.graph import Graph, Op


@dataclass(frozen=True)
class LogSigmoid:
    """log(sigmoid(x)) -> log_sigmoid, where nothing else reads the sigmoid."""

    name: ClassVar[str] = "log-sigmoid"

    def apply(self, graph: Graph) -> int:
        return rewrite_each(graph, "ttnn.log", self._visit)

    def _visit(self, graph: Graph, op: Op) -> int:
        gate = produced_by(graph, op.inputs[0], "sigmoid")
        if gate is None or only_use(graph, gate.outputs[0]) is None:
            return 0
        fuse(graph, op, op, "log_sigmoid", gate.inputs, {}, [gate])
        return 1
