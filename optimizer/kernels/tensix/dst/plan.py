"""The plan of one body over a block of tiles: sections, and where one section cannot hold even a tile, stages.

In order of cost, a body that needs more slots than there are is: reordered (`schedule`), partly computed again where
its operands still lie in circular buffers, or split into stages that hand values on through circular buffers in L1. DST
itself cannot be spilled within a section: `pack_tile` is only allowed after the commit, and the next acquire clears it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from optimizer.errors import InfeasibleError, StateError
from optimizer.kernels.tensix.dst.dag import TileDag, TileNode, normalised, sub_dag
from optimizer.kernels.tensix.dst.schedule import (
    UNIT_COST,
    LiveSets,
    Step,
    best_order,
    form_of,
    pressure_aware_order,
)
from optimizer.kernels.tensix.dst.slots import Scheme, SlotPlan, plan_slots

SECTION_COST, PACK_COST, INIT_COST = 6, 4, 2
"""Relative to `schedule.UNIT_COST`: acquire to release, a tile packed, an init."""


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


@dataclass(frozen=True)
class BodyPlan:
    """Stages of a body, and how many tiles each section takes."""

    dag: TileDag
    stages: tuple[Stage, ...]
    unroll: int
    """Tiles per section."""
    scheme: Scheme
    tiles: int
    recomputed: int = 0
    """Nodes that are computed again instead of kept."""

    @property
    def sections(self) -> int:
        """Acquire to release, over all tiles and stages."""
        return -(-self.tiles // self.unroll) * len(self.stages)

    @property
    def spilled(self) -> tuple[int, ...]:
        """Values handed from stage to stage through circular buffers."""
        later = {v for stage in self.stages for v in stage.inputs}
        return tuple(sorted({v for stage in self.stages for v in stage.yields if v in later}))

    @property
    def grouped(self) -> bool:
        """Op by op over the tiles of a section, so that each op's init comes once; else tile by tile."""
        return self.scheme is Scheme.GROUPED

    @property
    def max_dst(self) -> int:
        """Slots in use in the fullest section."""
        return max(s.slots.slots_used(self.scheme, min(self.unroll, self.tiles)) for s in self.stages)


def plan_body(dag: TileDag, tiles: int, capacity: int) -> BodyPlan:
    """The cheapest plan found: fewest sections, then least work.

    InfeasibleError if one op alone needs more slots than there are; it names the values and the capacity.
    """
    dag = normalised(dag)
    shared = share_copies(dag)
    variants = [dag] if shared is None else [dag, shared]
    whole = [_single(d, order, tiles, capacity) for d in variants for order in _orders(d)]
    found = [plan for plan in whole if plan is not None]
    if not found:
        again = recompute(dag)
        if again is not None:
            extra = len(again.nodes) - len(dag.nodes)
            plans = (_single(again, order, tiles, capacity, extra) for order in _orders(again))
            found = [plan for plan in plans if plan is not None]
        found += [_split(dag, order, tiles, capacity) for order in _orders(dag)[:1]]
    return min(found, key=_rank)


def _rank(plan: BodyPlan) -> tuple[int, int, int, int]:
    work = sum(stage.cost for stage in plan.stages) * plan.tiles
    inits = sum(len({(i.op, i.form) for i in s.slots.instructions}) for s in plan.stages)
    rounds = plan.sections // len(plan.stages) if plan.grouped else plan.tiles
    return plan.sections, plan.max_dst if plan.tiles == 1 else 0, work + INIT_COST * inits * rounds, len(plan.stages)


def _orders(dag: TileDag) -> list[tuple[Step, ...]]:
    """Orders worth comparing: the best one with all forms, without accumulating ones, and list scheduling's."""
    orders = [best_order(dag)]
    plain = without_accumulating(dag)
    if plain is not None:
        orders.append(plain)
    orders.append(pressure_aware_order(dag))
    return list(dict.fromkeys(orders))


def without_accumulating(dag: TileDag) -> tuple[Step, ...] | None:
    """The best order whose ops need no clear slot; None if some op has no other form."""
    if not any(form.accumulates for node in dag.nodes for form in node.definition.forms):
        return None
    allowed = {
        (v, i) for v in dag.values for i, form in enumerate(dag.node(v).definition.forms) if not form.accumulates
    }
    if any(not any((v, i) in allowed for i in range(len(dag.node(v).definition.forms))) for v in dag.values):
        return None
    return best_order(dag, allowed=frozenset(allowed))


def _single(dag: TileDag, order: tuple[Step, ...], tiles: int, capacity: int, recomputed: int = 0) -> BodyPlan | None:
    stage = Stage(dag, order, plan_slots(dag, order), tuple(range(dag.inputs)), tuple(dict.fromkeys(dag.yields)))
    return _sections(dag, (stage,), tiles, capacity, recomputed)


def _sections(
    dag: TileDag, stages: tuple[Stage, ...], tiles: int, capacity: int, recomputed: int = 0
) -> BodyPlan | None:
    """Grouped if that takes no more sections than going tile by tile; None if no tile fits."""
    unroll = {s: min(tiles, *(stage.slots.unroll(capacity, s) for stage in stages)) for s in Scheme}
    fitting = [s for s in (Scheme.GROUPED, Scheme.WINDOWS, Scheme.REGIONS) if unroll[s] >= 1]
    if not fitting:
        return None
    best = min(fitting, key=lambda s: -(-tiles // unroll[s]))
    return BodyPlan(dag, stages, unroll[best], best, tiles, recomputed)


def share_copies(dag: TileDag) -> TileDag | None:
    """The body with results that are inputs read by other nodes from DST too; None if there are none."""
    copies = {dag.node(v).args[0]: v for v in dag.values if dag.node(v).op == "copy"}
    if not any(len(dag.consumers(a)) > 1 for a in copies):
        return None
    order = [*copies.values(), *(v for v in dag.values if v not in copies.values())]
    numbers = {v: v for v in range(dag.inputs)} | {v: dag.inputs + n for n, v in enumerate(order)}
    nodes = []
    for v in order:
        node = dag.node(v)
        args = node.args if v in copies.values() else tuple(copies.get(a, a) for a in node.args)
        nodes.append(TileNode(node.op, tuple(numbers[a] for a in args), node.attrs))
    try:
        shared = TileDag(dag.inputs, tuple(nodes), tuple(numbers[v] for v in dag.yields), dag.dtype)
        LiveSets(shared)
    except StateError:
        return None  # some op reads the input from its circular buffer only
    return shared


# -- more values than slots -----------------------------------------------------------------------------
def recompute(dag: TileDag) -> TileDag | None:
    """The body with every node that reads only inputs and has several readers computed once per reader."""
    shared = {v for v in dag.values if len(dag.consumers(v)) > 1 and all(map(dag.is_input, dag.node(v).args))}
    if not shared:
        return None
    numbers: dict[int, int] = {v: v for v in range(dag.inputs)}
    nodes: list[TileNode] = []

    def add(node: TileNode) -> int:
        nodes.append(node)
        return dag.inputs + len(nodes) - 1

    for v in dag.values:
        node = dag.node(v)
        if v in shared and v not in dag.yields:
            continue
        args = {a: add(dag.node(a)) if a in shared else numbers[a] for a in dict.fromkeys(node.args)}
        numbers[v] = add(TileNode(node.op, tuple(args[a] for a in node.args), node.attrs))
    return TileDag(dag.inputs, tuple(nodes), tuple(numbers[v] for v in dag.yields), dag.dtype)


def _split(dag: TileDag, order: Sequence[Step], tiles: int, capacity: int) -> BodyPlan:
    """The fewest stages along an order, then the fewest values handed on (dynamic programming over the cuts)."""
    values = [step.value for step in order]
    best: list[tuple[int, int, tuple[Stage, ...]] | None] = [(0, 0, ())] + [None] * len(values)
    for end in range(1, len(values) + 1):
        for begin in range(end - 1, -1, -1):
            before = best[begin]
            if before is None:
                continue
            stage = _stage(dag, values[begin:end], capacity)
            if stage is None:
                break
            total = before[0] + 1, before[1] + len(stage.yields), (*before[2], stage)
            held = best[end]
            if held is None or total[:2] < held[:2]:
                best[end] = total
    last = best[-1]
    plan = None if last is None else _sections(dag, last[2], tiles, capacity)
    if plan is None:
        raise _too_large(dag, capacity)
    return plan


def _stage(dag: TileDag, members: Sequence[int], capacity: int) -> Stage | None:
    """Some nodes as a stage of their own, None if that does not fit."""
    part, inputs, yields = sub_dag(dag, sorted(members))
    for order in _orders(part):
        slots = plan_slots(part, order)
        if slots.width <= capacity:
            return Stage(part, order, slots, inputs, yields)
    return None


def _too_large(dag: TileDag, capacity: int) -> InfeasibleError:
    """Names the op that needs more slots than there are."""
    for v in dag.values:
        if _stage(dag, [v], capacity) is None:
            args = ", ".join(map(str, dag.node(v).args))
            message = f"value {v} = {dag.node(v).op}({args}) alone needs more than the {capacity} slots of DST"
            return InfeasibleError(message, node=f"value {v}", limit=capacity)
    return InfeasibleError(f"no cut of the body fits the {capacity} slots of DST", limit=capacity)


def handed_on(plan: BodyPlan) -> Iterator[tuple[int, int]]:
    """(value, stage that packs it) of everything that a later stage reads."""
    for value in plan.spilled:
        yield value, next(n for n, stage in enumerate(plan.stages) if value in stage.yields)
