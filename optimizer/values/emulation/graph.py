"""A whole graph as a device computes it: every op, and every tensor in its element type."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optimizer.ir.graph import Graph, Op, Value
from optimizer.layouts.op_config import OpConfig
from optimizer.opmodel.pricing import query_attributes
from optimizer.result import OptimizedGraph
from optimizer.values.emulation.emulated import computed
from optimizer.values.emulation.kinds import AnyArray, Step
from optimizer.values.emulation.units import converted
from optimizer.values.graph_values import Seen, run_graph


def emulated_values(
    graph: Graph, configs: Mapping[str, OpConfig | None], given: Mapping[str, AnyArray], seen: Seen | None = None
) -> list[AnyArray]:
    """The outputs. `given` holds inputs and parameters by id, `configs` op configs by op; `seen` is told every op's
    results. Values have the element types that the graph states, ops run as their calls state it.

    ExecutionError when an array is missing, has another shape, or an op has no emulation.
    """

    def evaluate(op: Op, operands: list[AnyArray]) -> list[AnyArray]:
        return computed(_step(graph, op, configs.get(op.id)), operands)

    return run_graph(graph, given, evaluate, _held, seen)


def emulated_result(result: OptimizedGraph, given: Mapping[str, AnyArray], seen: Seen | None = None) -> list[AnyArray]:
    """The outputs of a result's program."""
    return emulated_values(result.graph, {op: r.config for op, r in result.records.items()}, given, seen)


def _step(graph: Graph, op: Op, config: OpConfig | None) -> Step:
    operands = tuple(graph.value(v).dtype for v in op.inputs)
    results = tuple(graph.value(v).dtype for v in op.outputs)
    return Step(op.op, dict(query_attributes(graph, op, config)), operands, results, config)


def _held(value: Value, array: AnyArray) -> AnyArray:
    return converted(array, value.dtype) if value.dtype.is_float else array.astype(np.int64, copy=False)
