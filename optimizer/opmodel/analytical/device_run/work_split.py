"""How tt-metal spreads tiles over cores when it tilizes or untilizes (`work_split_tilize.hpp`, 0.81).

Whether the circular buffers fit beside what is in L1 is asked by ops that choose a program by it:
`data_movement/common/common.cpp` (`get_pending_l1_output_reservation`, `is_enough_space`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, MemoryConfig, PageLayout, TensorLayout
from optimizer.layouts.tiling import ceil_div
from optimizer.opmodel.analytical.case import refuse
from optimizer.opmodel.analytical.device_run.session import Session, Shape
from optimizer.opmodel.analytical.tensors import l1_bytes
from optimizer.opmodel.base import TensorSpec

WIDE_ROW_TILES = 32
"""Rows of more tiles than this may be cut into blocks."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Square blocks of tiles: their size, the number that has one, and the width of those at the end of a row."""

    cores: int
    sub_block: int
    cliff: int
    """Tiles across the narrow blocks at the end of a row; 0 when every block is whole."""


def ncores(cores: int, blocks: int) -> int:
    """`compute_ncores`: cores that get a row of tiles each, several when there are more rows than cores."""
    each = ceil_div(blocks, cores)
    return ceil_div(blocks, each) if each else 0


@lru_cache(maxsize=4096)
def _square(least: int, width: int, height: int, cores: int) -> int:
    """Side of the smallest square block of at least `least` tiles that leaves fewer blocks than cores."""
    root = isqrt(least)
    if root * root == least and ceil_div(width, root) * ceil_div(height, root) < cores:
        return root
    for side in range(root + 1, width * height + 1):
        if ceil_div(width, side) * ceil_div(height, side) < cores:
            return side
    return 1


def blocked_cores(cores: int, width: int, height: int, tiles: int) -> int:
    """`compute_ncores_wh`: blocks that a `height` x `width` matrix of `tiles` tiles is cut into."""
    side = _square(ceil_div(tiles, cores), width, height, cores)
    return ceil_div(width, side) * ceil_div(height, side)


@lru_cache(maxsize=4096)
def _limited(cores: int, width: int, height: int, limit: int) -> tuple[int, int]:
    """(block, sub-block) sides when a block of the square's size does not fit (`compute_ncores_wh_sb`)."""
    if ceil_div(width, limit) * ceil_div(height, limit) < cores:
        return (limit, limit)
    best: tuple[int, int, int, int] | None = None
    for sub in range(limit - 1, 0, -1):
        for n in range(2, ceil_div(width, sub) + 1):
            block = n * sub
            total = ceil_div(width, block) * ceil_div(height, block)
            if total > cores or width % block >= limit:
                continue
            if best is None or total > best[0] or (total == best[0] and n < best[1]):
                best = (total, n, sub, block)
    if best is None:
        refuse("No solution found for single_block_size")
    return (best[3], best[2])


def blocks_of(cores: int, width: int, height: int, limit: int) -> Blocks:
    """`split_blocks_for_tilize_wh`: blocks of a matrix of tiles, no sub-block wider than `limit` tiles."""
    side = _square(ceil_div(width * height, cores), width, height, cores)
    sub = side
    if side > limit:
        if limit < 1:
            refuse("No solution found for single_block_size")
        side, sub = _limited(cores, width, height, limit)
    count = ceil_div(width, side) * ceil_div(height, side)
    cliff = width % side if width // side < ceil_div(width, side) else 0
    return Blocks(count, sub if width // side else 0, cliff)


def wants_blocks(cores: int, rows: int, width: int, height: int, tiles: int) -> bool:
    """Whether a tensor of `rows` tile rows in all, `height` x `width` tiles per matrix, is cut into blocks.

    `tiles` are the whole tiles that one unpadded matrix fills.
    """
    wide = width > WIDE_ROW_TILES and (height > WIDE_ROW_TILES or width > height)
    return wide and ncores(cores, rows) < blocked_cores(cores, width, height, tiles)


def pending_bytes(session: Session, shape: Shape, dtype: DType, page: PageLayout, memory: MemoryConfig) -> int:
    """L1 that an interleaved result not yet allocated will take; 0 for shards and DRAM."""
    if memory.buffer_type is not BufferType.L1 or memory.is_sharded:
        return 0
    size = l1_bytes(TensorSpec(shape, dtype, TensorLayout(page, memory)), session.device)
    return session.l1.rounded(size)


def enough(session: Session, tiles: int, per_tile: int, fixed: int, reserved: int) -> bool:
    """Whether buffers of `tiles` tiles fit beside `reserved` bytes."""
    return max(0, session.free_l1() - reserved) > tiles * per_tile + fixed


def run_blocks(session: Session, width: int, height: int, tile_in: int, tile_out: int, staged: bool) -> None:
    """A program on square blocks of tiles; narrow blocks at the end of a row have buffers (and cores) of their own.

    Tilizing also stages one row of a block, plus room to align it (`make_block_plan`, `push_buffer_set`).
    """
    slack = 2 * session.device.dram_alignment_bytes if staged else 0
    row = tile_in // 32 if staged else 0
    limit = max(0, session.free_l1() - slack) // (tile_in + tile_out + row)
    blocks: Blocks = blocks_of(session.device.num_cores, width, height, limit)
    tiles = [n for n in (blocks.sub_block, blocks.cliff) if n]
    dfb = [n * (tile_in + tile_out) for n in tiles]
    scratch = [n * row + slack if staged else 0 for n in tiles]
    most = max(a + b for a, b in zip(dfb, scratch, strict=True))
    session.run(dfb=sum(dfb), scratch=sum(scratch), per_core=most)
