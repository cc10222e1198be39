"""Whether everything that runs while values are held in L1 still does.

With the change under test made, every op of a window of the schedule, in a chain or not, is asked about with the
layouts that its operands have now. Whether all of them fit L1 beside what is held is the outcome of the run of the
program (`fits_the_allocator`).
"""

from __future__ import annotations

from collections.abc import Iterable

from optimizer.l1.rules import CHOICE_ROOM
from optimizer.l1.run import Overflow
from optimizer.sharding.merging.plan_state import PlanState
from optimizer.sharding.refusals import Cause, Refusal

SHOWN_VALUES = 3


def stretch(state: PlanState, first: str, last: str) -> range:
    """Positions in the schedule from one op to another, both included."""
    return range(state.position[first], state.position[last] + 1)


def first_refusal(state: PlanState, positions: Iterable[int]) -> Refusal | None:
    """Of the ops at these positions, in this order, the first that the OpModel refuses as it is now."""
    for position in positions:
        refusal = state.refusal(position)
        if refusal is not None:
            return Refusal(state.schedule[position], refusal, Cause.LAYOUT)
    return None


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


def _shown(values: tuple[str, ...]) -> str:
    more = f" and {len(values) - SHOWN_VALUES} more" if len(values) > SHOWN_VALUES else ""
    return ", ".join(f"'{v}'" for v in values[:SHOWN_VALUES]) + more
