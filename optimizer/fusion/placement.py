"""How a region's tensors lie on its cores: frames of tiles, shards, and where a core's shard begins.

A region computes on one frame: the tensors that have all its rows and columns. Smaller operands are repeated, and the
two operands of a matmul have a depth of their own.

    full     rows x columns        row      1 x columns        left    rows x depth
    column   rows x 1              scalar   1 x 1              right   depth x columns

Its home is one sharded layout of the frame. Every core computes its shard: operands and results with that layout lie
there already, others are brought and taken tile by tile.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.index_expr import IndexExpr, const
from optimizer.layouts.memory_config import CoreRange, ShardOrientation, TensorLayout, TensorMemoryLayout
from optimizer.layouts.tiling import TILE, tile_grid

Tiles = tuple[int, int]
"""Rows and columns, in tiles."""


class Kind(StrEnum):
    """Part of the frame that a tensor covers."""

    FULL = "full"
    COLUMN = "column"
    ROW = "row"
    SCALAR = "scalar"
    LEFT = "left"
    RIGHT = "right"

    @property
    def has_rows(self) -> bool:
        """Whether each core has its own rows of it."""
        return self in (Kind.FULL, Kind.COLUMN, Kind.LEFT)

    @property
    def has_columns(self) -> bool:
        return self in (Kind.FULL, Kind.ROW, Kind.RIGHT)

    def tiles(self, rows: int, columns: int, depth: int) -> Tiles:
        """Tiles of such an operand of a frame, or of a part of one."""
        return (
            rows if self.has_rows else depth if self is Kind.RIGHT else 1,
            columns if self.has_columns else depth if self is Kind.LEFT else 1,
        )


def plain_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without leading ones, of rank 2 at least."""
    padded = (1,) * (2 - len(shape)) + shape
    while len(padded) > 2 and padded[0] == 1:
        padded = padded[1:]
    return padded


def kind_in(shape: tuple[int, ...], frame: tuple[int, ...]) -> Kind | None:
    """What a tensor of this shape is to a frame; None if it is no part of it."""
    own, whole = plain_shape(shape), plain_shape(frame)
    if own == whole:
        return Kind.FULL
    if prod(own) == 1:
        return Kind.SCALAR
    if own == (*whole[:-1], 1):
        return Kind.COLUMN
    return Kind.ROW if own == (1, whole[-1]) else None


@dataclass(frozen=True)
class CoreMap:
    """Numbers of the cores of a shard grid from their coordinates: row by row from `origin`, `width` to a row."""

    memory_layout: TensorMemoryLayout
    origin: tuple[int, int]
    """(x, y) of the first core."""
    width: int

    @staticmethod
    def of(layout: TensorLayout) -> CoreMap | None:
        """None where coordinates do not tell a core's shard: other orientations, ranges that are no row-wise fill."""
        spec = layout.shard_spec
        if spec is None or spec.orientation is not ShardOrientation.ROW_MAJOR or not _is_fill(spec.core_ranges):
            return None
        x0, y0, x1, _ = spec.core_ranges[0]
        block = layout.memory_layout is TensorMemoryLayout.BLOCK_SHARDED
        if block and (len(spec.core_ranges) > 1 or x1 - x0 + 1 != spec.grid_yx[1]):
            return None
        return CoreMap(layout.memory_layout, (x0, y0), x1 - x0 + 1)

    def first_tile(self, shard: Tiles, x: IndexExpr, y: IndexExpr) -> tuple[IndexExpr, IndexExpr]:
        """Row and column of the first tile of the shard of the core at (x, y)."""
        right, down = x + -self.origin[0], y + -self.origin[1]
        number = down * self.width + right
        rows = {TensorMemoryLayout.HEIGHT_SHARDED: number, TensorMemoryLayout.BLOCK_SHARDED: down}
        columns = {TensorMemoryLayout.WIDTH_SHARDED: number, TensorMemoryLayout.BLOCK_SHARDED: right}
        row, column = rows.get(self.memory_layout, const(0)), columns.get(self.memory_layout, const(0))
        return row * shard[0], column * shard[1]


def _is_fill(ranges: tuple[CoreRange, ...]) -> bool:
    """Rectangles one below the other from the same column, all but the last one equally wide."""
    x0, _, x1, below = ranges[0]
    for n, (a, b, c, d) in enumerate(ranges[1:], start=1):
        last = n == len(ranges) - 1
        if a != x0 or b != below + 1 or c > x1 or (not last and c != x1) or (last and c != x1 and d != b):
            return False
        below = d
    return True


@dataclass(frozen=True)
class Home:
    """The sharded layout on whose cores a region runs."""

    layout: TensorLayout
    frame: Tiles
    shard: Tiles
    core_map: CoreMap | None

    @staticmethod
    def of(layout: TensorLayout, shape: tuple[int, ...]) -> Home | None:
        """None unless the layout shards whole tiles in L1 with a known grid."""
        spec = layout.shard_spec
        if spec is None or not layout.is_l1 or not layout.is_tile or spec.shape[0] % TILE or spec.shape[1] % TILE:
            return None
        shard = (spec.shape[0] // TILE, spec.shape[1] // TILE)
        return Home(layout, tile_grid(shape), shard, CoreMap.of(layout))

    @property
    def grid(self) -> tuple[int, int]:
        """Shards in rows and columns."""
        spec = self.layout.shard_spec
        assert spec is not None
        return spec.grid_yx

    @property
    def whole_rows(self) -> bool:
        """Whether every core has its rows from the first to the last column."""
        return self.shard[1] == self.frame[1]

    def locates(self, kind: Kind) -> bool:
        """Whether every core can tell from its coordinates which tiles of such an operand are its own."""
        spec = self.layout.shard_spec
        assert spec is not None
        if self.core_map is None or spec.num_cores != prod(self.grid):
            return False
        rows, columns = (self.grid[k] * self.shard[k] == self.frame[k] for k in range(2))
        return (rows or not kind.has_rows) and (columns or not kind.has_columns)

    def holds(self, layout: TensorLayout, kind: Kind, depth: int) -> bool:
        """Whether a tensor with this layout lies, part by part, on the cores that compute with it."""
        if kind is Kind.FULL:
            return layout == self.layout
        own, spec = self.layout.shard_spec, layout.shard_spec
        if kind not in (Kind.LEFT, Kind.RIGHT) or own is None or spec is None or not layout.is_l1 or not layout.is_tile:
            return False
        own_rows = kind is Kind.LEFT
        shards = TensorMemoryLayout.HEIGHT_SHARDED if own_rows else TensorMemoryLayout.WIDTH_SHARDED
        side, other = (0, 1) if own_rows else (1, 0)
        alike = (layout.memory_layout, spec.grid_yx, spec.core_ranges, spec.orientation, spec.shape[side])
        mine = (self.layout.memory_layout, own.grid_yx, own.core_ranges, own.orientation, own.shape[side])
        return alike == mine and layout.memory_layout is shards and spec.shape[other] == depth * TILE

    @property
    def cores(self) -> int:
        return self.layout.num_shard_cores

    @property
    def tiles(self) -> int:
        """Tiles per core."""
        return prod(self.shard)


@dataclass(frozen=True)
class Operand:
    """A tensor that a region reads or writes."""

    value: str
    kind: Kind
    tiles: Tiles
    """Of the whole tensor."""
    dtype: DType
    resident: bool
    """Lies on the region's cores already, shard by shard; otherwise it is brought or taken."""
    depth: int = 0
    """Tiles of the other dimension of a matmul's operand."""


def largest_divisor(number: int, most: int) -> int:
    """The largest divisor that is at most `most`, 1 at least."""
    return max((d for d in range(1, min(number, max(most, 1)) + 1) if number % d == 0), default=1)
