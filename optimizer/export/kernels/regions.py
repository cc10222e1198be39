"""A region: ops of a result that one kernel computes, every core its shard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from optimizer.export.kernels.operations import is_matmul, needs_rows
from optimizer.export.kernels.placement import CoreMap, Home, Kind, Operand
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import COPY
from optimizer.layouts.memory_config import TensorMemoryLayout
from optimizer.layouts.tiling import TILE


@dataclass(frozen=True)
class Region:
    """Ops in schedule order, and where their tensors lie."""

    ops: tuple[Op, ...]
    anchor: str
    """The op at whose place in the schedule the kernel runs."""
    shape: tuple[int, ...]
    """Of the frame: the tensors that have all its rows and columns."""
    dtype: DType
    home: Home
    inputs: tuple[Operand, ...]
    """In the order of their first readers."""
    outputs: tuple[Operand, ...]
    """Results that others read, in schedule order."""
    kinds: Mapping[str, Kind]
    """Of every value."""
    depths: Mapping[str, int] = field(default_factory=dict)
    """Tiles of depth of every value that is an operand of a matmul."""

    @property
    def op_ids(self) -> tuple[str, ...]:
        return tuple(op.id for op in self.ops)

    @cached_property
    def made(self) -> tuple[str, ...]:
        """Values that the ops compute."""
        return tuple(v for op in self.ops for v in op.outputs)

    @cached_property
    def vanished(self) -> tuple[str, ...]:
        """Values that are no tensors any more."""
        kept = {o.value for o in self.outputs}
        return tuple(v for v in self.made if v not in kept)

    @cached_property
    def computed(self) -> tuple[Op, ...]:
        """The ops that are no mere copies."""
        return tuple(op for op in self.ops if op.op != COPY)

    @property
    def needs_rows(self) -> bool:
        """Whether an op works on whole rows."""
        return any(map(needs_rows, self.ops))

    @property
    def multiplies(self) -> bool:
        """Whether an op is a matmul."""
        return any(is_matmul(op) for op in self.ops)

    def shrunk(self, grid: tuple[int, int], shard: tuple[int, int]) -> Region:
        """The same computation on a smaller frame: `grid` shards of `shard` tiles; layouts keep their places.

        For execution on this machine. Both are cut down to what the region has; rows stay whole where ops need them.
        """
        spec = self.home.layout.shard_spec
        assert spec is not None
        shard = (min(shard[0], self.home.shard[0]), min(shard[1], self.home.shard[1]))
        grid = (min(grid[0], self.home.grid[0]), min(grid[1], self.home.grid[1]))
        frame = (grid[0] * shard[0], grid[1] * shard[1])
        small = replace(spec, grid_yx=grid, shape=(shard[0] * TILE, shard[1] * TILE))
        layout = replace(self.home.layout, memory=replace(self.home.layout.memory, shard_spec=small))
        core_map = self._small_core_map(grid)
        home = Home(layout, frame, shard, core_map)
        return replace(
            self,
            shape=(frame[0] * TILE, frame[1] * TILE),
            home=home,
            inputs=tuple(replace(o, tiles=o.kind.tiles(*frame, o.depth)) for o in self.inputs),
            outputs=tuple(replace(o, tiles=o.kind.tiles(*frame, o.depth)) for o in self.outputs),
        )

    def _small_core_map(self, grid: tuple[int, int]) -> CoreMap | None:
        """The cores of a small grid, two to a row where the layout leaves that open."""
        known = self.home.core_map
        if known is None:
            return None
        block = known.memory_layout is TensorMemoryLayout.BLOCK_SHARDED
        return replace(known, width=grid[1] if block else min(2, max(grid)))
