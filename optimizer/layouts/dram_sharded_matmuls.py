"""Matmuls that read operand B from shards in the DRAM banks: where B and a bias lie, and the program configs.

Every bank holds a few columns of B, all rows of them, and a core beside it (on Blackhole up to three) reads and
multiplies them; operand A, of one row of tiles, comes by multicast in blocks, from the cores that hold its shards, in
turn. Rules: tt-metal `matmul_device_operation.cpp` and `matmul_multicore_reuse_mcast_dram_sharded_program_factory.cpp`.
"""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.matmul_configs import in0_block_widths
from optimizer.layouts.memory_config import (
    BufferType,
    MemoryConfig,
    PageLayout,
    ShardOrientation,
    ShardSpec,
    TensorLayout,
    TensorMemoryLayout,
)
from optimizer.layouts.op_config import MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig
from optimizer.layouts.tiling import TILE, ceil_div, physical_shape

WEIGHT_DTYPES = (DType.BF16, DType.BFP8_B, DType.BFP4_B)
"""Element types of B that are offered: f32 is not run at the rate of the others, nor was its time published."""
MOST_READERS = 3
"""Cores that may read one bank, on Blackhole; one on Wormhole."""


def columns_per_bank(columns: int, banks: int, readers: int) -> int:
    """Tiles of one row that every bank holds, of so many: an equal number per reader, so that the last banks may be
    empty. tt-metal takes other numbers too and then reads other columns than it should."""
    return readers * ceil_div(columns, banks * readers)


def bank_shards(shape: tuple[int, ...], banks: int, readers: int) -> TensorLayout:
    """The layout of a tiled tensor cut into columns over so many DRAM banks, with so many readers each."""
    rows, width = physical_shape(shape, PageLayout.TILE)
    columns = columns_per_bank(width // TILE, banks, readers)
    spec = ShardSpec((1, banks), (rows, columns * TILE), ((0, 0, banks - 1, 0),))
    return TensorLayout(PageLayout.TILE, MemoryConfig(TensorMemoryLayout.WIDTH_SHARDED, BufferType.DRAM, spec))


def columns_in_banks(tensor: TensorLayout, shape: tuple[int, ...]) -> int:
    """Tiles of one row in every bank, of a tensor cut into columns over the banks from the first on; 0 if it is not."""
    spec = tensor.shard_spec
    if spec is None or not tensor.is_over_banks or not tensor.is_tile:
        return 0
    rows, _ = physical_shape(shape, PageLayout.TILE)
    in_order = len(spec.core_ranges) == 1 and spec.core_ranges[0][:2] == (0, 0)
    wide = tensor.memory_layout is TensorMemoryLayout.WIDTH_SHARDED and spec.shape[0] == rows
    return spec.shape[1] // TILE if in_order and wide else 0


def shared_evenly(columns: int, width: int, readers: int) -> bool:
    """Whether so many tiles of one row, `columns` in every bank that is not empty, are as many as readers think."""
    return columns > 0 and columns_per_bank(width, ceil_div(width, columns), readers) == columns


def readers_per_bank(device: DeviceSpec) -> tuple[int, ...]:
    """Numbers of cores that may read one bank."""
    return tuple(range(1, MOST_READERS + 1)) if device.arch == "blackhole" else (1,)


def dram_sharded_configs(
    a: TensorLayout, result: TensorLayout, k_tiles: int, fused_activation: str | None, readers: int
) -> Iterator[MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig]:
    """The configs for an operand A and a result of one row of tiles in width shards, with every width of A's blocks.

    A's shards must be equal; a block is part of one of them or several.
    """
    given, wanted = a.shard_spec, result.shard_spec
    if given is None or wanted is None or not (_one_row(a) and _one_row(result)):
        return
    width = given.shape[1] // TILE
    if k_tiles % width or given.num_cores != k_tiles // width:
        return
    for block in in0_block_widths(k_tiles):
        if width % block == 0 or block % width == 0:
            yield MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(
                block, 1, wanted.shape[1] // TILE, fused_activation, readers
            )


def _one_row(layout: TensorLayout) -> bool:
    spec = layout.shard_spec
    return (
        spec is not None
        and layout.is_l1
        and layout.memory_layout is TensorMemoryLayout.WIDTH_SHARDED
        and spec.shape[0] == TILE
        and spec.orientation is ShardOrientation.ROW_MAJOR
    )
