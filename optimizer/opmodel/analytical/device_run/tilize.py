"""Rows to tiles: tilize and tilize_with_val_padding.

Sources: tt-metal 0.81 `data_movement/tilize`, `data_movement/tilize_with_val_padding`.
"""

from __future__ import annotations

from math import prod

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, MemoryConfig, ShardOrientation
from optimizer.layouts.tiling import TILE
from optimizer.opmodel.analytical.case import need
from optimizer.opmodel.analytical.derive import named_shards, reshaped, tile_aligned, with_spec
from optimizer.opmodel.analytical.device_run.session import Held, Session, Shape, scoped, view
from optimizer.opmodel.analytical.device_run.transfer import aligned_page, to_memory_config
from optimizer.opmodel.analytical.device_run.untilize import folded, tile_padded
from optimizer.opmodel.analytical.device_run.work_split import enough, pending_bytes, run_blocks, wants_blocks
from optimizer.opmodel.analytical.tensors import BLOCK, DRAM_MEMORY, HEIGHT, INTERLEAVED, TILED, WIDTH

PLAIN = (DType.BF16, DType.F32, DType.U32, DType.I32, DType.U16)
"""Element types that can be tilized."""


def _fits(session: Session, held: Held, padded: Shape, memory: MemoryConfig, dtype: DType) -> bool:
    """Whether a whole row of tiles fits beside the result (staging of the block program included)."""
    device = session.device
    tile_in, tile_out = held.dtype.tile_bytes, dtype.tile_bytes
    reserved = pending_bytes(session, padded, dtype, TILED, memory)
    per_tile = tile_in + tile_out + tile_in // TILE
    return enough(session, padded[-1] // TILE, per_tile, 2 * device.dram_alignment_bytes, reserved)


def _run(session: Session, held: Held, padded: Shape, fits: bool, tile_out: int) -> None:
    """The program on interleaved rows: a row of tiles at a time, or blocks; shards go row by row."""
    wide, high = padded[-1] // TILE, padded[-2] // TILE
    tile_in = held.dtype.tile_bytes
    matrix = held.padded[-1] * (held.padded[-2] if len(held.padded) > 1 else 1) // (TILE * TILE)
    cut = not fits or wants_blocks(session.device.num_cores, prod(padded[:-1]) // TILE, wide, high, matrix)
    if cut and not held.is_sharded:
        run_blocks(session, wide, high, tile_in, tile_out, staged=True)
    else:
        session.run(dfb=wide * (tile_in + tile_out))


def _aligned_rows(session: Session, held: Held) -> None:
    whole = held.page_bytes == aligned_page(held, session.device)
    need(whole, f"Input row-major shard width gives page size {held.page_bytes} bytes, which must be aligned")


# -- whole tiles -----------------------------------------------------------------------------------------
@scoped
def tilize(session: Session, held: Held, memory: MemoryConfig | None = None, dtype: DType | None = None) -> Held:
    """`ttnn.tilize`: rows and columns must be whole tiles already."""
    memory = held.memory if memory is None else memory
    dtype = dtype or held.dtype
    flat = view(held, folded(held.shape), folded(held.padded))
    fits = _fits(session, flat, flat.padded, memory, dtype)
    if flat.is_sharded and not fits:
        flat = to_memory_config(session, flat, DRAM_MEMORY)
        out = to_memory_config(session, _tilize(session, flat, DRAM_MEMORY, dtype, False), memory)
    else:
        out = _tilize(session, flat, memory, dtype, fits)
    return view(out, held.shape) if flat.shape != held.shape else out


def _tilize(session: Session, held: Held, memory: MemoryConfig, dtype: DType, fits: bool) -> Held:
    need(held.dtype in PLAIN, "data type must be bfloat16, float32, uint32, int32 or uint16")
    rows = held.padded[-2] if len(held.padded) > 1 else 1
    need(held.padded[-1] % TILE == 0, f"Input tensor width ({held.padded[-1]}) must be divisible by tile width (32)")
    need(rows % TILE == 0, f"Input tensor height ({rows}) must be divisible by tile height (32)")
    if held.is_sharded:
        _aligned_rows(session, held)
    in_place = held.is_sharded and _in_place(session, held, memory)
    if in_place and memory.is_sharded:
        out = session.make(held.shape, dtype, TILED, with_spec(memory, held.spec), held.padded)
        session.run(ranges=held.spec.core_ranges)
        return out
    out = session.make(held.shape, dtype, TILED, memory)
    if in_place:
        session.run(dfb=held.padded[-1] // TILE * dtype.tile_bytes, ranges=held.spec.core_ranges)
    else:
        # Columns that only fill the last shard are not read.
        padded = tile_padded(held.shape) if held.is_sharded else held.padded
        _run(session, held, padded, fits, dtype.tile_bytes)
    return out


def _in_place(session: Session, held: Held, memory: MemoryConfig) -> bool:
    """`can_use_sharded_optimized_factories`: every core tilizes its own shard."""
    kind, to = held.memory.memory_layout, memory.memory_layout
    if not held.is_l1 or memory.buffer_type is not BufferType.L1:
        return False
    if kind is HEIGHT:
        if not tile_aligned(held.spec):
            return False
        if to is INTERLEAVED:
            if held.spec.orientation is not ShardOrientation.ROW_MAJOR:
                return False
        elif to is not HEIGHT:
            return False
    elif to is not kind:
        if kind is WIDTH and to is BLOCK:
            named_shards(memory)
        return False
    if kind in (WIDTH, BLOCK) and not tile_aligned(named_shards(memory)):
        return False
    rows, columns = session.device.grid_yx
    return all(x1 < columns and y1 < rows for _, _, x1, y1 in held.spec.core_ranges)


# -- with padding ----------------------------------------------------------------------------------------
@scoped
def tilize_with_padding(
    session: Session, held: Held, memory: MemoryConfig | None = None, dtype: DType | None = None
) -> Held:
    """`ttnn.tilize_with_val_padding` up to whole tiles."""
    if held.is_tile:
        return held
    memory = held.memory if memory is None else memory
    dtype = dtype or held.dtype
    flat = view(held, folded(held.shape), folded(held.padded))
    padded = tile_padded(flat.padded)
    fits = _fits(session, flat, padded, memory, dtype)
    if flat.is_sharded and not fits and not _same_width(flat, memory, padded):
        flat = to_memory_config(session, flat, DRAM_MEMORY)
        out = to_memory_config(session, _pad_and_tilize(session, flat, DRAM_MEMORY, dtype, padded, False), memory)
    else:
        out = _pad_and_tilize(session, flat, memory, dtype, padded, fits)
    return view(out, held.shape) if flat.shape != held.shape else out


def _same_width(held: Held, memory: MemoryConfig, padded: Shape) -> bool:
    """`can_use_tilize_with_val_padding_sharded_factory`: width shards stay where they are."""
    if not (held.is_l1 and memory.buffer_type is BufferType.L1 and held.memory.memory_layout is WIDTH):
        return False
    if memory.memory_layout is not WIDTH:
        return False
    return all(i == len(padded) - 2 or a == b for i, (a, b) in enumerate(zip(held.padded, padded, strict=False)))


def _pad_and_tilize(
    session: Session, held: Held, memory: MemoryConfig, dtype: DType, padded: Shape, fits: bool
) -> Held:
    need(held.dtype in PLAIN, "Can only tilize bfloat16/float32 or int32/uint32/uint16 tensors")
    if held.is_sharded and held.memory.memory_layout is not HEIGHT:
        _aligned_rows(session, held)
    if held.is_sharded and _same_width(held, memory, padded):
        return _tilize_width_shards(session, held, memory, dtype, padded)
    out = session.make(held.shape, dtype, TILED, memory, padded)
    _run(session, held, out.padded if held.is_sharded else padded, fits, dtype.tile_bytes)
    return out


def _tilize_width_shards(session: Session, held: Held, memory: MemoryConfig, dtype: DType, padded: Shape) -> Held:
    rows = prod(padded[:-1])
    out = session.make(held.shape, dtype, TILED, with_spec(memory, reshaped(held.spec, (rows, held.spec.shape[1]))))
    batches = rows // padded[-2]
    tiles = rows * held.spec.shape[1] // (TILE * TILE) // batches * 2
    staged = held.spec.shape[1] * held.dtype.element_bytes
    session.run(dfb=tiles * held.dtype.tile_bytes, scratch=staged, ranges=held.spec.core_ranges)
    return out
