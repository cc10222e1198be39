"""Stages of a body: its parts from one acquire of DST to the release, and how a body is cut into them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from optimizer.kernels.tensix.dst.cost import COPY, PACK, InitKey, load_cycles, op_cycles
from optimizer.kernels.tensix.dst.dag import TileDag, sub_dag, usable_forms
from optimizer.kernels.tensix.dst.live_sets import Step, form_of
from optimizer.kernels.tensix.dst.schedule import (
    STATE_LIMIT,
    Schedule,
    best_order,
    order_as_given,
    peak_of,
    pressure_aware_order,
    scheduled,
    with_kept_inputs,
)
from optimizer.kernels.tensix.dst.search import LABELS, undominated_orders
from optimizer.kernels.tensix.dst.slots import SlotPlan, plan_slots

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
    def cycles(self) -> int:
        """Of one tile, without sections and inits."""
        work = sum(op_cycles(self.dag.node(step.value).op, form_of(self.dag, step).unit) for step in self.order)
        loads = (i for i in self.slots.instructions if i.op == "copy" and i.value < self.dag.inputs)
        work += sum(load_cycles(self.dag.dtype_of(i.value)) for i in loads)
        return work + COPY * self.slots.copies + PACK * len(self.yields)

    @property
    def inits(self) -> tuple[InitKey, ...]:
        """The init of each of its instructions."""
        return tuple(i.init for i in self.slots.instructions)


def whole(dag: TileDag, order: tuple[Step, ...]) -> Stage:
    """The whole body as one stage."""
    return Stage(dag, order, plan_slots(dag, order), tuple(range(dag.inputs)), tuple(dict.fromkeys(dag.yields)))


def orders(
    dag: TileDag, capacity: int, states: int = STATE_LIMIT, schedule: Schedule = "search"
) -> Iterator[tuple[Step, ...]]:
    """Orders worth comparing: in small bodies all that may be the cheapest, in larger ones the best one found with all
    forms, without accumulating ones, and list scheduling's, each with inputs loaded again or kept. Of a schedule that
    is no search, its order."""
    labels = min(LABELS, states)
    exact = undominated_orders(dag, labels=labels) if schedule == "search" else None
    if exact is not None:
        yield from exact
        plain = _plain_forms(dag)
        if plain is not None:
            yield from undominated_orders(dag, plain, labels) or ()
        return
    found = [best_order(dag, states) if schedule == "search" else scheduled(dag, schedule)]
    if schedule == "search" and len(dag.nodes) <= ALL_ORDERS:
        plain_order = without_accumulating(dag, states)
        found += [*([] if plain_order is None else [plain_order]), pressure_aware_order(dag)]
    for order in dict.fromkeys(found):
        peak = peak_of(dag, order)
        yield from dict.fromkeys((order, *(with_kept_inputs(dag, order, s) for s in {peak, max(peak, capacity // 2)})))


def _plain_forms(dag: TileDag) -> frozenset[tuple[int, int]] | None:
    """Forms that need no clear slot; None if there are no others, or some op has no such form."""
    if not any(form.accumulates for node in dag.nodes for form in node.definition.forms):
        return None
    allowed = {
        (v, i) for v in dag.values for i, form in enumerate(dag.node(v).definition.forms) if not form.accumulates
    }
    if any(not any((v, i) in allowed for i in usable_forms(dag, v)) for v in dag.values):
        return None
    return frozenset(allowed)


def without_accumulating(dag: TileDag, states: int = STATE_LIMIT) -> tuple[Step, ...] | None:
    """The best order whose ops need no clear slot; None if some op has no other form."""
    allowed = _plain_forms(dag)
    return None if allowed is None else best_order(dag, states, allowed)


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
    """The stage in its best order: fewest slots, then least work."""
    found = [stage]
    for order in orders(stage.dag, capacity, states):
        slots = plan_slots(stage.dag, order)
        if slots.width <= capacity:
            found.append(Stage(stage.dag, order, slots, stage.inputs, stage.yields))
    return min(found, key=lambda s: (s.slots.width, s.cycles))
