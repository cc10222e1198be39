"""Stages of a body: its parts from one acquire of DST to the release, and how a body is cut into them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from optimizer.kernels.tensix.dst.dag import TileDag, sub_dag
from optimizer.kernels.tensix.dst.schedule import (
    STATE_LIMIT,
    UNIT_COST,
    Step,
    best_order,
    form_of,
    order_as_given,
    peak_of,
    pressure_aware_order,
)
from optimizer.kernels.tensix.dst.slots import SlotPlan, plan_slots

PACK_COST = 4
"""Relative to `schedule.UNIT_COST`: a tile packed."""
ALL_CUTS = 32
"""Nodes of the largest body for which every cut along an order is compared."""
ALL_ORDERS = 64
"""Nodes of the largest body for which several orders are compared."""
STAGE_STATES = 2_000
"""Sets of executed nodes looked at to see whether a stage can be reordered to fit."""
FEW_STATES = 300
"""The same in bodies of more than `ALL_CUTS` nodes."""


@dataclass(frozen=True)
class Stage:
    """A part of the body that runs from one acquire to the release."""

    dag: TileDag
    order: tuple[Step, ...]
    slots: SlotPlan
    inputs: tuple[int, ...]
    """Values of the whole body that its inputs are."""
    yields: tuple[int, ...]
    """Values of the whole body that it packs."""

    @property
    def cost(self) -> int:
        """Of one tile, without sections and inits."""
        work = sum(UNIT_COST[form_of(self.dag, step).unit] for step in self.order)
        return work + 2 * self.slots.loads + 4 * self.slots.copies + PACK_COST * len(self.yields)

    @property
    def inits(self) -> int:
        """Different inits that its instructions need."""
        return len({(i.op, i.form) for i in self.slots.instructions})


def whole(dag: TileDag, order: tuple[Step, ...]) -> Stage:
    """The whole body as one stage."""
    return Stage(dag, order, plan_slots(dag, order), tuple(range(dag.inputs)), tuple(dict.fromkeys(dag.yields)))


def orders(dag: TileDag, states: int = STATE_LIMIT) -> Iterator[tuple[Step, ...]]:
    """Orders worth comparing: the best one with all forms, without accumulating ones, and list scheduling's."""
    found = [best_order(dag, states)]
    yield found[0]
    if len(dag.nodes) > ALL_ORDERS:
        return
    plain = without_accumulating(dag, states)
    for order in (pressure_aware_order(dag),) if plain is None else (plain, pressure_aware_order(dag)):
        if order not in found:
            found.append(order)
            yield order


def without_accumulating(dag: TileDag, states: int = STATE_LIMIT) -> tuple[Step, ...] | None:
    """The best order whose ops need no clear slot; None if some op has no other form."""
    if not any(form.accumulates for node in dag.nodes for form in node.definition.forms):
        return None
    allowed = {
        (v, i) for v in dag.values for i, form in enumerate(dag.node(v).definition.forms) if not form.accumulates
    }
    if any(not any((v, i) in allowed for i in range(len(dag.node(v).definition.forms))) for v in dag.values):
        return None
    return best_order(dag, states, frozenset(allowed))


# -- cuts -------------------------------------------------------------------------------------------------
def cut(dag: TileDag, order: Sequence[Step], capacity: int) -> tuple[Stage, ...] | None:
    """Stages along an order that fit the capacity, as few as found; None if some node alone does not fit.

    In small bodies the fewest stages, then the fewest values handed on, over all cuts (dynamic programming); in large
    ones each stage takes as much as fits.
    """
    values = [step.value for step in order]
    if len(values) <= ALL_CUTS:
        found, states = _all_cuts(dag, values, capacity), STATE_LIMIT
    else:
        found, states = _longest_stages(dag, values, capacity), FEW_STATES
    return None if found is None else tuple(_improved(stage, capacity, states) for stage in found)


def _all_cuts(dag: TileDag, values: Sequence[int], capacity: int) -> tuple[Stage, ...] | None:
    best: list[tuple[int, int, tuple[Stage, ...]] | None] = [(0, 0, ())] + [None] * len(values)
    for end in range(1, len(values) + 1):
        for begin in range(end - 1, -1, -1):
            before = best[begin]
            if before is None:
                continue
            stage = stage_of(dag, values[begin:end], capacity)
            if stage is None:
                break
            total = before[0] + 1, before[1] + len(stage.yields), (*before[2], stage)
            held = best[end]
            if held is None or total[:2] < held[:2]:
                best[end] = total
    last = best[-1]
    return None if last is None else last[2]


def _longest_stages(dag: TileDag, values: Sequence[int], capacity: int) -> tuple[Stage, ...] | None:
    found: list[Stage] = []
    begin = 0
    while begin < len(values):
        stage = _longest_stage(dag, values[begin:], capacity)
        if stage is None:
            return None
        found.append(stage)
        begin += len(stage.order)
    return tuple(found)


def _longest_stage(dag: TileDag, values: Sequence[int], capacity: int) -> Stage | None:
    """As many of the next values as fit: doubled until they do not, then by halves. None if not even one does."""
    longest = stage_of(dag, values[:1], capacity, FEW_STATES)
    if longest is None:
        return None
    fits, step, growing = 1, 1, True
    while step:
        end = fits + step
        stage = stage_of(dag, values[:end], capacity, FEW_STATES) if end <= len(values) else None
        if stage is not None:
            longest, fits = stage, end
        growing = growing and stage is not None
        step = 2 * step if growing else step // 2
    return longest


def stage_of(dag: TileDag, members: Sequence[int], capacity: int, states: int = STAGE_STATES) -> Stage | None:
    """Some nodes as a stage of their own, in this order or another; None if that does not fit."""
    part, inputs, yields = sub_dag(dag, members)
    order = order_as_given(part)
    if peak_of(part, order) > capacity:
        order = best_order(part, states)
        if peak_of(part, order) > capacity:
            return None
    slots = plan_slots(part, order)
    if slots.width > capacity:
        plain = without_accumulating(part, states)
        if plain is None:
            return None
        order, slots = plain, plan_slots(part, plain)
    return Stage(part, order, slots, inputs, yields) if slots.width <= capacity else None


def _improved(stage: Stage, capacity: int, states: int) -> Stage:
    """The stage in its cheapest order: fewest slots, then least work."""
    found = [stage]
    for order in orders(stage.dag, states):
        slots = plan_slots(stage.dag, order)
        if slots.width <= capacity:
            found.append(Stage(stage.dag, order, slots, stage.inputs, stage.yields))
    return min(found, key=lambda s: (s.slots.width, s.cost))
