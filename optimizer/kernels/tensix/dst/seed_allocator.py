"""The allocation that tt-lang's design document describes, to the letter: `--allocator seed`.

Phases: ops in the order given, or by a schedule if that is asked for; copies for every reader but the last of a value
that some op overwrites, block arguments too, where a yield is the last reader; one interval per value, block arguments
from the start; intervals of in-place ops merged; linear scan of inputs and intermediates from slot 0, then of results
after them, each from the slot that has been free for longest.
Inputs and intermediates are shared by the tiles of a section, which therefore go one by one. Every op runs on DST: no
form reads a circular buffer.

A `copy` of a block argument is a copy within DST, where the argument has been loaded.

Where the document contradicts itself, its tables decide: in-place results are always merged with their operand, a
whole merged set counts as a result if one member is yielded, and an interval that ends where another begins still holds
its slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from optimizer.errors import InfeasibleError
from optimizer.kernels.tensix.dst.dag import TileDag
from optimizer.kernels.tensix.dst.schedule import Schedule, scheduled
from optimizer.kernels.tensix.tile_forms import Place
from optimizer.regalloc.union_find import UnionFind


@dataclass(frozen=True)
class SeedOp:
    """An op after Phase 1; `copy_dst` ops are the inserted copies."""

    op: str
    result: int
    args: tuple[int, ...]
    attrs: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class SeedPlan:
    """Slots by value. Results are at `slot + k * outputs` for tile `k` of a section."""

    ops: tuple[SeedOp, ...]
    slots: Mapping[int, int]
    footprint: int
    """Slots of inputs and intermediates."""
    outputs: int
    """Slots of results per tile."""
    copies: Mapping[int, int]
    """Copy -> the value it copies."""
    unroll: int


def seed_order(dag: TileDag, schedule: Schedule) -> TileDag:
    """Phase 0: the body with its ops in another order, of which every op reads its operands from DST."""
    forms = frozenset((v, len(dag.node(v).definition.forms) - 1) for v in dag.values)
    order = [step.value for step in scheduled(_loaded(dag), schedule, forms)]
    numbers = {v: v for v in range(dag.inputs)} | {v: dag.inputs + n for n, v in enumerate(order)}
    nodes = (replace(dag.node(v), args=tuple(numbers[a] for a in dag.node(v).args)) for v in order)
    return replace(dag, nodes=tuple(nodes), yields=tuple(numbers[v] for v in dag.yields))


def seed_plan(dag: TileDag, tiles: int, capacity: int) -> SeedPlan:
    """InfeasibleError where the document says "insufficient DST registers", and for ops that read circular buffers:
    it loads everything into DST."""
    dag = _loaded(dag)
    for v in dag.values:
        if any(place is not Place.DST for place in dag.node(v).definition.forms[-1].places):
            raise InfeasibleError(f"node {v} ({dag.node(v).op}) has no form for operands in DST", node=dag.node(v).op)
    ops, copies = _insert_copies(dag)
    intervals, merged = _intervals(dag, ops)
    yielded = {merged.find(v) for v in dag.yields}
    inner = [v for v in intervals if merged.find(v) not in yielded]
    outer = [v for v in intervals if merged.find(v) in yielded]
    slots = _scan(intervals, merged, inner, 0, capacity, expire=True)
    footprint = max(slots.values(), default=-1) + 1
    results = _scan(intervals, merged, outer, footprint, capacity, expire=False)
    count = max(results.values(), default=footprint - 1) + 1 - footprint
    unroll = min((capacity - footprint) // max(1, count), tiles)
    return SeedPlan(tuple(ops), {**slots, **results}, footprint, count, copies, unroll)


def _loaded(dag: TileDag) -> TileDag:
    """The body with every `copy` from a circular buffer as one from the slot that holds the same tile."""
    nodes = tuple(replace(node, op="copy_dst") if node.op == "copy" else node for node in dag.nodes)
    return replace(dag, nodes=nodes)


def _overwrites(dag: TileDag, value: int) -> bool:
    """Whether a node has one operand, which it overwrites."""
    return dag.node(value).definition.forms[-1].in_place is not None


def _insert_copies(dag: TileDag) -> tuple[list[SeedOp], dict[int, int]]:
    """Phase 1: a value with several readers, one of which overwrites it, is copied for all but the last; what is
    yielded is read last by that."""
    fresh = dag.count
    copies: dict[int, int] = {}
    copy_for: dict[tuple[int, int], int] = {}
    for v in range(dag.count):
        readers = dag.consumers(v)
        earlier = readers if v in dag.yields else readers[:-1]
        if earlier and any(_overwrites(dag, c) for c in readers):
            for reader in earlier:
                copies[fresh] = v
                copy_for[v, reader] = fresh
                fresh += 1
    ops: list[SeedOp] = []
    for v in dag.values:
        node = dag.node(v)
        for a in dict.fromkeys(node.args):
            if (a, v) in copy_for:
                ops.append(SeedOp("copy_dst", copy_for[a, v], (a,)))
        ops.append(SeedOp(node.op, v, tuple(copy_for.get((a, v), a) for a in node.args), node.attrs))
    return ops, copies


def _intervals(dag: TileDag, ops: list[SeedOp]) -> tuple[dict[int, tuple[int, int]], UnionFind]:
    """Phase 2: first definition to last use, block arguments from 0, merged along in-place ops."""
    intervals: dict[int, tuple[int, int]] = {}
    merged = UnionFind()
    position = 0
    for op in ops:
        position += op.op != "copy_dst"
        at = position + (op.op == "copy_dst")
        for a in op.args:
            start, end = intervals.get(a, (0, 0))
            intervals[a] = (start, max(end, at))
        intervals[op.result] = (at, at)
    for v in dag.yields:
        start, _ = intervals.get(v, (0, 0))
        intervals[v] = (start, position + 1)
    for op in ops:
        if len(op.args) == 1 and op.op != "copy_dst":
            merged.union(op.args[0], op.result)
    for v in list(intervals):
        members = [intervals[m] for m in merged.members(v) if m in intervals]
        intervals[v] = (min(s for s, _ in members), max(e for _, e in members))
    return intervals, merged


def _scan(
    intervals: Mapping[int, tuple[int, int]],
    merged: UnionFind,
    values: list[int],
    base: int,
    capacity: int,
    expire: bool,
) -> dict[int, int]:
    """Phases 3 and 4: one slot per merged set; results keep theirs until they are packed."""
    free = list(range(base, capacity))
    active: list[tuple[int, int]] = []
    slots: dict[int, int] = {}
    for v in sorted(values, key=lambda v: (intervals[v][0], v)):
        if v in slots:
            continue
        start, end = intervals[v]
        for held in sorted(active):
            if expire and held[0] < start:
                active.remove(held)
                free.append(held[1])
        if not free:
            message = f"insufficient DST registers: value {v} is live with {len(active)} others"
            raise InfeasibleError(message, node=f"value {v}", limit=capacity)
        slot = free.pop(0)
        active.append((end, slot))
        for member in merged.members(v):
            slots[member] = slot
    return slots
