"""Finds regions in a finished result: ops joined along the values they hand on, as long as one kernel can do them.

Groups grow edge by edge, in schedule order, until none grows any more. A group is a region if
  - all its tensors cover one frame or are repeated over it, in tiles of one element type (`grouping.py`);
  - it has a home: an L1 shard grid of a tensor of the frame. Rows lie whole on a core where an op needs that;
  - there is a place in the schedule after all that it reads and before all that reads it (so it is convex);
  - L1 never holds more than in the plan while the other ops run, and the kernel itself fits (`schedule.py`);
  - a matmul in it has a use there; where every core reads its operands for itself, they are small.

A region with a product comes in several schemes (`sharing.py`), the fastest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from optimizer.device import DeviceSpec
from optimizer.errors import InfeasibleError, LimitError
from optimizer.fusion.grouping import Group, each_core_gives, frame, may_join
from optimizer.fusion.lowering import lowered, program_of
from optimizer.fusion.operations import is_matmul
from optimizer.fusion.placement import Kind
from optimizer.fusion.regions import Region, blocks_of
from optimizer.fusion.schedule import FusedSchedule
from optimizer.ir.graph import Op
from optimizer.kernels.tensix.verify import MAX_CIRCULAR_BUFFERS
from optimizer.result import OptimizedGraph

MOST_TOGETHER = 6
"""Ops of a group whose tensors may be laid again for it."""
MATMUL_TILES = 128
"""Tiles that the buffers of a region's matmul operands may hold on a core if it reads them for itself: 256 KiB of
bf16."""


def find_regions(result: OptimizedGraph) -> tuple[Region, ...]:
    """Regions of at least two ops, one of which computes, in schedule order."""
    return Finder(result).regions()


def groups_anywhere(result: OptimizedGraph) -> tuple[tuple[str, ...], ...]:
    """Ops, in schedule order, that would be regions if only their tensors lay right: groups of up to `MOST_TOGETHER`.

    Groups grow edge by edge while they can; an op that none takes is one by itself, and none is in two. Layouts of the
    result make no difference, as long as they are tiles on the device.
    """
    finder = Finder(result)
    index = finder.schedule.index
    group: dict[str, tuple[str, ...]] = {op_id: (op_id,) for op_id in finder.group}
    for op in finder.schedule.ops:
        for producer in finder.producers(op):
            a, b = group[producer], group[op.id]
            members = tuple(sorted({*a, *b}, key=index.__getitem__))
            if a != b and len(members) <= MOST_TOGETHER and finder.frame_of_group(members) is not None:
                group.update(dict.fromkeys(members, members))
    return tuple(dict.fromkeys(group.values()))


class Finder:
    """Regions of one result, and of any group of its ops."""

    def __init__(self, result: OptimizedGraph, poll: Callable[[], None] = lambda: None) -> None:
        self.result, self.graph, self._poll = result, result.graph, poll
        self.schedule = FusedSchedule(result)
        self.group: dict[str, tuple[str, ...]] = {op.id: (op.id,) for op in self.schedule.ops if may_join(result, op)}
        self.found: dict[tuple[str, ...], Region] = {}
        self.refused: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
        self.roomless: list[tuple[str, ...]] = []
        """Groups that would be regions, had L1 room for them."""

    def regions(self) -> tuple[Region, ...]:
        edges = [(producer, op.id) for op in self.schedule.ops for producer in self.producers(op)]
        while sum(self._join(*edge) for edge in edges):
            pass
        position = self.schedule.position
        return tuple(sorted(self.found.values(), key=lambda r: position[r.anchor]))

    def producers(self, op: Op) -> Iterator[str]:
        """Ops that may join, and compute what an op reads, if that may join."""
        if op.id in self.group:
            for v in op.inputs:
                producer = self.graph.producer(v)
                if producer is not None and producer.id in self.group:
                    yield producer.id

    def _join(self, first: str, second: str) -> bool:
        """Whether the groups of two ops become one: they do if that is a region."""
        a, b = self.group[first], self.group[second]
        if a == b or (a, b) in self.refused:
            return False
        members = tuple(sorted((*a, *b), key=self.schedule.index.__getitem__))
        regions = self.regions_of(members)
        region = next((r for r in regions if r.home == regions[0].home and self.fits(r)), None)
        if region is None:
            self.refused.add((a, b))
            return False
        for part in (a, b):
            self.found.pop(part, None)
        self.schedule.fuse(region.ops, region.anchor, (o.value for o in region.outputs))
        self.found[members] = region
        for op_id in members:
            self.group[op_id] = members
        return True

    def regions_of(self, members: Sequence[str]) -> tuple[Region, ...]:
        """A group as a region at each of its homes, in each of its schemes, if it covers a frame and has a place in the
        schedule."""
        group = self.frame_of_group(members)
        return () if group is None else group.regions()

    def frame_of_group(self, members: Sequence[str]) -> Group | None:
        """A group that covers a frame, what it reads and gives, and the op in whose place it can run."""
        self._poll()
        ops = tuple(self.graph.op(op_id) for op_id in members)
        found = frame(self.graph, ops)
        if found is None:
            return None
        made = {v for op in ops for v in op.outputs}
        inputs = tuple(dict.fromkeys(v for op in ops for v in op.inputs if v not in made))
        outputs = tuple(v for op in ops for v in op.outputs if self._read_outside(v, members))
        if len(inputs) + len(outputs) > MAX_CIRCULAR_BUFFERS or not each_core_gives(ops, outputs, found[1]):
            return None
        anchor = self.schedule.place(members, inputs, outputs)
        return None if anchor is None else Group(self.result, ops, *found, inputs, outputs, anchor)

    def _read_outside(self, value: str, members: Sequence[str]) -> bool:
        readers = {op.id for op in self.graph.consumers(value)}
        return self.graph.is_output(value) or not readers <= set(members)

    def fits(self, region: Region) -> bool:
        """Whether the kernel compiles, and its circular buffers fit beside what is in L1."""
        self._poll()
        if not compiles(region, self.result.device):
            return False
        if self.schedule.fits(region, lowered(program_of(region), self.result.device)):
            return True
        self.roomless.append(region.op_ids)
        return False


def compiles(region: Region, device: DeviceSpec) -> bool:
    """Whether there is such a kernel, wherever in the schedule."""
    if region.multiplies and not _multiplies_well(region):
        return False
    try:
        lowered(program_of(region), device)
    except (InfeasibleError, LimitError):
        return False
    return True


def _multiplies_well(region: Region) -> bool:
    """Whether something is done with the products, and the operands are small where every core reads all of them."""
    if region.scheme.multicast:
        return len(region.ops) > 1
    blocks, tiles = blocks_of(region), 0
    for o in region.inputs:
        if o.kind in (Kind.LEFT, Kind.RIGHT) and not o.resident:
            rows, columns = blocks.of(o.kind, o.depth)
            tiles += rows * columns * (1 if blocks.once(o.kind) else min(2, blocks.count))
    return tiles <= MATMUL_TILES and any(not is_matmul(op) for op in region.computed)
