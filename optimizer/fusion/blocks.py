"""How a core's shard is cut into the blocks that a kernel computes one after the other.

A shard is one block if nothing is brought, taken or handed on through L1; otherwise blocks have about `BLOCK_TILES`
tiles, so that their buffers stay small.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from optimizer.fusion.placement import Kind, Tiles, largest_divisor
from optimizer.fusion.regions import Region

BLOCK_TILES = 16
"""Tiles of a block whose buffers take L1: two full sections of DST."""


@dataclass(frozen=True)
class Blocks:
    """How a shard is cut: blocks of `shape` tiles, row by row."""

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
