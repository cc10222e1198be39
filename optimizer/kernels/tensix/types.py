"""Types of the kernel IR's values. Shapes are in tiles of 32x32 elements."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from optimizer.ir.dtype import DType

TILE = 32
"""Rows and columns of a tile."""
HALF = "f16"
"""IEEE half, which the hardware computes with (`DataFormat::Float16`) but no tensor of ttnn 0.81.1 holds: a circular
buffer of it could be neither brought nor taken, and the FPU does not mix its exponents of 5 bits with those of bf16."""
NO_HALF = f"no tensor of ttnn holds {HALF}; bf16 has its size, f32 its digits"
"""Why it is refused, and what to take."""


@dataclass(frozen=True, slots=True)
class TileType:
    """One tile."""

    dtype: DType

    def __str__(self) -> str:
        return f"tile<{self.dtype.value}>"


@dataclass(frozen=True, slots=True)
class _Tiles:
    """So many rows and columns of tiles."""

    shape: tuple[int, int]
    dtype: DType

    @property
    def tiles(self) -> int:
        return prod(self.shape)

    @property
    def _text(self) -> str:
        return f"{'x'.join(map(str, self.shape))}x{self.dtype.value}"


@dataclass(frozen=True, slots=True)
class BlockType(_Tiles):
    """A block of tiles: what one wait or reserve of a circular buffer gives, and what block ops work on."""

    def __str__(self) -> str:
        return f"block<{self._text}>"


@dataclass(frozen=True, slots=True)
class CircularBufferType(_Tiles):
    """A circular buffer in L1 that holds `block_count` blocks; `tiles` are those of one block."""

    block_count: int = 2

    @property
    def block(self) -> BlockType:
        return BlockType(self.shape, self.dtype)

    @property
    def size_bytes(self) -> int:
        return self.tiles * self.block_count * self.dtype.tile_bytes

    def __str__(self) -> str:
        return f"cb<{self._text}, {self.block_count}>"


@dataclass(frozen=True, slots=True)
class TensorType(_Tiles):
    """A tensor in DRAM or L1, addressed by tile through a `TensorAccessor`."""

    def __str__(self) -> str:
        return f"tensor<{self._text}>"


@dataclass(frozen=True, slots=True)
class _Plain:
    """A type without parameters, by its name in small letters."""

    def __str__(self) -> str:
        return type(self).__name__.removesuffix("Type").lower()


class IndexType(_Plain):
    """A number known to the kernel: a loop counter, a coordinate, a tile's position."""


class TransferType(_Plain):
    """A transfer under way, until it is waited for."""


class SemaphoreType(_Plain):
    """A number in the L1 of every core, which all cores can set, add to and wait for."""


class PipeType(_Plain):
    """A way for blocks from one core to one core, or to all cores of a rectangle."""


class PipeNetType(_Plain):
    """Pipes that blocks of one circular buffer go through."""


Type = (
    TileType
    | BlockType
    | CircularBufferType
    | TensorType
    | IndexType
    | TransferType
    | SemaphoreType
    | PipeType
    | PipeNetType
)
