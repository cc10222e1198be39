"""A whole graph in float64, op by op with the references: what a program should give for these inputs and weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from optimizer.errors import ExecutionError
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op, Value, ValueKind
from optimizer.ir.vocabulary import opdef
from optimizer.kernels.tensix.rounding import round_bf16
from optimizer.values.reference import computed
from optimizer.values.reference.kinds import Array

Seen = Callable[[Op, list[Array]], None]
Evaluate = Callable[[Op, list[Array]], list[Array]]
"""An op and its operands -> its results, as their tensors hold them."""
Held = Callable[[Value, Array], Array]
"""What a tensor that is given holds of an array."""


def graph_values(
    graph: Graph, given: Mapping[str, Array], seen: Seen | None = None, *, rounding: bool = False
) -> list[Array]:
    """The outputs. `given` holds inputs and parameters by id; `seen` is told every op's results.

    With `rounding` every tensor in bf16 is rounded to it; else all keep the digits of float64.

    ExecutionError when an array is missing, has another shape, or an op has no reference. Values are forgotten after
    their last reader.
    """

    def kept(value: Value, array: Array) -> Array:
        if rounding and value.dtype is DType.BF16:
            return round_bf16(array).astype(np.float64)
        return _typed(value, array)

    def held(value: Value, array: Array) -> Array:
        return kept(value, _typed(value, array))

    def told(op: Op, operands: list[Array]) -> list[Array]:
        return [kept(graph.value(v), r) for v, r in zip(op.outputs, results_of(graph, op, operands), strict=True)]

    return run_graph(graph, given, told, held, seen)


def run_graph(
    graph: Graph, given: Mapping[str, Array], evaluate: Evaluate, held: Held, seen: Seen | None
) -> list[Array]:
    """The outputs: ops in order by `evaluate`, inputs, parameters and constants as `held` makes them.

    Errors as of `graph_values`; values are forgotten after their last reader.
    """
    store: dict[str, Array] = {}
    ops = list(graph.ops())
    last = {v: index for index, op in enumerate(ops) for v in op.inputs} | dict.fromkeys(graph.outputs, len(ops))

    def read(value_id: str) -> Array:
        value = graph.value(value_id)
        return store[value_id] if value_id in store else held(value, _source(value, given))

    for index, op in enumerate(ops):
        results = evaluate(op, [read(v) for v in op.inputs])
        if [r.shape for r in results] != [graph.value(v).shape for v in op.outputs]:
            raise ExecutionError(f"{op.op} gives other shapes here than the graph states", node=op.id)
        store.update(zip(op.outputs, results, strict=True))
        if seen is not None:
            seen(op, results)
        for v in op.inputs:
            if last[v] == index:
                store.pop(v, None)
    return [read(v) for v in graph.outputs]


def results_of(graph: Graph, op: Op, operands: Sequence[Array], digits: str = "float64") -> list[Array]:
    """What one op gives. ExecutionError when it has no reference, or that gives other shapes."""
    with np.errstate(all="ignore"):
        results = [r.value for r in computed(op.op, opdef(op.op).full_attrs(op), operands, digits)]
    if [r.shape for r in results] != [graph.value(v).shape for v in op.outputs]:
        raise ExecutionError(f"the reference of {op.op} gives other shapes than the graph states", node=op.id)
    return results


def source_array(value: Value, given: Mapping[str, Array], digits: str = "float64") -> Array:
    """An input, weight or constant, floats in numbers of so many digits, integers in int64.

    ExecutionError where it is missing or misshaped.
    """
    return _typed(value, _source(value, given), digits)


def _source(value: Value, given: Mapping[str, Array]) -> Array:
    if value.kind is ValueKind.CONSTANT and value.data is not None:
        return np.asarray(value.data).reshape(value.shape)
    if value.id not in given:
        raise ExecutionError(f"no array is given for '{value.id}'", node=value.id)
    array = np.asarray(given[value.id])
    if array.size != np.prod(value.shape, dtype=np.int64):
        raise ExecutionError(f"'{value.id}' has shape {list(value.shape)}, not {list(array.shape)}", node=value.id)
    return array.reshape(value.shape)


def _typed(value: Value, array: Array, digits: str = "float64") -> Array:
    return array.astype(digits if value.dtype.is_float else "int64", copy=False)
