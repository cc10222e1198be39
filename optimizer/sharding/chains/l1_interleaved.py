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


class L1InterleavedFallback:
    """Upgrades the decisions of a plan."""

    def __init__(self, state: PlanState, chains: Sequence[L1Chain]) -> None:
        self._state = state
        self.cut_off = False
        """Whether the run was to end before all values were looked at."""
        self._inside = {op_id for chain in chains for op_id in chain.ops[1:]}

    def apply(self) -> int:
        """Number of values moved from DRAM to L1 interleaved; as far as it got once the run has to end."""
        moved = 0
        for producer_id, reader_id in pairwise(self._state.schedule):
            if self._state.problem.time_is_up():
                self.cut_off = True
                break
            moved += self._upgrade(producer_id, reader_id)
        return moved

    def _upgrade(self, producer_id: str, reader_id: str) -> bool:
        state = self._state
        before, reader = state.decisions[producer_id], state.decisions[reader_id]
        outputs = state.op(producer_id).outputs
        if before.chain is not None or len(outputs) != 1 or not before.candidate.output.is_dram:
            return False
        if state.graph.use_count(outputs[0]) != 1 or state.readers(outputs[0]) != (reader_id,):
            return False
        k = state.op(reader_id).inputs.index(outputs[0])
        if reader.operands[k] != before.candidate.output or reader_id in self._inside:
            return False
        wanted = interleaved(BufferType.L1, before.candidate.output.page_layout)
        read = replace(reader, operands=(*reader.operands[:k], wanted, *reader.operands[k + 1 :]))
        reason = {"chosen": "L1 interleaved: the only reader comes next", "because": before.reason.get("because")}
        return any(
            self._take({producer_id: replace(before, candidate=candidate, reason=reason), reader_id: read})
            for candidate in state.problem.legal[producer_id].l1_interleaved
            if candidate.output == wanted
        )

    def _take(self, changes: dict[str, OpDecision]) -> bool:
        """Whether both ops accept the layouts, and the plan fits and gains."""
        for op_id, decision in changes.items():
            op, candidate = self._state.op(op_id), decision.candidate
            produced = self._state.pricer.produced(op, decision.operands, candidate.config, candidate.request)
            if produced != candidate.output:
                return False
        applied = self._state.apply(changes)
        if applied.saved_ns > 0 and applied.overflow is None:
            return True
        self._state.undo(applied)
        return False
