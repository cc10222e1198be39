"""LegalTensorLayoutAnalysis: every layout a tensor of a shape and scalar type may have, shared by all such values.

Rules (tt-mlir `LegalTensorLayoutAnalysis`): interleaved in DRAM and L1; block sharding over every grid of
the worker grid, height and width sharding over every core count; grids ascend and a layout whose shard
shape was already seen is dropped, so the smallest grid of each shard shape stays and no core is empty;
no grid may have more rows or columns than the tensor has tiles. Of ours: a row of a row-major tensor is only cut into
pieces of multiples of `PIECE` elements, and a tensor that takes more L1 per core than a plan may use is not laid out
so (tt-mlir leaves that to its OpModel, and such layouts count against `max_legal_layouts`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from optimizer.device import DeviceSpec
from optimizer.errors import StateError
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import (
    BufferType,
    PageLayout,
    TensorLayout,
    TensorMemoryLayout,
    interleaved,
)
from optimizer.layouts.tiling import TILE, l1_bytes_per_core, physical_shape, sharded_layout

Shape = tuple[int, ...]
PIECE = 8
"""16 bytes of bf16, what addresses in L1 and on the NoC are aligned to. tt-metal pads every piece to that and accepts
any, but some of its kernels then read 0 bytes, or write from addresses that are not aligned (run on the simulator,
which stops at both: a pool's block shards into shards of 1, 2 and 4 columns, a row-major silu into 2 and 6), and a
convolution that spreads such shards again computes with other channels (37 columns a shard: 13 % of the values wrong).
"""


@dataclass(frozen=True)
class TensorLayouts:
    """The pool of one tensor type."""

    interleaved: tuple[TensorLayout, ...]
    """DRAM first, then L1 if that can hold it."""
    sharded: tuple[TensorLayout, ...]
    """By number of cores, largest first; ties in the order block, height, width, then ascending grid."""
    too_large: tuple[TensorLayout, ...] = ()
    """Layouts that would be legal if L1 could hold them."""


class LegalTensorLayoutAnalysis:
    """Builds pools on demand, one per (shape, scalar type, page layout), for the scalar types of one graph."""

    name = "legal-tensor-layouts"

    def __init__(self, device: DeviceSpec, scalar_types: Collection[DType], l1_limit_bytes: int) -> None:
        """`scalar_types` are what `scalar_dtypes` found; `l1_limit_bytes` what a plan may use per core."""
        self.device = device
        self.scalar_types = frozenset(scalar_types)
        self.l1_limit_bytes = l1_limit_bytes
        self._pools: dict[tuple[Shape, DType, PageLayout], TensorLayouts] = {}

    @property
    def pool_count(self) -> int:
        return len(self._pools)

    def pool(self, shape: Shape, dtype: DType, page_layout: PageLayout) -> TensorLayouts:
        """All legal layouts of a tensor. StateError for a scalar type that the graph does not have."""
        key = (shape, dtype, page_layout)
        if key not in self._pools:
            if dtype not in self.scalar_types:
                raise StateError(f"no layouts are generated for {dtype}, which the graph does not have")
            self._pools[key] = self._held_by_l1(self._build(shape, page_layout), shape, dtype)
        return self._pools[key]

    def bytes_of(self, shape: Shape, dtype: DType, layout: TensorLayout) -> int:
        """L1 bytes per core that a tensor takes in a layout."""
        return l1_bytes_per_core(shape, dtype, layout, self.device)

    def _held_by_l1(self, pool: TensorLayouts, shape: Shape, dtype: DType) -> TensorLayouts:
        def fits(layout: TensorLayout) -> bool:
            return self.bytes_of(shape, dtype, layout) <= self.l1_limit_bytes

        layouts = (*pool.interleaved, *pool.sharded)
        too_large = tuple(layout for layout in layouts if not fits(layout))
        return TensorLayouts(tuple(filter(fits, pool.interleaved)), tuple(filter(fits, pool.sharded)), too_large)

    def _build(self, shape: Shape, page: PageLayout) -> TensorLayouts:
        plain = (interleaved(BufferType.DRAM, page), interleaved(BufferType.L1, page))
        found: list[TensorLayout] = []
        for memory_layout in (
            TensorMemoryLayout.BLOCK_SHARDED,
            TensorMemoryLayout.HEIGHT_SHARDED,
            TensorMemoryLayout.WIDTH_SHARDED,
        ):
            seen: set[tuple[int, int]] = set()
            for grid_yx in self._grids(memory_layout, shape, page):
                layout = sharded_layout(shape, memory_layout, grid_yx, self.device, page)
                assert layout.shard_spec is not None
                if _cuts_rows_unaligned(shape, layout):
                    continue
                if layout.shard_spec.shape not in seen:
                    seen.add(layout.shard_spec.shape)
                    found.append(layout)
        found.sort(key=lambda layout: -layout.num_shard_cores)
        return TensorLayouts(plain, tuple(found))

    def _grids(self, memory_layout: TensorMemoryLayout, shape: Shape, page: PageLayout) -> Iterator[tuple[int, int]]:
        """Virtual grids in ascending order, no larger than the tensor in tiles (rows, if row-major)."""
        rows, cols = physical_shape(shape, page)
        unit = TILE if page is PageLayout.TILE else 1
        height, width = rows // unit, cols // unit
        max_y, max_x = self.device.grid_yx
        if memory_layout is TensorMemoryLayout.BLOCK_SHARDED:
            for y in range(1, min(max_y, height) + 1):
                for x in range(1, min(max_x, width) + 1):
                    yield (y, x)
        elif memory_layout is TensorMemoryLayout.HEIGHT_SHARDED:
            for n in range(1, min(self.device.num_cores, height) + 1):
                yield (n, 1)
        else:
            for n in range(1, min(self.device.num_cores, width) + 1):
                yield (1, n)


def _cuts_rows_unaligned(shape: Shape, layout: TensorLayout) -> bool:
    spec = layout.shard_spec
    if spec is None or layout.is_tile:
        return False
    width = spec.shape[1]
    return bool(width % PIECE) and width < physical_shape(shape, layout.page_layout)[1]
