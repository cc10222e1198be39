"""`ttopt explain`: one op of a finished graph.json with what its alternatives would have cost.

The document is all that is needed: without its copies it is the graph that was laid out, and it carries board, options
and the decisions. Around the op it is solved again (`sharding.runner_up`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optimizer.errors import TtoptError, VerificationError
from optimizer.export.annotated_json import FILE_NAME
from optimizer.export.reader import read_result
from optimizer.ir.graph import Op
from optimizer.layouts.legal_op_configs import OpCandidate
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create
from optimizer.pipeline import Clock, Progress, prepare
from optimizer.pipeline.stages import NAMES
from optimizer.result import COPIES, OptimizedGraph, Role
from optimizer.sharding.base import OpDecision, PolicyInput
from optimizer.sharding.dram import dram_decision
from optimizer.sharding.runner_up import RunnerUp
from optimizer.verify import verify

MOVES = (*COPIES, Role.TRANSFER)


def choices(path: Path, op_id: str, progress: Progress | None = None) -> dict[str, Any]:
    """The record of `RunnerUp` for an op, or `{note}` where there is nothing to choose or to solve again."""
    clock = Clock(NAMES, progress)
    try:
        result = read_result(path)
        role = result.records[op_id].role
        if role in MOVES:
            return {"note": f"a {role.value} has none of its own; ask about the op it is made for"}
        if role is Role.HOST:
            return {"note": "the op runs on the host: there is nothing to lay out"}
        problem = _rebuilt(path, result, clock)
    except TtoptError as error:
        return {"note": f"this document cannot be solved again: {error}"}
    if op_id not in {op.id for op in problem.graph.run_ops()}:
        return {"note": "a conversion that the layouts of its neighbours make necessary has none"}
    with clock.stage("policy"):
        schedule, decisions = _planned(problem, result)
        return RunnerUp(problem, schedule, decisions, op_id).record()


def _rebuilt(path: Path, result: OptimizedGraph, clock: Clock) -> PolicyInput:
    """The policy's problem as it was, from the document without its copies."""
    options = result.options
    source = path / FILE_NAME if path.is_dir() else path
    opmodel = CachedOpModel(create(options.opmodel, result.device, options.l1_small_bytes))
    report = verify(result, opmodel)
    if not report.ok:
        raise VerificationError(report.errors[0][1], node=report.errors[0][0])
    return prepare(source.read_bytes(), opmodel, options, clock)


def _planned(problem: PolicyInput, result: OptimizedGraph) -> tuple[tuple[str, ...], dict[str, OpDecision]]:
    """Schedule and decisions of the document; what it does not have stays in DRAM."""
    run = {op.id: op for op in problem.graph.run_ops()}
    order = {op.id: n for n, op in enumerate(result.graph.ops())}
    schedule = tuple(sorted(run, key=lambda op_id: order.get(op_id, -1)))
    return schedule, {op_id: _decision(problem, result, run[op_id]) for op_id in schedule}


def _decision(problem: PolicyInput, result: OptimizedGraph, op: Op) -> OpDecision:
    record = result.records.get(op.id)
    if record is None or record.role is Role.HOST:
        return dram_decision(problem, op, "not in the document")
    placed = result.graph.op(op.id)
    candidate = OpCandidate(result.layouts[placed.outputs[0]], record.config, record.request)
    return OpDecision(candidate, tuple(result.layouts[v] for v in placed.inputs))
