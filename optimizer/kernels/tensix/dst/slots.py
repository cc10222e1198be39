"""DST slots for one scheduled body, and how many tiles a section holds.

    steps -> instructions on temporaries (loads, copies, ops) -> classes that share a slot -> regions -> unroll factor

A slot class is a chain of in-place results. Classes that end as results keep their slot until they are packed: each
tile of a section has its own (the output region). So has a class whose first op adds to what the slot holds: that must
be clear, and a slot that an earlier tile used is not. All other classes are scratch, placed by linear scan.

    interleaved   tile by tile: slots = scratch + unroll * outputs      inits repeat per tile
    grouped       op by op over all tiles: slots = unroll * (scratch + outputs)      one init per op
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from optimizer.errors import StateError
from optimizer.kernels.tensix.dst.dag import TileDag
from optimizer.kernels.tensix.dst.schedule import LiveSets, Step, form_of
from optimizer.kernels.tensix.tile_ops import Place
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


@dataclass(frozen=True)
class SlotPlan:
    """Slots of one body. Slot numbers are `index + stride * k` for tile `k` of a section."""

    instructions: tuple[Instruction, ...]
    scratch: tuple[tuple[int, int], ...]
    """Temporary -> slot, of scratch classes."""
    outputs: tuple[tuple[int, int], ...]
    """Temporary -> position in a tile's output region."""
    scratch_slots: int
    output_slots: int
    packed: tuple[tuple[int, int], ...]
    """Yield number -> temporary to pack."""
    loads: int = field(default=0)
    copies: int = field(default=0)

    @property
    def footprint(self) -> int:
        """Slots that one tile takes besides those of its outputs."""
        return self.scratch_slots

    def unroll(self, capacity: int, grouped: bool = False) -> int:
        """Tiles that a section can hold, 0 if not even one."""
        if grouped:
            return capacity // max(1, self.scratch_slots + self.output_slots)
        return (capacity - self.scratch_slots) // max(1, self.output_slots)


def plan_slots(dag: TileDag, order: Sequence[Step]) -> SlotPlan:
    """Slots for the steps in this order; how many there are is not limited here."""
    instructions, packed, in_place = _instructions(dag, order)
    classes = _classes(instructions, in_place, dict(packed))
    kept = _kept_classes(dag, instructions, classes, [t for _, t in packed])
    ordered = sorted(kept)
    position = {c: i for i, c in enumerate(ordered)}
    temporaries = sorted({i.result for i in instructions})
    intervals = _intervals(instructions, classes, set(ordered))
    scratch = linear_scan(intervals, len(temporaries) + 1)
    if isinstance(scratch, AllocationFailure):
        raise StateError(f"{scratch}, though every temporary could have its own")
    return SlotPlan(
        tuple(instructions),
        tuple((t, scratch[classes.find(t)]) for t in temporaries if classes.find(t) not in position),
        tuple((t, position[classes.find(t)]) for t in temporaries if classes.find(t) in position),
        max(scratch.values(), default=-1) + 1,
        len(ordered),
        tuple(packed),
        sum(i.op == "copy" and i.value < dag.inputs for i in instructions),
        sum(i.op == "copy_dst" for i in instructions),
    )


def _instructions(
    dag: TileDag, order: Sequence[Step]
) -> tuple[list[Instruction], list[tuple[int, int]], list[tuple[int, int]]]:
    """Instructions, (yield, temporary) pairs, and (result, operand) temporaries that must share a slot."""
    sets = LiveSets(dag)
    done = 0
    found: list[Instruction] = []
    temporary: dict[int, int] = {}
    in_place: list[tuple[int, int]] = []
    number = iter(range(1 << 30))
    for step in order:
        node, form = dag.node(step.value), form_of(dag, step)
        effect = sets.effect(done, 0, step.value - dag.inputs, step.form)
        here = dict(temporary)
        for a in effect.loads:
            here[a] = next(number)
            found.append(Instruction("copy", 0, a, (-1 - a,), here[a]))
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
        temporary[step.value] = result
        done |= 1 << (step.value - dag.inputs)
    packed = [(k, temporary[v]) for k, v in enumerate(dag.yields)]
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


def _kept_classes(
    dag: TileDag, instructions: Sequence[Instruction], classes: UnionFind, packed: Sequence[int]
) -> set[int]:
    """Classes with a slot of their own per tile: results, and what is accumulated into a clear slot."""
    kept = {classes.find(t) for t in packed}
    for i in instructions:
        if i.value >= dag.inputs and dag.node(i.value).definition.forms[i.form].accumulates and i.op != "copy_dst":
            kept.add(classes.find(i.result))
    return kept


def _intervals(instructions: Sequence[Instruction], classes: UnionFind, kept: set[int]) -> Iterator[LiveInterval]:
    """Where each scratch class is live: an operand that dies at an op leaves its slot to the op's result."""
    last = _last_reads(instructions)
    segments: dict[int, list[tuple[int, int]]] = {}
    for n, i in enumerate(instructions):
        root = classes.find(i.result)
        if root not in kept:
            segments.setdefault(root, []).append(
                (2 * n + 1, 2 * max(n, last.get(i.result, n)) + 1 + (i.result not in last))
            )
    for root, parts in sorted(segments.items()):
        start, end = min(s for s, _ in parts), max(e for _, e in parts)
        yield LiveInterval(root, ((start, end),))
