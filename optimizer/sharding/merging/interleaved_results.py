"""Results that no chain keeps sharded may still stay in L1, interleaved, for however many readers come later.

tt-mlir's `L1InterleavedFallbackAnalysis` does this between neighbours in the schedule only, and does not look at time.
"""

from __future__ import annotations

from functools import partial

from optimizer.sharding.chains.chain_plan import ChainPlan
from optimizer.sharding.merging.window_validation import validate_schedule_range_with_reservation


def keep_interleaved_results(plan: ChainPlan) -> None:
    """Keep results that are in DRAM, or written there, where that fits and is faster."""
    state = plan.state
    for op_id in state.schedule:
        decision = plan.in_l1_interleaved(op_id)
        read = [r for v in state.op(op_id).outputs for r in state.readers(v)]
        if decision is None or not read or not _goes_to_dram(plan, op_id):
            continue
        start, end = state.position[op_id], max(state.position[r] for r in read)
        check = partial(validate_schedule_range_with_reservation, state, start, end)
        for dram_too in (False, True):
            if plan.trials.keep("interleaved", {op_id: decision}, check, dram_too).taken:
                break


def _goes_to_dram(plan: ChainPlan, op_id: str) -> bool:
    outputs = plan.state.op(op_id).outputs
    return any(plan.state.layout(v).is_dram or plan.state.is_spilled(v) for v in outputs)
