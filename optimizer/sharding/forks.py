"""Fork optimisation: a chain's result with several readers stays in L1, sharded, else interleaved, else it is spilled.

Tried in this order (the design's section 4.1.4): as the chain leaves it, with every reader taking it from L1; L1
interleaved, likewise; then both again with some readers served from a copy in DRAM.
"""

from __future__ import annotations

from functools import partial

from optimizer.sharding.chain_plan import ChainPlan
from optimizer.sharding.window_validation import validate_schedule_range_with_reservation


def apply_l1_reservations_for_fork_ops(plan: ChainPlan) -> None:
    """Keep what forks, where that fits and is faster."""
    for chain in plan.resolved:
        value = plan.spilled_result(chain)
        if value is not None and len(plan.state.readers(value)) > 1:
            keep_fork(plan, chain.ops[-1], value)


def keep_fork(plan: ChainPlan, op_id: str, value: str) -> bool:
    """Whether the result of an op could be kept for its readers, in whichever way comes first."""
    state = plan.state
    start, end = state.position[op_id], state.position[state.readers(value)[-1]]
    check = partial(validate_schedule_range_with_reservation, state, start, end)
    interleaved = plan.in_l1_interleaved(op_id)
    for dram_too in (False, True):
        for decision in (plan.as_decided(op_id), interleaved):
            if decision is not None and plan.trials.keep("fork", {op_id: decision}, check, dram_too).taken:
                return True
    return False
