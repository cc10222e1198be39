"""`ttnn.concat` (tt-metal 0.81 `data_movement/concat`)."""

from __future__ import annotations

from math import prod

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, MemoryConfig
from optimizer.layouts.tiling import TILE, ceil_div, round_up
from optimizer.opmodel.analytical.case import need
from optimizer.opmodel.analytical.derive import grid_shards, named_shards, reshaped, with_spec
from optimizer.opmodel.analytical.device_run.padding import to_layout
from optimizer.opmodel.analytical.device_run.session import Held, Session, Shape, scoped, view
from optimizer.opmodel.analytical.device_run.tilize import tilize_with_padding
from optimizer.opmodel.analytical.device_run.transfer import MOST_ENTRIES, alignment, clone, to_memory_config
from optimizer.opmodel.analytical.device_run.transposing import transpose
from optimizer.opmodel.analytical.device_run.untilize import untilize_with_unpadding
from optimizer.opmodel.analytical.device_run.work_split import pending_bytes
from optimizer.opmodel.analytical.tensors import BLOCK, DRAM_MEMORY, HEIGHT, ROWS, TILED, WIDTH

Tensors = tuple[Held, ...]
MOST_INPUTS = 47
"""Interleaved tensors of one program (kernel arguments); more go in batches."""
MOST_SHARDED = 44
MOST_BANDED = 32
MOST_SHARD_BUFFERS = 16
MOST_TRANSFERS = 56
"""Pieces that a core of the block-sharded program may gather."""


def joins_by_row(shape: Shape, padded: Shape, dim: int) -> bool:
    """Whether a tensor of tiles is joined to others by way of rows: there is padding along the dim."""
    return len(shape) == 1 or shape[dim] != padded[dim]


@scoped
def concat(session: Session, tensors: Tensors, dim: int, memory: MemoryConfig | None = None) -> Held:
    """`ttnn.concat`; DRAM interleaved when nothing is asked for. `dim` is non-negative.

    Tiles with padding along `dim` go by way of rows; what a step replaces is freed before the next one, what the
    last step joined only at the end (`MassagedOperation`).
    """
    target = DRAM_MEMORY if memory is None else memory
    if len(tensors) == 1:
        return to_memory_config(session, tensors[0], target)
    if _banded(session, tensors, dim, target, reserve=True):
        return _concat(session, tensors, dim, target)
    by_row = any(t.is_tile and joins_by_row(t.shape, t.padded, dim) for t in tensors)
    if by_row:
        need(all(t.is_tile for t in tensors), "ttnn.concat: expected all input tensors to be in tile layout")
        tensors = tuple(untilize_with_unpadding(session, t) for t in tensors)
    single = dim == 0 and any(len(t.shape) == 1 and not t.is_tile and _off(session, t, t.shape[0]) for t in tensors)
    if single:
        tensors, dim = tuple(view(t, (1, *t.shape)) for t in tensors), 1
    rank = len(tensors[0].shape)
    turned = dim == rank - 1 and any(_off(session, t, t.padded[dim]) for t in tensors)
    if turned:  # rows whose end is not aligned are joined as columns
        need(rank > 1, "transpose of a tensor of one dim")
        columns = [transpose(session, t, rank - 2, rank - 1) for t in tensors]
        tensors, dim = tuple(map(session.replace, tensors, columns)), rank - 2
    joined = _concat(session, tensors, dim, target)
    out = transpose(session, joined, rank - 2, rank - 1, target) if turned else joined
    if single:
        out = view(out, out.shape[1:])
    return tilize_with_padding(session, out, out.memory) if by_row and not out.is_tile else out


def _element(held: Held) -> int:
    return 1 if held.dtype.is_block_float else held.dtype.element_bytes


def _off(session: Session, held: Held, size: int) -> bool:
    """Whether so many elements are no multiple of the buffer's alignment."""
    return size * _element(held) % alignment(session.device, held.memory) != 0


# -- `concat_impl` ---------------------------------------------------------------------------------------
def _in_place(tensors: Tensors, target: MemoryConfig) -> bool:
    """Shards in L1 that a program uses as its buffers."""
    if not tensors[0].is_sharded or not all(t.is_l1 for t in tensors):
        return False
    return not (target.is_sharded and target.buffer_type is BufferType.DRAM)


@scoped
def _concat(session: Session, tensors: Tensors, dim: int, target: MemoryConfig) -> Held:
    if len(tensors) == 1:
        return tensors[0] if tensors[0].memory == target else clone(session, tensors[0], target)
    most = MOST_INPUTS
    if _in_place(tensors, target):
        most = MOST_SHARD_BUFFERS if tensors[0].memory.memory_layout is BLOCK else MOST_SHARDED
    if len(tensors) > most:
        batched = tensors[0].memory.memory_layout is not BLOCK
        need(batched, f"Block-sharded concat supports at most 16 input tensors (got {len(tensors)})")
        parts = [_concat(session, tensors[i : i + most], dim, target) for i in range(0, len(tensors), most)]
        return _concat(session, tuple(parts), dim, target)
    if tensors[0].is_sharded:
        return _concat_shards(session, tensors, dim, target)
    if not tensors[0].is_tile and dim == len(tensors[0].shape) - 1:
        whole = not any(_off(session, t, t.padded[dim]) for t in tensors)
        need(whole, "Current concat implementation requires aligned last dim when concatting on last dim")
    return _concat_interleaved(session, tensors, dim, target)


@scoped
def _concat_interleaved(session: Session, tensors: Tensors, dim: int, target: MemoryConfig) -> Held:
    page = tensors[0].page
    for t in tensors:
        part = len(t.padded) < 2 or t.padded[-2] % TILE or t.padded[-1] % TILE
        if not t.is_tile and part:
            page = ROWS
            break
    alike = tuple(to_layout(session, t, page) for t in tensors)
    if target.is_sharded and page is ROWS and target.memory_layout is not HEIGHT:
        out = _program(session, alike, dim, DRAM_MEMORY)
        return to_memory_config(session, out, target)
    return _program(session, alike, dim, target)


@scoped
def _concat_shards(session: Session, tensors: Tensors, dim: int, target: MemoryConfig) -> Held:
    kind, rank = tensors[0].memory.memory_layout, len(tensors[0].shape)
    generic = not _in_place(tensors, target)
    rows_whole = kind is HEIGHT and (not target.is_sharded or target.memory_layout is HEIGHT)
    if generic and not tensors[0].is_tile and not rows_whole:
        plain = tuple(to_memory_config(session, t, DRAM_MEMORY) for t in tensors)
        return _concat(session, plain, dim, target)
    if target.is_sharded or generic:
        return _program(session, tensors, dim, target)
    wide, tall = dim == rank - 1, rank > 1 and dim == rank - 2
    if (wide and kind in (HEIGHT, BLOCK)) or (tall and kind in (WIDTH, BLOCK)):
        shape = list(tensors[0].spec.shape)
        axis = 1 if wide else 0
        shape[axis] = sum(t.spec.shape[axis] for t in tensors)
        joined = reshaped(tensors[0].spec, (shape[0], shape[1]))
        out = _program(session, tensors, dim, with_spec(MemoryConfig(kind, BufferType.L1), joined))
        return to_memory_config(session, out, target)
    plain = tuple(to_memory_config(session, t, target) for t in tensors)
    return _concat(session, plain, dim, target)


# -- the programs ----------------------------------------------------------------------------------------
def _joined(tensors: Tensors, dim: int) -> Shape:
    shape = list(tensors[0].shape)
    shape[dim] = sum(t.shape[dim] for t in tensors)
    return tuple(shape)


def _program(session: Session, tensors: Tensors, dim: int, target: MemoryConfig) -> Held:
    """`ttnn::prim::concat`."""
    _check(session, tensors, dim, target)
    out = session.make(_joined(tensors, dim), tensors[0].dtype, tensors[0].page, target)
    if _in_place(tensors, target):
        _run_in_place(session, tensors, dim, out)
    elif not tensors[0].is_sharded and _banded(session, tensors, dim, target, reserve=False):
        session.run(cb=_band_bytes(tensors))
    else:
        _run_pages(session, tensors, out)
    return out


def _run_pages(session: Session, tensors: Tensors, out: Held) -> None:
    """Page by page through a double buffer, single where half of L1 does not hold two."""
    device = session.device
    page = out.dtype.tile_bytes
    if not out.is_tile:
        step = max(alignment(device, tensors[0].memory), alignment(device, out.memory))
        page = round_up(out.padded[-1] * out.dtype.element_bytes, step)
    half = device.worker_l1_bytes // 2 - device.cb_base_bytes
    need(page <= device.cb_limit_bytes, f"ttnn.concat: required DFB entry size ({page} B) exceeds per-core L1 capacity")
    session.run(dfb=page * (1 if 2 * page > half else 2))


def _banded(session: Session, tensors: Tensors, dim: int, target: MemoryConfig, reserve: bool) -> bool:
    """`can_use_tiled_unaligned_concat`: bands of tile rows are untilized, joined and tilized on their core."""
    first = tensors[0]
    rank = len(first.shape)
    if not 2 <= len(tensors) <= MOST_BANDED or target.is_sharded or rank < 2 or dim != rank - 1:
        return False
    if first.dtype not in (DType.BF16, DType.F32) or any(not t.is_tile or t.is_sharded for t in tensors):
        return False
    if all(t.shape[-1] == t.padded[-1] for t in tensors):
        return False
    shape = (*first.padded[:-1], round_up(_joined(tensors, dim)[-1], TILE))
    pending = pending_bytes(session, shape, first.dtype, TILED, target) if reserve else 0
    return _band_bytes(tensors) + pending <= session.free_l1()


def _band_bytes(tensors: Tensors) -> int:
    """Input and output bands double, the untilized and the joined one single."""
    wide = sum(t.padded[-1] // TILE for t in tensors)
    out = ceil_div(sum(t.shape[-1] for t in tensors), TILE)
    return 3 * (wide + out) * tensors[0].dtype.tile_bytes


def _check(session: Session, tensors: Tensors, dim: int, target: MemoryConfig) -> None:
    first = tensors[0]
    for t in tensors:
        need(t.page is first.page, "All Tensors should have same layouts.")
        need(t.dtype is first.dtype, "All Tensors should have same dtypes.")
        need(t.is_sharded is first.is_sharded, "All tensors must be sharded or all must be interleaved")
        if first.is_sharded:
            need(t.spec.core_ranges == first.spec.core_ranges, "Sharded tensors must have the same grid.")
            same = t.memory.memory_layout is first.memory.memory_layout
            need(same, "Sharded tensors must have the same memory layout.")
            need(t.spec.orientation is first.spec.orientation, "Sharded tensors must have the same shard orientation.")
    if not _in_place(tensors, target):
        return
    kind, rank = first.memory.memory_layout, len(first.shape)
    need(target.memory_layout is kind, "Sharded output and inputs must have the same memory layout.")
    asked = named_shards(target)
    need(asked.core_ranges == first.spec.core_ranges, "Sharded output and inputs must have the same grid.")
    same = asked.orientation is first.spec.orientation
    need(same, "Sharded output and inputs must have the same shard orientation.")
    if dim == rank - 1:
        need(kind in (HEIGHT, BLOCK), "Only support width concat on height-sharded or block-sharded tensors.")
    else:
        need(dim == rank - 2, "Only width or height concat on sharded tensors")
        need(kind in (WIDTH, BLOCK), "Only support height concat on width-sharded or block-sharded tensors.")
    if kind is BLOCK:
        _check_starts(session, tensors, dim == rank - 1)


def _check_starts(session: Session, tensors: Tensors, wide: bool) -> None:
    need(len(tensors[0].spec.core_ranges) == 1, "Block-sharded concat requires a single contiguous CoreRange.")
    at = 0
    for t in tensors[:-1] if wide else ():
        at += t.shape[-1] * _element(t)
        need(
            at % session.device.l1_alignment_bytes == 0, f"Width concat: an input starts at {at} bytes, not L1-aligned"
        )


def _run_in_place(session: Session, tensors: Tensors, dim: int, out: Held) -> None:
    first, kind = tensors[0], tensors[0].memory.memory_layout
    rank = len(first.shape)
    wide = rank > 1 and dim == rank - 1
    staged = 0
    if kind is BLOCK:
        _check_blocks(session, tensors, wide, out)
    elif len(tensors) == 2 and wide:
        if first.is_tile:
            whole = all(t.shape[-1] == t.padded[-1] for t in tensors)
            need(whole, "Cannot have padding along width dimension in input tensor")
            tiles = sum(t.spec.shape[1] // TILE for t in tensors)
            inner = DType.BF16 if first.dtype is DType.BFP8_B else first.dtype
            staged = tiles * (2 * inner.tile_bytes + first.dtype.tile_bytes)
        else:
            _check_row_entries(session, (*tensors, out))
    else:
        need(len(tensors) <= MOST_SHARD_BUFFERS, f"Not enough circular buffer for {len(tensors)} inputs.")
        if not wide:
            _check_heights(tensors, out)
    session.run(dfb=staged, ranges=first.spec.core_ranges)


def _check_row_entries(session: Session, tensors: Tensors) -> None:
    """Rows are counted in steps of 32 bytes, which must not exceed what the shard has."""
    for t in tensors:
        unit = t.spec.shape[1] * t.dtype.element_bytes
        fits = round_up(unit, 32) <= round_up(unit, session.device.l1_alignment_bytes)
        need(fits, f"DFB of {t.spec.shape[0]} rows of {unit} bytes is larger than its borrowed tensor")


def _check_heights(tensors: Tensors, out: Held) -> None:
    blocks = prod(tensors[0].shape[:-2])
    unit = TILE if out.is_tile else 1
    heights = [ceil_div(t.spec.shape[0], unit) for t in tensors]
    for height in (*heights, ceil_div(out.spec.shape[0], unit)):
        need(height % blocks == 0, f"Height concat: {height} shard rows do not divide into {blocks} leading indices")
    equal = all(t.spec.shape[1] == out.spec.shape[1] for t in tensors)
    need(equal, "Height concat requires equal widths.")
    filled = sum(heights) == ceil_div(out.spec.shape[0], unit)
    need(filled, "Height concat: the output shard would leave gaps inside the tensor.")


def _check_blocks(session: Session, tensors: Tensors, wide: bool, out: Held) -> None:
    if not out.is_tile:
        for t in (*tensors, out):
            size = t.spec.shape[1] * t.dtype.element_bytes
            need(size % session.device.l1_alignment_bytes == 0, f"shard row size ({size} bytes) is not L1-aligned")
    for t in (*tensors, out):
        units = prod(t.spec.shape) // (TILE * TILE if out.is_tile else 1)
        need(units <= MOST_ENTRIES, f"number of CB pages {units} is greater than {MOST_ENTRIES}")
    tall, across = grid_shards(out.spec)
    if wide:
        room = out.spec.shape[1] * across >= out.shape[-1]
        need(room, "Width concat: output shards span too few columns")
        return
    filled = sum(t.padded[-2] for t in tensors) == out.padded[-2]
    need(filled, "Height concat: inputs and the output differ in height")
    need(out.spec.shape[0] * tall >= out.rows, "Height concat: output shards span too few rows")
    most = max(_transfers(tensors, out, row) for row in range(tall))
    need(most <= MOST_TRANSFERS, f"Block-sharded height concat: {most} transfers per core")


def _transfers(tensors: Tensors, out: Held, row: int) -> int:
    """Pieces of input shards that the rows of one row of output shards are made of."""
    first, last = row * out.spec.shape[0], min((row + 1) * out.spec.shape[0], out.rows)
    count, at, block = 0, first, out.padded[-2]
    while at < last:
        index, offset = divmod(at, block)
        for t in tensors:
            if offset < t.padded[-2]:
                break
            offset -= t.padded[-2]
        source = index * t.padded[-2] + offset
        at += min(t.padded[-2] - offset, t.spec.shape[0] - source % t.spec.shape[0], last - at)
        count += 1
    return count
