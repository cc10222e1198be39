"""DST slots for one scheduled body, and how many tiles a section holds.

    steps -> instructions on temporaries (loads, copies, ops) -> classes that share a slot -> positions -> unroll factor

A slot class is a chain of in-place results. Classes that end as results keep their slot until they are packed, so each
tile of a section has its own. So has a class whose first op adds to what the slot holds: it must be clear, and a slot
that was used before is not. All other classes are scratch. Positions by linear scan; the slot of a position for tile
`k` of a section depends on how the section goes:

    regions   tile by tile: results of all tiles, then the scratch they share.       unroll * results + scratch slots
    windows   tile by tile: each tile's window begins where the results of the one before end; its scratch lies where
              later tiles have their results, and its own not yet.             (unroll - 1) * results + width slots
    grouped   op by op over all tiles, so that each init comes once.                            unroll * width slots
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from optimizer.errors import StateError
from optimizer.kernels.tensix.dst.cost import InitKey, init_key
from optimizer.kernels.tensix.dst.dag import TileDag
from optimizer.kernels.tensix.dst.live_sets import LiveSets, Step, form_of
from optimizer.kernels.tensix.tile_forms import Place
from optimizer.regalloc.intervals import LiveInterval
from optimizer.regalloc.linear_scan import AllocationFailure, linear_scan
from optimizer.regalloc.union_find import UnionFind


@dataclass(frozen=True, slots=True)
class Instruction:
    """A load, a copy or an op on temporaries. A temporary is written once, but for results in place."""

    op: str
    form: int
    value: int
    """The value that it makes: a node, or the input that it loads."""
    sources: tuple[int, ...]
    """Per operand: the temporary, or for one read from its circular buffer the input's number as `-1 - input`."""
    result: int
    """The temporary of the result."""
    attrs: tuple[tuple[str, float], ...] = ()

    @property
    def dst_sources(self) -> tuple[int, ...]:
        return tuple(s for s in self.sources if s >= 0)

    @property
    def init(self) -> InitKey:
        """What tells its init from others."""
        return init_key(self.op, self.form, self.sources, self.attrs)


class Scheme(StrEnum):
    """How a section goes through its tiles."""

    REGIONS = "regions"
    WINDOWS = "windows"
    GROUPED = "grouped"


@dataclass(frozen=True)
class SlotPlan:
    """Slots of one body."""

    instructions: tuple[Instruction, ...]
    scratch: Mapping[int, int]
    """Temporary -> position in the shared scratch, for `regions`."""
    results: Mapping[int, int]
    """Temporary -> position among what each tile keeps."""
    positions: Mapping[int, int]
    """Temporary -> position in a tile's window, results first."""
    scratch_slots: int
    result_slots: int
    width: int
    """Positions of a window."""
    adds_up: bool
    """Some op adds to a clear slot, and there is scratch: windows would hand it a used one."""
    packed: tuple[tuple[int, int], ...]
    """Yield number -> temporary to pack."""
    copies: int = 0

    @property
    def footprint(self) -> int:
        """Slots that one tile takes besides those of its results."""
        return self.width - self.result_slots

    def unroll(self, capacity: int, scheme: Scheme) -> int:
        """Tiles that a section can hold, 0 if not even one."""
        kept = max(1, self.result_slots)
        match scheme:
            case Scheme.GROUPED:
                return capacity // max(1, self.width)
            case Scheme.REGIONS:
                return max(0, (capacity - self.scratch_slots) // kept)
        if self.width > capacity:
            return 0
        return 1 if self.adds_up else (capacity - self.width) // kept + 1

    def slot(self, temporary: int, scheme: Scheme, unroll: int) -> tuple[int, int]:
        """(slot of the section's first tile, step to the next tile's)."""
        match scheme:
            case Scheme.GROUPED:
                return self.positions[temporary] * unroll, 1
            case Scheme.WINDOWS:
                return self.positions[temporary], self.result_slots
        if temporary in self.results:
            return self.results[temporary] * unroll, 1
        return self.result_slots * unroll + self.scratch[temporary], 0

    def slots_used(self, scheme: Scheme, unroll: int) -> int:
        """Slots of a section of so many tiles."""
        match scheme:
            case Scheme.GROUPED:
                return self.width * unroll
            case Scheme.WINDOWS:
                return (unroll - 1) * self.result_slots + self.width
        return self.result_slots * unroll + self.scratch_slots


def plan_slots(dag: TileDag, order: Sequence[Step]) -> SlotPlan:
    """Slots for the steps in this order; how many there are is not limited here."""
    instructions, packed, in_place = _instructions(dag, order)
    classes = _classes(instructions, in_place, dict(packed))
    adding = _adding(dag, instructions, classes)
    kept = sorted({classes.find(t) for _, t in packed} | adding)
    temporaries = sorted({i.result for i in instructions})
    live = _live(instructions, classes, len(instructions), set(kept), adding)
    intervals = [LiveInterval(c, (segment,)) for c, segment in sorted(live.items()) if c not in kept]
    scratch = _scan(intervals, len(temporaries))
    fixed = [LiveInterval(c, (live[c],), fixed=n) for n, c in enumerate(kept)]
    window = _scan([*fixed, *intervals], len(temporaries))
    width = max(window.values(), default=-1) + 1
    return SlotPlan(
        tuple(instructions),
        {t: scratch[classes.find(t)] for t in temporaries if classes.find(t) in scratch},
        {t: kept.index(classes.find(t)) for t in temporaries if classes.find(t) in kept},
        {t: window[classes.find(t)] for t in temporaries},
        max(scratch.values(), default=-1) + 1,
        len(kept),
        width,
        bool(adding) and width > len(kept),
        tuple(packed),
        sum(i.op == "copy_dst" for i in instructions),
    )


def _scan(intervals: Sequence[LiveInterval], temporaries: int) -> dict[int, int]:
    placed = linear_scan(intervals, temporaries + 1)
    if isinstance(placed, AllocationFailure):
        raise StateError(f"{placed}, though every temporary could have its own")
    return placed


def _instructions(
    dag: TileDag, order: Sequence[Step]
) -> tuple[list[Instruction], list[tuple[int, int]], list[tuple[int, int]]]:
    """Instructions, (yield, temporary) pairs, and (result, operand) temporaries that must share a slot."""
    sets = LiveSets(dag)
    done = 0
    found: list[Instruction] = []
    made: dict[int, int] = {}
    """Temporaries of nodes."""
    kept: dict[int, int] = {}
    """Temporaries of inputs that stay in DST."""
    in_place: list[tuple[int, int]] = []
    number = iter(range(1 << 30))
    for step in order:
        node, form = dag.node(step.value), form_of(dag, step)
        effect = sets.effect(done, 0, step.value - dag.inputs, step.form, tuple(kept), step.keep)
        here = {**kept, **{a: made[a] for a in node.args if a in made}}
        spare: dict[int, int] = {}
        """What stays of an input that the step overwrites."""
        for n, a in enumerate(effect.loads):
            twice = a in effect.loads[:n] or a in kept
            (spare if twice else here)[a] = loaded = next(number)
            found.append(Instruction("copy", 0, a, (-1 - a,), loaded))
        if effect.copied is not None:
            copy = next(number)
            found.append(Instruction("copy_dst", 0, effect.copied, (here[effect.copied],), copy))
            here[effect.copied] = copy
        sources = tuple(
            here[a] if place is Place.DST else -1 - a for a, place in zip(node.args, form.places, strict=True)
        )
        result = next(number)
        found.append(Instruction(node.op, step.form, step.value, sources, result, node.attrs))
        if form.in_place is not None:
            in_place.append((result, sources[form.in_place]))
        kept = {a: t for a, t in (here | spare).items() if a in step.keep}
        made[step.value] = result
        done |= 1 << (step.value - dag.inputs)
    packed = [(k, made[v]) for k, v in enumerate(dag.yields)]
    return found, packed, in_place


def _last_reads(instructions: Sequence[Instruction]) -> dict[int, int]:
    return {t: n for n, i in enumerate(instructions) for t in i.dst_sources}


def _classes(
    instructions: Sequence[Instruction], in_place: Sequence[tuple[int, int]], packed: dict[int, int]
) -> UnionFind:
    """Temporaries that share a slot: forced by in-place ops, chosen where a result can take a dying operand's.

    Chosen backwards, so that chains grow towards the results: the operand whose own chain is longest joins.
    """
    classes = UnionFind()
    for result, operand in in_place:
        classes.union(result, operand)
    forced = {result for result, _ in in_place}
    last = _last_reads(instructions)
    kept = set(packed.values())
    depth: dict[int, int] = {}
    for i in instructions:
        depth[i.result] = 1 + max((depth.get(t, 0) for t in i.dst_sources), default=0)
    for n, i in reversed(list(enumerate(instructions))):
        if i.result in forced or i.op in ("copy", "copy_dst") or not i.dst_sources:
            continue
        dying = [t for t in dict.fromkeys(i.dst_sources) if last[t] == n and t not in kept]
        if dying:
            classes.union(i.result, max(dying, key=lambda t: (depth[t], -t)))
    return classes


def _adding(dag: TileDag, instructions: Sequence[Instruction], classes: UnionFind) -> set[int]:
    """Classes that begin with an op that adds to what the slot holds."""
    found = set()
    for i in instructions:
        if i.value >= dag.inputs and i.op != "copy_dst" and dag.node(i.value).definition.forms[i.form].accumulates:
            found.add(classes.find(i.result))
    return found


def _live(
    instructions: Sequence[Instruction], classes: UnionFind, end: int, kept: set[int], adding: set[int]
) -> dict[int, tuple[int, int]]:
    """Where each class is live: an operand that dies at an op leaves its slot to the op's result.

    What is kept lives to the end; a slot that must be clear is held from the beginning.
    """
    last = _last_reads(instructions)
    live: dict[int, tuple[int, int]] = {}
    for n, i in enumerate(instructions):
        root = classes.find(i.result)
        stop = 2 * max(n, last.get(i.result, n)) + 1 + (i.result not in last)
        start, before = live.get(root, (2 * n + 1, 0))
        live[root] = (0 if root in adding else start, 2 * end + 2 if root in kept else max(before, stop))
    return live
