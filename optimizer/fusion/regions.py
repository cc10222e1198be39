"""A region: ops of a result that one kernel computes, every core its shard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from optimizer.fusion.operations import is_matmul, needs_rows
from optimizer.fusion.placement import CoreMap, Home, Kind, Operand, Tiles, largest_divisor
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import COPY
from optimizer.layouts.memory_config import TensorMemoryLayout

BLOCK_TILES = 16
"""Tiles of a block whose buffers take L1: two full sections of DST."""


@dataclass(frozen=True)
class Scheme:
    """How a region's operands come to its cores (`sharing.py`)."""

    multicast: bool = False
    """What several cores read is read by one and multicast; otherwise every core reads for itself."""
    k_block: int = 0
    """Tiles of a product's depth that are brought and multiplied at a time; 0: all."""


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
    scheme: Scheme = Scheme()

    def fed(self, scheme: Scheme) -> Region:
        """The region with its operands brought in another way."""
        return replace(self, scheme=scheme)

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

    def alone(self, op: Op) -> Region:
        """One of the ops as a kernel of its own, to which all its tensors are brought: those of a product in the
        smallest pieces, unless the region brings them whole for every core."""
        pieces = Scheme(k_block=1) if is_matmul(op) and self.scheme != Scheme() else Scheme()
        cores = CoreMap(TensorMemoryLayout.BLOCK_SHARDED, (0, 0), 1)
        return replace(
            self,
            ops=(op,),
            anchor=op.id,
            home=replace(self.home, core_map=cores),
            inputs=tuple(self._brought(v) for v in dict.fromkeys(op.inputs)),
            outputs=tuple(self._brought(v) for v in op.outputs),
            scheme=pieces,
        )

    def _brought(self, value: str) -> Operand:
        kind, depth = self.kinds[value], self.depths.get(value, 0)
        return Operand(value, kind, kind.tiles(*self.home.frame, depth), self.dtype, resident=False, depth=depth)


# -- blocks ------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Blocks:
    """How a core's shard is cut into what a kernel computes one after the other: blocks of `shape` tiles, row by row.

    A shard is one block if nothing is brought, taken or handed on through L1; otherwise blocks have about `BLOCK_TILES`
    tiles, so that their buffers stay small.
    """

    shape: Tiles
    shard: Tiles

    @property
    def across(self) -> int:
        """Blocks side by side."""
        return self.shard[1] // self.shape[1]

    @property
    def count(self) -> int:
        return prod(self.shard) // prod(self.shape)

    def of(self, kind: Kind, depth: int = 0) -> Tiles:
        """Tiles of an operand's part of a block."""
        return kind.tiles(*self.shape, depth)

    def once(self, kind: Kind) -> bool:
        """Whether all blocks share one part of an operand."""
        down = self.count // self.across
        return (down == 1 or not kind.has_rows) and (self.across == 1 or not kind.has_columns)


def blocks_of(region: Region) -> Blocks:
    """The blocks of a region's shard."""
    rows, columns = region.home.shard
    if region.scheme.k_block:
        return Blocks((rows, columns), (rows, columns))
    if region.multiplies and rows == 1 and not region.needs_rows:
        # columns of the right operand stream by, the left one stays
        return Blocks((1, 1), (rows, columns))
    moved = any(not o.resident for o in (*region.inputs, *region.outputs))
    if not moved and not region.needs_rows:
        return Blocks((rows, columns), (rows, columns))
    if columns > BLOCK_TILES and not region.needs_rows and not region.multiplies:
        return Blocks((1, largest_divisor(columns, BLOCK_TILES)), (rows, columns))
    return Blocks((largest_divisor(rows, BLOCK_TILES // columns), columns), (rows, columns))
