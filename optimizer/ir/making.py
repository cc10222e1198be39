"""What an op gives, by its row: decided here once, for ops that are made, read from a document or checked.

`make_op` adds an op to a graph with its results; `check_graph` derives the results of every op of a graph again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from optimizer.errors import DTypeError, GraphError, ShapeError
from optimizer.ir.attribute_kinds import check_kinds
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op, Value, ValueKind
from optimizer.ir.positions import check_positions
from optimizer.ir.vocabulary import opdef

Shape = tuple[int, ...]
DRAFTS = "nchw."
"""Prefix of ops that an import writes down before they have their form in TTNN: no row, but run by the device."""


class Result(NamedTuple):
    """One result of an op."""

    shape: Shape
    dtype: DType
    kind: ValueKind


def results_of(graph: Graph, op: Op, stated: Sequence[tuple[Shape, DType]] | None = None) -> tuple[Result, ...]:
    """The results of an op whose operands are in the graph; `stated` where no row gives shapes and element types.

    They are prepared once where they depend on weights and constants only, or on nothing at all; ops of the host run
    every time. GraphError or ShapeError where the operands do not fit the row.
    """
    row = opdef(op.op)
    on_host = row.opaque and not op.op.startswith(DRAFTS)
    prepared = not on_host and all(map(graph.is_static, op.inputs))
    kind = ValueKind.PARAMETER if prepared else ValueKind.ACTIVATION
    if stated is None:
        if not row.min_inputs <= len(op.inputs) <= row.max_inputs:
            message = f"{op.op} takes {row.min_inputs} to {row.max_inputs} operands, not {len(op.inputs)}"
            raise GraphError(message, node=op.id)
        operands = [graph.value(v) for v in op.inputs]
        shapes = row.infer_shapes(op, tuple(v.shape for v in operands))
        dtypes = row.infer_dtypes(op, tuple(v.dtype for v in operands), len(shapes))
        stated = list(zip(shapes, dtypes, strict=True))
    return tuple(Result(shape, dtype, kind) for shape, dtype in stated)


def make_op(graph: Graph, op: Op, at: str | None = None) -> Op:
    """Add an op of the vocabulary and the values that it gives; `at` as in `Graph.add_op`.

    `op.outputs` names its results, of which the graph may have some already; without, they are called after the op.
    """
    outputs: list[str] = []
    for index, (shape, dtype, kind) in enumerate(results_of(graph, op)):
        value_id = op.outputs[index] if op.outputs else graph.fresh_id(f"{op.id}_out")
        if value_id not in graph.values:
            graph.add_value(Value(value_id, shape, dtype, kind))
        outputs.append(value_id)
    return graph.add_op(Op(op.id, op.op, op.inputs, tuple(outputs), op.attrs, op.name, op.origin), at=at)


def check_graph(graph: Graph) -> None:
    """GraphError, ShapeError or DTypeError where an op does not give what its row says of its operands, or where
    something is read that nothing gives."""
    for op in graph.ops():
        for value_id in op.inputs:
            if graph.producer(value_id) is None and graph.value(value_id).kind is ValueKind.ACTIVATION:
                raise GraphError(f"reads '{value_id}', which nothing computes", node=op.name)
        check_op(graph, op)
    for value_id in graph.outputs:
        if value_id not in graph.values:
            raise GraphError(f"output '{value_id}' is not computed", node=value_id)


def check_op(graph: Graph, op: Op) -> None:
    """As `check_graph`, for one op; of an op without a row its positions and the kind of its results."""
    row, name = opdef(op.op), op.name or op.id
    row.check_attrs(op)
    values = [graph.value(v) for v in op.outputs]
    if row.opaque:
        check_positions(op)
        found = results_of(graph, op, [(v.shape, v.dtype) for v in values])
    else:
        check_kinds(row, op)
        found = results_of(graph, op)
    if [v.shape for v in values] != [result.shape for result in found]:
        shapes = [[list(shape) for shape in each] for each in ((r.shape for r in found), (v.shape for v in values))]
        raise ShapeError(f"{op.op} gives {shapes[0]}, stated {shapes[1]}", node=name)
    for value, result in zip(values, found, strict=True):
        if value.dtype is not result.dtype:
            raise DTypeError(f"'{value.id}' is {value.dtype}, {op.op} gives {result.dtype}", node=name)
        if value.kind is not result.kind:
            raise GraphError(f"'{value.id}' is of kind {value.kind}, {op.op} gives {result.kind}", node=name)
