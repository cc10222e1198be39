"""A finished graph.json as the policy's problem again.

The document is all that is needed: without its copies it is the graph that was laid out, and it carries board, options
and the decisions.
"""

from __future__ import annotations

from pathlib import Path

from optimizer.errors import VerificationError
from optimizer.export.annotated_json import FILE_NAME
from optimizer.ir.graph import Op
from optimizer.layouts.legal_op_configs import OpCandidate
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create
from optimizer.pipeline import Clock, prepare
from optimizer.result import OptimizedGraph, Role
from optimizer.sharding.base import OpDecision, PolicyInput
from optimizer.sharding.dram import dram_decision
from optimizer.verify import verify


def own_model(result: OptimizedGraph) -> CachedOpModel:
    """The OpModel that a result was made with."""
    return CachedOpModel(create(result.options.opmodel, result.device, result.options.l1_small_bytes))


def rebuilt(source: Path | bytes, result: OptimizedGraph, clock: Clock) -> PolicyInput:
    """The policy's problem as it was. TtoptError where the document does not verify or cannot be read as a model."""
    opmodel = own_model(result)
    report = verify(result, opmodel)
    if not report.ok:
        raise VerificationError(report.errors[0][1], node=report.errors[0][0])
    return prepare(_document(source), opmodel, result.options, clock)


def _document(source: Path | bytes) -> bytes:
    if isinstance(source, bytes):
        return source
    return (source / FILE_NAME if source.is_dir() else source).read_bytes()


def planned(problem: PolicyInput, result: OptimizedGraph) -> tuple[tuple[str, ...], dict[str, OpDecision]]:
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
