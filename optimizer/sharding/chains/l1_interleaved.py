"""L1 interleaved fallback: results that no chain keeps may still skip DRAM.

A value written to DRAM by an op outside the chains, read once, and read by the very next scheduled op, is kept L1
interleaved instead when both ops accept that, everything fits, and the OpModel predicts a gain (tt-mlir
`L1InterleavedFallbackAnalysis`, which does not look at time).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from optimizer.layouts.memory_config import BufferType, interleaved
from optimizer.sharding.base import OpDecision
from optimizer.sharding.chains.l1_chain import L1Chain
from optimizer.sharding.merging.plan_state import PlanState


def keep_interleaved(state: PlanState, chains: Sequence[L1Chain]) -> bool:
    """Move what pays from DRAM to L1 interleaved; False if the run was to end before all values were looked at."""
    inside = {op_id for chain in chains for op_id in chain.ops[1:]}
    for producer_id, reader_id in pairwise(state.schedule):
        if state.problem.time_is_up():
            return False
        if reader_id not in inside:
            _upgrade(state, producer_id, reader_id)
    return True


def _upgrade(state: PlanState, producer_id: str, reader_id: str) -> None:
    before, reader = state.decisions[producer_id], state.decisions[reader_id]
    outputs = state.op(producer_id).outputs
    if before.chain is not None or len(outputs) != 1 or not before.candidate.output.is_dram:
        return
    if state.graph.use_count(outputs[0]) != 1 or state.readers(outputs[0]) != (reader_id,):
        return
    k = state.op(reader_id).inputs.index(outputs[0])
    if reader.operands[k] != before.candidate.output:
        return
    wanted = interleaved(BufferType.L1, before.candidate.output.page_layout)
    read = replace(reader, operands=(*reader.operands[:k], wanted, *reader.operands[k + 1 :]))
    reason = {"chosen": "L1 interleaved: the only reader comes next", "because": before.reason.get("because")}
    for candidate in state.problem.legal[producer_id].l1_interleaved:
        changes = {producer_id: replace(before, candidate=candidate, reason=reason), reader_id: read}
        if candidate.output == wanted and _take(state, changes):
            return


def _take(state: PlanState, changes: dict[str, OpDecision]) -> bool:
    """Whether both ops accept the layouts, and the plan fits and gains."""
    for op_id, decision in changes.items():
        op, candidate = state.op(op_id), decision.candidate
        if state.pricer.produced(op, decision.operands, candidate.config, candidate.request) != candidate.output:
            return False
    applied = state.apply(changes)
    if applied.saved_ns > 0 and applied.overflow is None:
        return True
    state.undo(applied)
    return False
