"""Whether everything that runs while values are held in L1 still does.

All routines expect the plan with the change under test made. They ask about every op of a stretch of the schedule, in a
chain or not, whether the OpModel accepts it with the layouts that its operands have now, and return the first refusal.
Whether all of them fit L1 beside what is held is the outcome of the run of the program (`fits_the_allocator`).
"""

from __future__ import annotations

from optimizer.l1.rules import CHOICE_ROOM
from optimizer.l1.run import Overflow
from optimizer.sharding.chains.l1_chain import L1Chain
from optimizer.sharding.merging.plan_state import PlanState
from optimizer.sharding.refusals import Cause, Refusal

SHOWN_VALUES = 3


def validate_schedule_range_with_reservation(state: PlanState, start: int, end: int) -> Refusal | None:
    """Every op at the positions start .. end, both included."""
    for position in range(start, end + 1):
        refusal = _validate_op(state, position)
        if refusal is not None:
            return refusal
    return None


def validate_chain_b_with_merged_input(state: PlanState, source: int, chain: L1Chain, join: int) -> Refusal | None:
    """The ops between the source at position `source` and the chain that reads it, then the chain up to the join."""
    first = state.position[chain.ops[0]]
    refusal = validate_schedule_range_with_reservation(state, source + 1, min(first, join) - 1)
    return refusal or validate_schedule_range_with_reservation(state, first, join)


def validate_chain_with_predecessor_in_l1(state: PlanState, chain: L1Chain) -> Refusal | None:
    """All ops of a chain that runs while the result of an earlier one is held (the second source of a 3-way merge)."""
    return validate_schedule_range_with_reservation(state, state.position[chain.ops[0]], state.position[chain.ops[-1]])


def validate_three_way_merge_join_op(state: PlanState, join: str) -> Refusal | None:
    """The op that reads both results, with both in the layouts they have in L1."""
    return _validate_op(state, state.position[join])


def fits_the_allocator(overflow: Overflow | None) -> Refusal | None:
    """What is wrong where the program overflows L1: too many bytes, or holes between tensors that fit by their sum."""
    if overflow is None:
        return None
    beside = f" beside {overflow.held_bytes} B held by {_shown(overflow.residents)}" if overflow.residents else ""
    if not overflow.adds_up:
        message = f"needs {overflow.needs_bytes} B of L1{beside}, the limit is {overflow.limit_bytes} B"
    elif overflow.rule is CHOICE_ROOM:
        message = f"TTNN would choose another program, as {overflow.excess_bytes} B less are free than it needs{beside}"
    else:
        message = (
            "the bytes add up, but with the holes between them tensors and circular buffers clash by "
            f"{overflow.excess_bytes} B{beside}"
        )
    return Refusal(overflow.op_id, message, Cause.L1)


def _validate_op(state: PlanState, position: int) -> Refusal | None:
    refusal = state.refusal(position)
    return None if refusal is None else Refusal(state.schedule[position], refusal, Cause.LAYOUT)


def _shown(values: tuple[str, ...]) -> str:
    more = f" and {len(values) - SHOWN_VALUES} more" if len(values) > SHOWN_VALUES else ""
    return ", ".join(f"'{v}'" for v in values[:SHOWN_VALUES]) + more
