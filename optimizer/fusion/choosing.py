"""Which regions of a finished plan become kernels: those that make it faster, by predicted time.

Every group of ops that grows (`finding.py`), every connected stretch of one and every home of it is an offer: it saves
what its ops take less what its kernel takes. Of the offers that save time those are taken that save most together
(`solver/packing.py`); no op is in two of them. Places in the schedule and L1 are then checked with all of them in; a
set that does not go together is excluded and the next best one is tried.

Without predicted times nothing can be said of time: every group that is found is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from optimizer.fusion.finding import Finder
from optimizer.fusion.lowering import lowered, program_of
from optimizer.fusion.regions import Region
from optimizer.fusion.schedule import FusedSchedule
from optimizer.fusion.timing import cost_of
from optimizer.ir.graph import Op
from optimizer.opmodel.base import OpCost
from optimizer.result import OptimizedGraph
from optimizer.solver.packing import Item, pack

MOST_STRETCHES = 100
"""Stretches of one group that are looked at, the longest first."""
SLOWER, NO_ROOM = "slower", "no room in L1"


@dataclass(frozen=True)
class Offer:
    """A region with its predicted time."""

    region: Region
    cost: OpCost
    ops_ns: int
    """What its ops take one by one."""

    @property
    def saved_ns(self) -> int:
        return self.ops_ns - self.cost.time_ns


@dataclass(frozen=True)
class Refused:
    """A group that stays as it is."""

    ops: tuple[str, ...]
    because: str
    predicted_ns: int | None = None
    """Of the kernel at its best home; None: it does not run."""
    ops_ns: int | None = None


@dataclass(frozen=True)
class Choice:
    """What becomes of the groups of a plan."""

    taken: tuple[Region, ...]
    """In schedule order."""
    refused: tuple[Refused, ...] = ()
    saved_ns: int = 0
    """What the plan takes less; 0 without predicted times."""


def choose(result: OptimizedGraph, poll: Callable[[], None] = lambda: None) -> Choice:
    """The regions of a result that become kernels. `poll` is called for every region looked at, and may end it."""
    finder = Finder(result, poll)
    groups = finder.regions()
    if any(result.records[op_id].predicted is None for region in groups for op_id in region.op_ids):
        return Choice(groups)
    alone = Finder(result, poll)  # asked about one region at a time, with nothing else fused
    offers = {region.op_ids: _offers(alone, region) for region in groups}
    paying = [offer for row in offers.values() for offer in row if offer.saved_ns > 0]
    taken = _together(result, paying)
    inside = {op_id for region in taken for op_id in region.op_ids}
    slower = [_slower(row) for ops, row in offers.items() if inside.isdisjoint(ops)]
    saved = {(o.region.op_ids, o.region.home, o.region.scheme): o.saved_ns for o in paying}
    saved_ns = sum(saved[region.op_ids, region.home, region.scheme] for region in taken)
    return Choice(taken, (*slower, *_without_room(finder.roomless, inside)), saved_ns)


def _slower(row: Sequence[Offer]) -> Refused:
    """A group of which nothing pays, as a whole as far as it is a region."""
    whole = max(row, key=lambda offer: (len(offer.region.ops), offer.saved_ns))
    return Refused(whole.region.op_ids, SLOWER, whole.cost.time_ns, whole.ops_ns)


def _without_room(roomless: Sequence[tuple[str, ...]], inside: set[str]) -> Iterator[Refused]:
    """The largest groups for which L1 has no room, unless all their ops are in kernels."""
    kept: list[frozenset[str]] = []
    for ops in sorted(roomless, key=lambda ops: -len(ops)):
        if not inside.issuperset(ops) and not any(k.issuperset(ops) for k in kept):
            kept.append(frozenset(ops))
            yield Refused(ops, NO_ROOM)


# -- offers ----------------------------------------------------------------------------------------------
def _offers(alone: Finder, group: Region) -> list[Offer]:
    """The best home of every stretch of a group, and of the group."""
    found = []
    for members in stretches(group.ops):
        homes = [_priced(alone.result, region) for region in alone.regions_of(members) if alone.fits(region)]
        if homes:
            found.append(max(homes, key=lambda offer: offer.saved_ns))
    return found


def _priced(result: OptimizedGraph, region: Region) -> Offer:
    cost = cost_of(region, lowered(program_of(region), result.device), result.layouts, result.device)
    records = (result.records[op_id].predicted for op_id in region.op_ids)
    return Offer(region, cost, sum(p.time_ns for p in records if p is not None))


# -- all at once -----------------------------------------------------------------------------------------
def _together(result: OptimizedGraph, offers: Sequence[Offer]) -> tuple[Region, ...]:
    """The offers that save most and go together."""
    items = [Item(offer.saved_ns, frozenset(offer.region.op_ids)) for offer in offers]
    excluded: list[frozenset[int]] = []
    while True:
        chosen = pack(items, excluded=excluded)
        placed, clash = _placed(result, [offers[i].region for i in chosen])
        if clash is None:
            return placed
        excluded.append(frozenset(chosen[: clash + 1]))


def _placed(result: OptimizedGraph, regions: Sequence[Region]) -> tuple[tuple[Region, ...], int | None]:
    """The regions in schedule order, each with its place beside the others; or the first that has none."""
    finder = Finder(result)
    placed: list[Region] = []
    for number, region in enumerate(regions):
        alike = (region.home, region.scheme)
        again = [r for r in finder.regions_of(region.op_ids) if (r.home, r.scheme) == alike and finder.fits(r)]
        if not again:
            return (), number
        placed.append(again[0])
        finder.schedule.fuse(again[0].ops, again[0].anchor, (o.value for o in again[0].outputs))
    position = FusedSchedule(result).index
    return tuple(sorted(placed, key=lambda r: position[r.anchor])), None


def stretches(ops: Sequence[Op], least: int = 2) -> Iterator[tuple[str, ...]]:
    """Ops of a group that follow each other and hang together, the whole group first; so many at least."""
    sizes = range(len(ops), least - 1, -1)
    spans = ((first, first + size) for size in sizes for first in range(len(ops) - size + 1))
    for count, (first, end) in enumerate(spans):
        if count == MOST_STRETCHES:
            return
        part = ops[first:end]
        values = [frozenset((*op.inputs, *op.outputs)) for op in part]
        if _hang_together(values):
            yield tuple(op.id for op in part)


def _hang_together(values: Sequence[frozenset[str]]) -> bool:
    """Whether ops that read and write these values are connected by them."""
    reached, rest = set(values[0]), list(values[1:])
    while rest:
        near = [v for v in rest if not reached.isdisjoint(v)]
        if not near:
            return False
        for v in near:
            reached |= v
        rest = [v for v in rest if v not in near]
    return True
