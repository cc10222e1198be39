"""What a plan keeps in L1, said of the written program."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.ir.vocabulary import CAST, COPY
from optimizer.result import Reservation, Role
from optimizer.sharding.base import Plan
from optimizer.transform.apply import AppliedPlan


def placed_reservations(plan: Plan, applied: AppliedPlan) -> tuple[Reservation, ...]:
    """The plan's reservations with values and positions of the written program, copies counted.

    What an op on the host gives comes back to DRAM, so that nothing is reserved for it.
    """
    position = {op.id: n for n, op in enumerate(applied.graph.ops())}
    at = [position[op_id] for op_id in plan.schedule]
    placed: dict[str, Reservation] = {}
    for r in plan.reservations:
        forms = [v for v in _in_l1(applied, r.value) if v not in placed]
        if forms:
            placed[forms[0]] = Reservation(forms[0], at[r.start], at[r.end], r.bytes)
    return tuple(placed.values())


def _in_l1(applied: AppliedPlan, value: str) -> Iterator[str]:
    """What holds a value in L1: itself, what a graph output is spilled from, or a weight's further forms there,
    maybe in another element type."""
    if applied.layouts[value].is_l1:
        yield value
    maker = applied.graph.producer(value)
    if maker is not None and applied.records[maker.id].role is Role.SPILL:
        yield maker.inputs[0]
    for op in applied.graph.consumers(value):
        if applied.records[op.id].role is Role.HOST:
            if op.op == COPY and applied.layouts[op.outputs[0]].is_l1:
                yield op.outputs[0]
            elif op.op == CAST:
                yield from _in_l1(applied, op.outputs[0])
