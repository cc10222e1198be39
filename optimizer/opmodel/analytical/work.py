"""What an op does, in numbers that its time depends on: the bridge between a query and the time formulas."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Place(StrEnum):
    """Where the bytes of an operand or result are."""

    DRAM = "dram"
    L1 = "l1"
    """Interleaved over the L1 banks: every access crosses the NoC."""
    SHARD = "shard"
    """In the L1 of the core that uses it."""
    HOST = "host"


@dataclass(frozen=True, slots=True)
class Piece:
    """One operand or result."""

    size: int
    """Bytes moved, padding included."""
    tiles: int
    """32x32 tiles (for row-major data: the tiles its elements would fill)."""
    place: Place
    sticks: int = 0
    """Rows that are moved one by one; 0 for tiled data."""


@dataclass(frozen=True, slots=True)
class Work:
    """One op on one board. Tile counts of `block` and `depth` are those of one core."""

    family: str
    """Which formula: a key of `timing.FORMULAS`."""
    op: str
    """Short op name (`relu`), for constants that differ by op."""
    cores: int
    reads: tuple[Piece, ...] = ()
    writes: tuple[Piece, ...] = ()
    block: tuple[int, int] = (0, 0)
    """Output tiles (rows, columns) of one core; matmul and conv."""
    blocks: int = 1
    """Such blocks that one core computes one after the other."""
    depth: int = 0
    """Inner tiles of a matmul."""
    tile_bytes: tuple[int, int] = (0, 0)
    """Bytes of a tile of A and of B."""
    fidelity: str = "HiFi2"
    fp32: bool = False
    """32-bit accumulation in the destination registers."""
    passes: float = 1.0
    """How often the inputs are gone through: window size of a pool, broadcasts."""
    gap: bool = False
    """Host time with a trace: the gap between ops is part of it."""
    traits: frozenset[str] = field(default_factory=frozenset)
    """`height_sharded` (A never moves), `broadcast`, `wide` (4-byte elements)."""
