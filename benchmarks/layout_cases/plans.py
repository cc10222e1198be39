"""The questions of finished plans: every distinct op with the layouts and the config that a plan chose for it."""

from __future__ import annotations

from pathlib import Path

from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.pricing import op_query
from optimizer.options import Options
from optimizer.pipeline import optimize_file
from optimizer.result import OptimizedGraph, Role

_NOTHING_RUNS = (Role.HOST, Role.TRANSFER)


def plan_queries(result: OptimizedGraph) -> list[OpQuery]:
    """In schedule order; ops on weights only are left out."""
    found: dict[OpQuery, None] = {}
    for op in result.graph.run_ops():
        record = result.records[op.id]
        if record.role not in _NOTHING_RUNS:
            operands = [result.layouts[v] for v in op.inputs]
            found[op_query(result.graph, op, operands, record.config, record.request)] = None
    return list(found)


def model_queries(model: Path, board: str, policy: str) -> list[OpQuery]:
    return plan_queries(optimize_file(model, Options(board=board, policy=policy)))
