"""Will the circular buffers fit beside what is in L1? Asked by ops that choose a program by it.

Source: `data_movement/common/common.cpp` (`get_pending_l1_output_reservation`, `is_enough_space`), tt-metal 0.81.
"""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, MemoryConfig, PageLayout, TensorLayout
from optimizer.opmodel.analytical.device_run.session import Session, Shape
from optimizer.opmodel.analytical.device_run.work_split import Blocks, blocks_of
from optimizer.opmodel.analytical.tensors import l1_bytes
from optimizer.opmodel.base import TensorSpec


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
