"""A group of ops as a region: its frame, the parts of it that tensors cover, and the cores where it is at home."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from optimizer.fusion.operations import accepts, is_matmul, needs_rows
from optimizer.fusion.placement import Home, Kind, Operand, kind_in, plain_shape
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


@dataclass
class Group:
    """Ops in schedule order, at least one of which computes."""

    result: OptimizedGraph
    ops: tuple[Op, ...]
    shape: tuple[int, ...] = ()
    kinds: dict[str, Kind] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)

    def covers_a_frame(self) -> bool:
        """Finds the frame and the kinds of all values; False if some value is no part of it."""
        graph = self.result.graph
        frames = list(dict.fromkeys(frame_of(graph, op) for op in self.ops if op.op != COPY))
        if not frames:
            return False
        self.shape = max(frames, key=prod)
        if not self._find_matmul_operands():
            return False
        for v in dict.fromkeys(v for op in self.ops for v in (*op.inputs, *op.outputs)):
            kind = self.kinds.get(v) or kind_in(graph.value(v).shape, self.shape)
            if kind is None:
                return False
            self.kinds[v] = kind
        return all(kind_in(f, self.shape) is not None for f in frames) and self._uses_agree()

    def _find_matmul_operands(self) -> bool:
        """Kinds of the operands of matmuls and of what they are copies of; False if one is both."""
        found: list[tuple[str, Kind]] = []
        for op in self.ops:
            if is_matmul(op):
                found += [(op.inputs[0], Kind.LEFT), (op.inputs[1], Kind.RIGHT)]
        self.kinds = dict(found)
        for op in reversed(self.ops):
            if op.op == COPY and op.outputs[0] in self.kinds:
                found.append((op.inputs[0], self.kinds[op.outputs[0]]))
                self.kinds[op.inputs[0]] = self.kinds[op.outputs[0]]
        grids = {v: tile_grid(self.result.graph.value(v).shape) for v in self.kinds}
        self.depths = {v: grids[v][1] if kind is Kind.LEFT else grids[v][0] for v, kind in self.kinds.items()}
        return all(self.kinds[v] is kind for v, kind in found)

    def _uses_agree(self) -> bool:
        """Operands of matmuls are nothing else, and copies are of what they copy."""
        for op in self.ops:
            if op.op == COPY:
                if self.kinds[op.inputs[0]] is not self.kinds[op.outputs[0]]:
                    return False
            elif any(self.kinds[v] in (Kind.LEFT, Kind.RIGHT) for v in (*op.inputs, *op.outputs)):
                others = op.inputs[2:] if is_matmul(op) else op.inputs
                if any(self.kinds[v] in (Kind.LEFT, Kind.RIGHT) for v in (*others, *op.outputs)):
                    return False
        return True

    def gives(self, outputs: Sequence[str]) -> bool:
        """Whether each core can give its part of these results: full ones and columns, and nothing else computed."""
        own = (Kind.FULL, Kind.COLUMN)
        computed = (op.outputs[0] for op in self.ops if op.op != COPY)
        return all(self.kinds[v] in own for v in (*outputs, *computed))

    def operand(self, value_id: str, home: Home) -> Operand:
        """A value as a region at this home has it."""
        value, kind, depth = self.result.graph.value(value_id), self.kinds[value_id], self.depths.get(value_id, 0)
        resident = home.holds(self.result.layouts[value_id], kind, depth)
        return Operand(value_id, kind, tile_grid(value.shape), value.dtype, resident, depth)

    def homes(self, boundary: Iterable[str]) -> tuple[Home, ...]:
        """Layouts on at least half of the cores it could use; first the one that most of what is read and written has.

        Everything else must be movable: cores know which of its tiles are theirs.
        """
        values = tuple(boundary)
        layouts = dict.fromkeys(self.result.layouts[v] for v, kind in self.kinds.items() if kind is Kind.FULL)
        homes = [home for layout in layouts if (home := Home.of(layout, self.shape)) and self.suits(home, values)]
        return tuple(sorted(homes, key=lambda home: len(self._moved(home, values))))

    def suits(self, home: Home, boundary: Iterable[str]) -> bool:
        """Whether the ops can run there, with what they read and write brought and taken as far as it is elsewhere."""
        rows = any(needs_rows(op) or self.kinds[op.outputs[0]] is Kind.COLUMN for op in self.ops)
        if (rows and not home.whole_rows) or 2 * home.cores < self._cores(home, rows):
            return False
        return all(home.locates(o.kind) for o in self._moved(home, boundary))

    def _moved(self, home: Home, boundary: Iterable[str]) -> list[Operand]:
        return [o for v in boundary if not (o := self.operand(v, home)).resident]

    def _cores(self, home: Home, rows: bool) -> int:
        """Cores that ops on the frame use at most: one per tile, or per row of tiles."""
        return min(home.frame[0] if rows else prod(home.frame), self.result.device.num_cores)
