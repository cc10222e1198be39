"""Whether everything that runs while values are held in L1 still fits.

All routines expect the plan with the reservations under test already in its timeline, and ask about every op of a
stretch of the schedule, in a chain or not: does the OpModel accept it with the layouts its operands have now, and do
its operands, its own peak and all that others hold stay within L1? They return the first refusal. A sum that fits may
still clash in the runtime's allocator, so the replay is asked as well (`fits_the_allocator`).
"""

from __future__ import annotations

from optimizer.sharding.l1_chain import L1Chain
from optimizer.sharding.plan_replay import Overflow
from optimizer.sharding.plan_state import PlanState
from optimizer.sharding.refusals import Cause, Refusal

SHOWN_VALUES = 3


def validate_schedule_range_with_reservation(state: PlanState, start: int, end: int) -> Refusal | None:
    """Every op at the positions start .. end, both included, beside all active reservations."""
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
    """What is wrong where the replay overflows: too many bytes, or holes between tensors that fit by their sum."""
    if overflow is None:
        return None
    beside = f" beside {_shown(overflow.residents)}" if overflow.residents else ""
    if overflow.fragmented:
        what = "the bytes add up, but with the holes between them tensors and circular buffers clash by"
    else:
        what = "tensors, copies and circular buffers exceed L1 by"
    return Refusal(overflow.op_id, f"{what} {overflow.excess_bytes} B{beside}", Cause.L1)


def _validate_op(state: PlanState, position: int) -> Refusal | None:
    op_id = state.schedule[position]
    op, decision = state.op(op_id), state.decisions[op_id]
    candidate, answer = decision.candidate, state.answer(position)
    if answer is None:
        return None
    if not answer.valid:
        return Refusal(op_id, answer.error or "is refused", Cause.LAYOUT)
    if answer.outputs[0].layout != candidate.output:
        given = answer.outputs[0].layout.describe()
        return Refusal(op_id, f"gives {given}, not {candidate.output.describe()}", Cause.LAYOUT)
    own = state.pricer.operand_bytes(op, decision.operands) + answer.peak_bytes
    held, limit = state.bystander_bytes(position), state.pricer.l1_limit_bytes
    if own + held <= limit:
        return None
    beside = _shown(state.bystanders(position))
    message = f"needs {own} B of L1 beside {held} B held by {beside}, the limit is {limit} B"
    return Refusal(op_id, message, Cause.L1)


def _shown(values: tuple[str, ...]) -> str:
    more = f" and {len(values) - SHOWN_VALUES} more" if len(values) > SHOWN_VALUES else ""
    return ", ".join(f"'{v}'" for v in values[:SHOWN_VALUES]) + more
