"""`ttopt check --values --whole`: a result's whole program with random weights, against its own graph in float64.

No model's file is needed: the graph is computed op by op by the references that judge single queries
(`optimizer.values.reference`), from the same weights and inputs.
"""

from __future__ import annotations

from typing import Any

from optimizer.execution.arrays import inputs_of
from optimizer.execution.comparing import Bounds, bounds_of
from optimizer.execution.running import Report, RunOptions, refuse_host_ops, run_result
from optimizer.export.ttnn_py import ttnn_program
from optimizer.result import OptimizedGraph
from optimizer.values.compare import compare
from optimizer.values.given import Joined
from optimizer.values.graph_values import graph_values
from optimizer.values.random_arrays import random_weights

MOST_GAIN = 0.02
"""How far the ratio of an output to its reference may be from 1."""


def check_whole(
    result: OptimizedGraph, source: str, seed: int, bounds: Bounds | None = None, report: Report | None = None
) -> dict[str, Any]:
    """What `ttopt run` records of a run with random weights and inputs; `ok` also wants every ratio within 2 %.

    `rounding_alone` of an output is what rounding every result to its element type does to it, in arithmetic that is
    exact otherwise: errors beyond that are the device's own.

    Raises ExecutionError where an op has no reference, and what `run_result` raises.
    """
    options = RunOptions(source, seed, bounds=bounds or bounds_of(result))
    refuse_host_ops(result, options)
    weights = random_weights(result.graph, seed)
    inputs = inputs_of(ttnn_program(result).inputs, None, seed)
    names, given = result.output_names, Joined(weights, inputs)
    wanted, rounded = (
        dict(zip(names, graph_values(result.graph, given, rounding=rounding), strict=True))
        for rounding in (False, True)
    )
    record = run_result(result, weights, inputs, options, expected=wanted, report=report).record
    for output in record["outputs"]:
        output["rounding_alone"] = compare(rounded[output["name"]], wanted[output["name"]]).record()
        if result.options.least_pcc is None:  # a budget is for the correlation alone
            output["ok"] = output["ok"] and abs(output["ratio"] - 1) <= MOST_GAIN
    return {**record, "inputs": f"random, seed {seed}", "ok": all(output["ok"] for output in record["outputs"])}
