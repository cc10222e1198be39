"""`GraphBuilder`: write a graph down op by op; shapes and element types are inferred.

b = GraphBuilder("mlp")
x = b.input("x", (1, 1, 512, 1024))
w = b.parameter("w", (1024, 1024))
y = b.op("ttnn.linear", x, w, activation="relu", name="fc")
graph = b.finish(y)
"""

from __future__ import annotations

from optimizer.errors import GraphError, UnknownNameError
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr, Graph, Op, Value, ValueKind
from optimizer.ir.making import make_op
from optimizer.ir.vocabulary import op_names, opdef


class GraphBuilder:
    """Builds one graph; methods return value ids."""

    def __init__(self, name: str) -> None:
        self._graph = Graph(name)

    def __repr__(self) -> str:
        return f"<GraphBuilder of {self._graph!r}>"

    def input(self, name: str, shape: tuple[int, ...], dtype: DType = DType.BF16) -> str:
        """A value fed on every run."""
        self._graph.inputs.append(name)
        return self._source(name, shape, dtype, ValueKind.INPUT)

    def parameter(self, name: str, shape: tuple[int, ...], dtype: DType = DType.BF16) -> str:
        """A weight."""
        return self._source(name, shape, dtype, ValueKind.PARAMETER)

    def constant(self, name: str, shape: tuple[int, ...], data: tuple[float, ...], dtype: DType = DType.BF16) -> str:
        """A small tensor with its elements in row-major order."""
        return self._graph.add_value(Value(name, shape, dtype, ValueKind.CONSTANT, data)).id

    def op(self, op: str, *inputs: str, name: str = "", **attrs: Attr) -> str:
        """Add an op of the vocabulary with one result; returns the result's id."""
        results = self.ops(op, *inputs, name=name, **attrs)
        if len(results) != 1:
            raise GraphError(f"{op} has {len(results)} results, use `ops`", node=name or None)
        return results[0]

    def ops(self, op: str, *inputs: str, name: str = "", **attrs: Attr) -> tuple[str, ...]:
        """Add an op of the vocabulary; returns the ids of all results."""
        graph, row = self._graph, opdef(op)
        if row.opaque:
            raise UnknownNameError("op", op, op_names(), node=name or None)
        for value_id in inputs:
            if value_id not in graph.values:
                raise UnknownNameError("value", value_id, graph.values, node=name or op)
        op_id = graph.fresh_id(name or op.rpartition(".")[2])
        draft = Op(op_id, op, inputs, (), attrs, name or op_id)
        row.check_attrs(draft)
        return make_op(graph, draft).outputs

    def finish(self, *outputs: str) -> Graph:
        """The graph, returning these values."""
        self._graph.outputs = list(outputs)
        return self._graph

    def _source(self, name: str, shape: tuple[int, ...], dtype: DType, kind: ValueKind) -> str:
        return self._graph.add_value(Value(name, shape, dtype, kind)).id
