"""The plan of one body over a block of tiles: sections, and where one section cannot hold even a tile, a way out.

    reorder     another order needs fewer slots
    recompute   what reads only inputs is computed again for every reader instead of kept
    split       the body is cut into stages; each goes over the whole block and hands values on through circular buffers
                in L1 that hold the block
    spill       the stages take turns section by section: values are packed to small circular buffers of one section's
                tiles and restored from there. Less L1, more inits

An order that fits is taken, else the cheapest of the others for which there is L1. DST itself cannot be spilled within
a section: `pack_tile` is only allowed after the commit, and the next acquire clears it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from optimizer.errors import InfeasibleError, StateError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.dst.cost import INIT, SECTION, SYNC, inits_run
from optimizer.kernels.tensix.dst.dag import TileDag, TileNode, renumbered
from optimizer.kernels.tensix.dst.live_sets import LiveSets
from optimizer.kernels.tensix.dst.schedule import Schedule, order_as_given, peak_of, scheduled
from optimizer.kernels.tensix.dst.slots import Scheme
from optimizer.kernels.tensix.dst.stages import ALL_ORDERS, Stage, cut, orders, stage_of, whole
from optimizer.kernels.tensix.tile_forms import Unit


class Relief(StrEnum):
    """What was done about more values than slots."""

    NONE = "none"
    REORDER = "reorder"
    RECOMPUTE = "recompute"
    SPLIT = "split"
    SPILL = "spill"


@dataclass(frozen=True)
class BodyPlan:
    """Stages of a body, and how many tiles each section takes."""

    dag: TileDag
    stages: tuple[Stage, ...]
    unroll: int
    """Tiles per section."""
    scheme: Scheme
    tiles: int
    relief: Relief = Relief.NONE

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
    def interleaved(self) -> bool:
        """The stages take turns section by section instead of block by block."""
        return self.relief is Relief.SPILL

    @property
    def grouped(self) -> bool:
        """Op by op over the tiles of a section, so that each op's init comes once; else tile by tile."""
        return self.scheme is Scheme.GROUPED

    @property
    def max_dst(self) -> int:
        """Slots in use in the fullest section."""
        return max(s.slots.slots_used(self.scheme, min(self.unroll, self.tiles)) for s in self.stages)

    @property
    def l1_tiles(self) -> int:
        """Tiles of the circular buffers between stages; of a split those of values that are there together."""
        values = self.spilled
        if self.interleaved:
            return len(values) * (min(self.unroll, self.tiles) + self.tiles % self.unroll)
        spans = []
        for v in values:
            made = next(n for n, stage in enumerate(self.stages) if v in stage.yields)
            spans.append((made, max(n for n, stage in enumerate(self.stages) if v in stage.inputs)))
        return self.tiles * max((sum(a <= n <= b for a, b in spans) for n in range(len(self.stages))), default=0)

    @property
    def inits(self) -> int:
        """Inits that run, over all tiles and stages."""
        unroll, keys = min(self.unroll, self.tiles), [stage.inits for stage in self.stages]
        if self.interleaved:
            return inits_run(keys, self.tiles, unroll, self.grouped)
        return sum(inits_run([stage], self.tiles, unroll, self.grouped) for stage in keys)

    @property
    def cost(self) -> int:
        """Cycles of all tiles (`dst/cost.py`)."""
        rounds = -(-self.tiles // self.unroll)
        syncs = len(self.spilled) * (rounds if self.interleaved else 1)
        work = self.tiles * sum(stage.cycles for stage in self.stages)
        return work + SECTION * self.sections + INIT * self.inits + SYNC * syncs


@lru_cache(maxsize=1024)
def plan_body(
    dag: TileDag,
    tiles: int,
    capacity: int,
    l1_bytes: int | None = None,
    l1_is_limit: bool = True,
    names: tuple[str, ...] = (),
    schedule: Schedule = "search",
) -> BodyPlan:
    """The cheapest plan (`BodyPlan.cost`): in small bodies of all, in others of those compared.

    `l1_bytes`: what circular buffers between stages may take, no limit by default; if it is none, but what is expected
    to be free, a plan that takes more is better than none. `names`: of the values, for errors. `schedule`: of ops.
    InfeasibleError if one op alone needs more slots than there are, or no way out has the L1 it needs; it names the
    values, the capacity and the place.
    """
    given, (dag, numbers) = dag, renumbered(dag)
    found = one_stage_plans(dag, tiles, capacity, schedule)
    if found:
        fits = peak_of(dag, order_as_given(dag)) <= capacity
        return replace(min(found, key=_rank), relief=Relief.NONE if fits else Relief.REORDER)
    ways = list(_ways_out(dag, tiles, capacity, schedule))
    if not ways:
        raise _too_large(given, capacity, names)
    room = [w for w in ways if l1_bytes is None or w.l1_tiles * DType(dag.dtype).tile_bytes <= l1_bytes]
    if not room and not l1_is_limit:
        return min(ways, key=lambda w: (w.l1_tiles, w.cost))
    if not room:
        called = {new: names[v] for v, new in numbers.items() if v < len(names)}
        raise _no_room([w for w in ways if w.dag is dag], capacity, l1_bytes or 0, called)
    return min(room, key=lambda w: (w.cost, list(Relief).index(w.relief), len(w.stages)))


def one_stage_plans(dag: TileDag, tiles: int, capacity: int, schedule: Schedule = "search") -> list[BodyPlan]:
    """Plans of a body without splits, of which the cheapest is taken; none if it fits in no order."""
    shared = share_copies(dag)
    bodies = [dag] if shared is None else [dag, shared]
    found = [plan for body in bodies for plan in _whole(body, tiles, capacity, schedule)]
    again = recomputed_products(dag) if found else ()
    return found + [plan for body in again for plan in _whole(body, tiles, capacity, schedule)]


def _rank(plan: BodyPlan) -> tuple[int, int, int]:
    """Least cost, then fewest sections, then fewest slots."""
    return plan.cost, plan.sections, plan.max_dst


def _ways_out(dag: TileDag, tiles: int, capacity: int, schedule: Schedule) -> Iterator[BodyPlan]:
    """Plans for a body that fits in no order."""
    again = recompute(dag)
    bodies = [dag] if again is None else [dag, again]
    for body in bodies:
        if body is again:
            for plan in _whole(body, tiles, capacity, schedule):
                yield replace(plan, relief=Relief.RECOMPUTE)
        if body is again and len(body.nodes) > ALL_ORDERS:
            return
        stages = cut(body, scheduled(body, schedule), capacity)
        for plan in () if stages is None else _sections(body, stages, tiles, capacity):
            yield replace(plan, relief=Relief.SPLIT)
            yield replace(plan, relief=Relief.SPILL)


def _whole(dag: TileDag, tiles: int, capacity: int, schedule: Schedule) -> Iterator[BodyPlan]:
    """Plans of a body in one stage."""
    for order in orders(dag, capacity, schedule=schedule):
        yield from _sections(dag, (whole(dag, order),), tiles, capacity)


def _sections(dag: TileDag, stages: tuple[Stage, ...], tiles: int, capacity: int) -> Iterator[BodyPlan]:
    """Sections of as many tiles as fit, in every way to go through them that takes at least one."""
    for scheme in (Scheme.GROUPED, Scheme.WINDOWS, Scheme.REGIONS):
        unroll = min(tiles, *(stage.slots.unroll(capacity, scheme) for stage in stages))
        if unroll >= 1:
            yield BodyPlan(dag, stages, unroll, scheme, tiles)


# -- refusals ---------------------------------------------------------------------------------------------
def _too_large(dag: TileDag, capacity: int, names: Sequence[str]) -> InfeasibleError:
    """Names the first op that needs more slots than there are, and what it needs them for."""
    for v in dag.values:
        if stage_of(dag, [v], capacity) is None:
            called = [f"%{names[k]}" if k < len(names) else f"value {k}" for k in (*dag.node(v).args, v)]
            op = f"{called[-1]} = {dag.node(v).op}({', '.join(called[:-1])})"
            least = next(n for n in range(capacity + 1, 64) if stage_of(dag, [v], n) is not None)
            return InfeasibleError(
                f"{op} alone needs {least} slots of DST, more than the {capacity} there are",
                node=called[-1],
                limit=capacity,
            )
    return InfeasibleError(f"no cut of the body fits the {capacity} slots of DST", limit=capacity)


def _no_room(ways: Sequence[BodyPlan], capacity: int, l1_bytes: int, names: Mapping[int, str]) -> InfeasibleError:
    least = min(ways, key=lambda w: w.l1_tiles)
    tile = DType(least.dag.dtype).tile_bytes
    values = ", ".join(f"%{names[v]}" if v in names else f"value {v}" for v in least.spilled)
    return InfeasibleError(
        f"the body needs more than the {capacity} slots of DST, and handing on {values} takes"
        f" {least.l1_tiles * tile} bytes of L1, more than the {l1_bytes} that are free",
        limit=l1_bytes,
    )


# -- the same body with other slots: copies shared, or values computed again instead of kept --------------
MOST_APART = 4
"""Values that are tried one by one."""


def recomputed_products(dag: TileDag) -> Iterator[TileDag]:
    """Bodies that may be cheaper: an FPU op on inputs alone, computed again, costs less than a copy of its result."""
    again = [v for v in _computable(dag) if any(form.unit is Unit.FPU for form in dag.node(v).definition.forms)]
    if len(again) > 1:
        yield _recomputed(dag, frozenset(again))
    if len(again) <= MOST_APART:
        yield from (_recomputed(dag, frozenset((v,))) for v in again)


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
        shared = TileDag(dag.inputs, tuple(nodes), tuple(numbers[v] for v in dag.yields), dag.dtype, dag.input_dtypes)
        LiveSets(shared)
    except StateError:
        return None  # some op reads the input from its circular buffer only
    return shared


def recompute(dag: TileDag) -> TileDag | None:
    """The body with every node that reads only inputs and has several readers computed once per reader."""
    shared = _computable(dag)
    return _recomputed(dag, frozenset(shared)) if shared else None


def _computable(dag: TileDag) -> list[int]:
    """Nodes with several readers, the packer among them, that read only inputs."""
    shared = (v for v in dag.values if len(dag.consumers(v)) + (v in dag.yields) > 1)
    return [v for v in shared if all(map(dag.is_input, dag.node(v).args))]


def _recomputed(dag: TileDag, shared: frozenset[int]) -> TileDag:
    """The body with these nodes computed once per reader."""
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
    return TileDag(dag.inputs, tuple(nodes), tuple(numbers[v] for v in dag.yields), dag.dtype, dag.input_dtypes)
