"""Finds regions in a finished result: ops joined along the values they hand on, as long as one kernel can do them.

Groups grow edge by edge, in schedule order. A group is a region if
  - all its tensors cover one frame or are repeated over it, in tiles of one element type;
  - it has a home: an L1 shard grid of a tensor of the frame, on at least half of the cores its ops would use. Rows lie
    whole on a core where an op needs that. What does not lie there can be brought: cores know which tiles are theirs;
  - there is a place in the schedule after all that it reads and before all that reads it (so it is convex);
  - L1 never holds more than in the plan while the other ops run, and the kernel itself fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod

from optimizer.errors import InfeasibleError, LimitError
from optimizer.export.kernels.lowering import lowered, program_of
from optimizer.export.kernels.operations import MOVE, accepts, needs_rows
from optimizer.export.kernels.placement import Home, Kind, Operand, kind_in
from optimizer.export.kernels.regions import Region
from optimizer.export.kernels.schedule import FusedSchedule
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Op
from optimizer.kernels.tensix.verify import MAX_CIRCULAR_BUFFERS
from optimizer.layouts.op_config import overwritten_operand
from optimizer.layouts.tiling import TILE, tile_grid
from optimizer.result import OptimizedGraph, Role

_ROLES = (Role.COMPUTE, Role.RESHARD, Role.SPILL, Role.LOAD)
DTYPES = (DType.BF16,)
"""Element types of regions."""


def find_regions(result: OptimizedGraph) -> tuple[Region, ...]:
    """Regions of at least two ops, one of which computes, in schedule order."""
    return _Finder(result).regions()


class _Finder:
    def __init__(self, result: OptimizedGraph) -> None:
        self.result, self.graph = result, result.graph
        self.schedule = FusedSchedule(result)
        self.group: dict[str, tuple[str, ...]] = {op.id: (op.id,) for op in self.schedule.ops if self._may_join(op)}
        self.found: dict[tuple[str, ...], Region] = {}

    def regions(self) -> tuple[Region, ...]:
        for op in self.schedule.ops:
            for producer in self._producers(op):
                self._join(producer, op.id)
        position = self.schedule.position
        return tuple(sorted(self.found.values(), key=lambda r: position[r.anchor]))

    # -- growing --------------------------------------------------------------------------------------------
    def _producers(self, op: Op) -> Iterator[str]:
        if op.id in self.group:
            for v in op.inputs:
                producer = self.graph.producer(v)
                if producer is not None and producer.id in self.group:
                    yield producer.id

    def _join(self, first: str, second: str) -> None:
        """The groups of two ops become one if that is a region."""
        a, b = self.group[first], self.group[second]
        if a == b:
            return
        members = tuple(sorted((*a, *b), key=self.schedule.index.__getitem__))
        region = self._region(members)
        if region is None or not self._compiles(region):
            return
        for part in (a, b):
            self.found.pop(part, None)
        self.schedule.fuse(region)
        if region.computed:
            self.found[members] = region
        for op_id in members:
            self.group[op_id] = members

    def _compiles(self, region: Region) -> bool:
        """Whether the kernel compiles and its circular buffers fit beside what is in L1."""
        if not region.computed:
            return True
        try:
            program = lowered(program_of(region))
        except (InfeasibleError, LimitError):
            return False
        return self.schedule.fits(region, program)

    # -- one op ---------------------------------------------------------------------------------------------
    def _may_join(self, op: Op) -> bool:
        record = self.result.records[op.id]
        if record.role not in _ROLES or len(op.outputs) != 1 or overwritten_operand(record.config) is not None:
            return False
        values = [self.graph.value(v) for v in (*op.inputs, *op.outputs)]
        layouts = [self.result.layouts[v.id] for v in values]
        if any(v.dtype not in DTYPES for v in values) or any(not x.is_tile or x.is_host for x in layouts):
            return False
        if op.op == MOVE:
            return True
        if any(kind_in(v.shape, self._frame_of(op)) is None for v in values):
            return False
        whole_tiles = bool(values[0].shape) and values[0].shape[-1] % TILE == 0
        return accepts(op, len(values[0].shape)) and (whole_tiles or not needs_rows(op))

    def _frame_of(self, op: Op) -> tuple[int, ...]:
        """Shape that an op computes on: of what it reduces, else of its result."""
        return self.graph.value(op.inputs[0] if needs_rows(op) else op.outputs[0]).shape

    # -- a group as a region --------------------------------------------------------------------------------
    def _region(self, members: Sequence[str]) -> Region | None:
        ops = tuple(self.graph.op(op_id) for op_id in members)
        shape = self._frame(ops)
        if shape is None:
            return None
        kinds: dict[str, Kind] = {}
        for v in dict.fromkeys(v for op in ops for v in (*op.inputs, *op.outputs)):
            kind = kind_in(self.graph.value(v).shape, shape)
            if kind is None:
                return None
            kinds[v] = kind
        made = {v for op in ops for v in op.outputs}
        inputs = tuple(dict.fromkeys(v for op in ops for v in op.inputs if v not in made))
        outputs = tuple(v for op in ops for v in op.outputs if self._read_outside(v, members))
        if len(inputs) + len(outputs) > MAX_CIRCULAR_BUFFERS or not self._kinds_fit(ops, outputs, kinds):
            return None
        anchor = self.schedule.place(members, inputs, outputs)
        home = self._home(ops, shape, kinds, inputs, outputs) if anchor is not None else None
        if anchor is None or home is None:
            return None
        operands = [[self._operand(v, kinds[v], home) for v in values] for values in (inputs, outputs)]
        dtype = self.graph.value(ops[0].outputs[0]).dtype
        return Region(ops, anchor, shape, dtype, home, tuple(operands[0]), tuple(operands[1]), kinds)

    def _frame(self, ops: Iterable[Op]) -> tuple[int, ...] | None:
        """The frame of which all ops' frames are parts."""
        frames = list(dict.fromkeys(self._frame_of(op) for op in ops))
        whole = max(frames, key=prod)
        return whole if all(kind_in(f, whole) is not None for f in frames) else None

    def _read_outside(self, value: str, members: Sequence[str]) -> bool:
        readers = {op.id for op in self.graph.consumers(value)}
        return value in self.graph.outputs or not readers <= set(members)

    @staticmethod
    def _kinds_fit(ops: Iterable[Op], outputs: Sequence[str], kinds: dict[str, Kind]) -> bool:
        """Only copies of rows and scalars may be in a region, and not as its results: every core would write them."""
        small = (Kind.ROW, Kind.SCALAR)
        if any(kinds[v] in small for v in outputs):
            return False
        return all(op.op == MOVE or kinds[op.outputs[0]] not in small for op in ops)

    def _operand(self, value_id: str, kind: Kind, home: Home) -> Operand:
        value = self.graph.value(value_id)
        resident = kind is Kind.FULL and self.result.layouts[value_id] == home.layout
        return Operand(value_id, kind, tile_grid(value.shape), value.dtype, resident)

    # -- homes ------------------------------------------------------------------------------------------------
    def _home(
        self,
        ops: Sequence[Op],
        shape: tuple[int, ...],
        kinds: dict[str, Kind],
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> Home | None:
        """The layout that most of what is read and written has already."""
        boundary = (*inputs, *outputs)
        full = [v for v, kind in kinds.items() if kind is Kind.FULL]
        rows = any(needs_rows(op) or kinds[op.outputs[0]] is Kind.COLUMN for op in ops)
        best: tuple[int, Home] | None = None
        for layout in dict.fromkeys(self.result.layouts[v] for v in full):
            home = Home.of(layout, shape)
            if home is None or (rows and not home.whole_rows) or 2 * home.cores < self._cores(home, rows):
                continue
            moved = [v for v in boundary if not self._operand(v, kinds[v], home).resident]
            if all(home.locates(kinds[v]) for v in moved):
                resident = len(boundary) - len(moved)
                if best is None or resident > best[0]:
                    best = resident, home
        return None if best is None else best[1]

    def _cores(self, home: Home, rows: bool) -> int:
        """Cores that ops on the frame use at most: one per tile, or per row of tiles."""
        return min(home.frame[0] if rows else prod(home.frame), self.result.device.num_cores)
