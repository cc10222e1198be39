"""Results that no chain keeps sharded may still stay in L1, interleaved, for however many readers come later.

tt-mlir's `L1InterleavedFallbackAnalysis` does this between neighbours in the schedule only, and does not look at time.
"""

from __future__ import annotations

from optimizer.sharding.chains.chain_plan import ChainPlan
from optimizer.sharding.merging.window_validation import stretch


def keep_interleaved_results(plan: ChainPlan) -> None:
    """Keep results that are in DRAM, or written there, where that fits and is faster."""
    state = plan.state
    for op_id in state.schedule:
        decision = plan.in_l1_interleaved(op_id)
        read = [r for v in state.op(op_id).outputs for r in state.readers(v)]
        if decision is None or not read or not _goes_to_dram(plan, op_id):
            continue
        window = stretch(state, op_id, max(read, key=lambda r: state.position[r]))
        any(plan.trials.keep("interleaved", {op_id: decision}, window, dram_too).taken for dram_too in (False, True))


def _goes_to_dram(plan: ChainPlan, op_id: str) -> bool:
    outputs = plan.state.op(op_id).outputs
    return any(plan.state.layout(v).is_dram or plan.state.is_spilled(v) for v in outputs)
