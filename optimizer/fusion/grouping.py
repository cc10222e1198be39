"""A group of ops as a region: its frame, the parts of it that tensors cover, and the cores where it is at home."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from optimizer.errors import InfeasibleError, LimitError
from optimizer.fusion.lowering import lowered, program_of
from optimizer.fusion.operations import accepts, is_matmul, needs_rows
from optimizer.fusion.placement import Home, Kind, Operand, kind_in, plain_shape
from optimizer.fusion.regions import Region
from optimizer.fusion.sharing import schemes as ways_to_bring
from optimizer.fusion.timing import cost_of
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import COPY
from optimizer.layouts.op_config import overwritten_operand
from optimizer.layouts.tiling import TILE, tile_grid
from optimizer.result import OptimizedGraph, Role

_ROLES = (Role.COMPUTE, Role.RESHARD, Role.SPILL, Role.LOAD)
DTYPES = (DType.BF16,)
"""Element types of regions. Not f32: the FPU, which multiplies matrices and reduces rows, reads it at 19 bits, and TTNN
decides for itself where that is enough; a copy to bf16 is an op of the graph."""


def may_join(result: OptimizedGraph, op: Op) -> bool:
    """Whether an op can be part of a region: tiles of one element type, and a recipe that covers it."""
    graph = result.graph
    record = result.records[op.id]
    if record.role not in _ROLES or len(op.outputs) != 1 or overwritten_operand(record.config) is not None:
        return False
    values = [graph.value(v) for v in (*op.inputs, *op.outputs)]
    layouts = [result.layouts[v.id] for v in values]
    if any(v.dtype not in DTYPES for v in values):
        return False
    if any(not x.is_tile or x.is_host or x.is_over_banks for x in layouts):
        return False
    if op.op == COPY:
        return True
    if not accepts(op, len(values[0].shape)):
        return False
    if is_matmul(op):
        return _is_matmul_of_tiles(graph, op)
    if any(kind_in(v.shape, frame_of(graph, op)) is None for v in values):
        return False
    return not needs_rows(op) or values[0].shape[-1] % TILE == 0


def _is_matmul_of_tiles(graph: Graph, op: Op) -> bool:
    """Rows times a matrix, over a depth of whole tiles (what is beyond it is not known to be zero)."""
    left, right, *rest = (graph.value(v).shape for v in op.inputs)
    result = graph.value(op.outputs[0]).shape
    if len(left) < 2 or len(plain_shape(right)) != 2 or left[-1] % TILE:
        return False
    fits = plain_shape(left)[:-1] == plain_shape(result)[:-1]
    return fits and all(kind_in(shape, result) is Kind.ROW for shape in rest)


def frame_of(graph: Graph, op: Op) -> tuple[int, ...]:
    """Shape that an op computes on: of what it reduces, else of its result."""
    return graph.value(op.inputs[0] if needs_rows(op) else op.outputs[0]).shape


Kinds = dict[str, Kind]


@dataclass(frozen=True)
class Group:
    """Ops in schedule order, at least one of which computes, that cover a frame."""

    result: OptimizedGraph
    ops: tuple[Op, ...]
    shape: tuple[int, ...]
    """Of the frame."""
    kinds: Mapping[str, Kind]
    depths: Mapping[str, int]
    inputs: tuple[str, ...]
    """Values that it reads, in the order of their first readers."""
    outputs: tuple[str, ...]
    """Results that others read."""
    anchor: str
    """The op in whose place it can run."""

    def regions(self) -> tuple[Region, ...]:
        """The region at each of the group's homes, in each of its schemes."""
        return tuple(scheme for home in self.homes() for scheme in self.schemes(self._at(home)))

    def homes(self) -> tuple[Home, ...]:
        """Layouts on at least half of the cores it could use; first the one that most of what is read and written has.

        Everything else must be movable: cores know which of its tiles are theirs.
        """
        layouts = dict.fromkeys(self.result.layouts[v] for v, kind in self.kinds.items() if kind is Kind.FULL)
        homes = [home for layout in layouts if (home := Home.of(layout, self.shape)) and self._suits(home)]
        return tuple(sorted(homes, key=lambda home: len(self._moved(home))))

    def at(self, home: Home) -> Region | None:
        """The region at a home where perhaps none of its tensors lies; None if it cannot run there."""
        return self._at(home) if self._suits(home) else None

    def schemes(self, region: Region) -> tuple[Region, ...]:
        """The region in each of its schemes that compiles, the fastest first."""
        if not region.multiplies:
            return (region,)
        result = self.result
        priced: list[tuple[int, Region]] = []
        for scheme in ways_to_bring(region):
            fed = region.fed(scheme)
            try:
                cost = cost_of(fed, lowered(program_of(fed), result.device), result.layouts, result.device)
            except (InfeasibleError, LimitError):
                continue
            priced.append((cost.time_ns, fed))
        return tuple(fed for _, fed in sorted(priced, key=lambda pair: pair[0]))

    def _at(self, home: Home) -> Region:
        inputs, outputs = (tuple(self._operand(v, home) for v in values) for values in (self.inputs, self.outputs))
        dtype = self.result.graph.value(self.ops[0].outputs[0]).dtype
        return Region(self.ops, self.anchor, self.shape, dtype, home, inputs, outputs, self.kinds, self.depths)

    def _operand(self, value_id: str, home: Home) -> Operand:
        """A value as a region at this home has it."""
        value, kind, depth = self.result.graph.value(value_id), self.kinds[value_id], self.depths.get(value_id, 0)
        resident = home.holds(self.result.layouts[value_id], kind, depth)
        return Operand(value_id, kind, tile_grid(value.shape), value.dtype, resident, depth)

    def _suits(self, home: Home) -> bool:
        """Whether the ops can run there, with what they read and write brought and taken as far as it is elsewhere."""
        rows = any(needs_rows(op) or self.kinds[op.outputs[0]] is Kind.COLUMN for op in self.ops)
        if (rows and not home.whole_rows) or 2 * home.cores < self._cores(home, rows):
            return False
        return all(home.locates(o.kind) for o in self._moved(home))

    def _moved(self, home: Home) -> list[Operand]:
        return [o for v in (*self.inputs, *self.outputs) if not (o := self._operand(v, home)).resident]

    def _cores(self, home: Home, rows: bool) -> int:
        """Cores that ops on the frame use at most: one per tile, or per row of tiles."""
        return min(home.frame[0] if rows else prod(home.frame), self.result.device.num_cores)


# -- frames ------------------------------------------------------------------------------------------------
def frame(graph: Graph, ops: Sequence[Op]) -> tuple[tuple[int, ...], Kinds, dict[str, int]] | None:
    """Shape of the frame that ops cover, the part of it that every value is, and the depths of the operands of matmuls;
    None if some value is no part of it."""
    frames = list(dict.fromkeys(frame_of(graph, op) for op in ops if op.op != COPY))
    if not frames:
        return None
    shape = max(frames, key=prod)
    factors = _matmul_operands(ops)
    if factors is None:
        return None
    grids = {v: tile_grid(graph.value(v).shape) for v in factors}
    depths = {v: grids[v][1] if kind is Kind.LEFT else grids[v][0] for v, kind in factors.items()}
    kinds = dict(factors)
    for v in dict.fromkeys(v for op in ops for v in (*op.inputs, *op.outputs)):
        kind = kinds.get(v) or kind_in(graph.value(v).shape, shape)
        if kind is None:
            return None
        kinds[v] = kind
    if any(kind_in(f, shape) is None for f in frames) or not all(_uses_agree(op, kinds) for op in ops):
        return None
    return shape, kinds, depths


def _matmul_operands(ops: Sequence[Op]) -> Kinds | None:
    """Kinds of the operands of matmuls and of what they are copies of; None if one is both."""
    found: list[tuple[str, Kind]] = []
    for op in ops:
        if is_matmul(op):
            found += [(op.inputs[0], Kind.LEFT), (op.inputs[1], Kind.RIGHT)]
    kinds = dict(found)
    for op in reversed(ops):
        if op.op == COPY and op.outputs[0] in kinds:
            found.append((op.inputs[0], kinds[op.outputs[0]]))
            kinds[op.inputs[0]] = kinds[op.outputs[0]]
    return kinds if all(kinds[v] is kind for v, kind in found) else None


def _uses_agree(op: Op, kinds: Kinds) -> bool:
    """Whether operands of matmuls are nothing else, and a copy is of what it copies."""
    if op.op == COPY:
        return kinds[op.inputs[0]] is kinds[op.outputs[0]]
    others = op.inputs[2:] if is_matmul(op) else op.inputs
    return all(kinds[v] not in (Kind.LEFT, Kind.RIGHT) for v in (*others, *op.outputs))


def each_core_gives(ops: Sequence[Op], outputs: Sequence[str], kinds: Kinds) -> bool:
    """Whether each core can give its part of these results: full ones and columns, and nothing else computed."""
    computed = (op.outputs[0] for op in ops if op.op != COPY)
    return all(kinds[v] in (Kind.FULL, Kind.COLUMN) for v in (*outputs, *computed))
