"""`ttnn.pad` and `ttnn.to_layout` (tt-metal 0.81 `data_movement/pad`, `core/to_layout/to_layout_op.cpp`)."""

from __future__ import annotations

from math import prod

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, MemoryConfig, PageLayout, ShardSpec, TensorLayout
from optimizer.layouts.tiling import TILE, ceil_div, round_up
from optimizer.opmodel.analytical.case import need
from optimizer.opmodel.analytical.derive import BAD_ACCESS, named_shards, reshaped, tile_aligned
from optimizer.opmodel.analytical.device_run.reshaping import read_as, reshape
from optimizer.opmodel.analytical.device_run.session import Held, Session, Shape, scoped, view
from optimizer.opmodel.analytical.device_run.tilize import tilize, tilize_with_padding
from optimizer.opmodel.analytical.device_run.transfer import (
    aligned_page,
    fill_padding,
    interleaved_to_sharded,
    to_memory_config,
    typecast,
)
from optimizer.opmodel.analytical.device_run.untilize import tile_padded, untilize, untilize_with_unpadding
from optimizer.opmodel.analytical.tensors import BLOCK, HEIGHT, INTERLEAVED, ROWS, TILED, WIDTH, spec_problem
from optimizer.opmodel.base import TensorSpec

Padding = tuple[tuple[int, int], ...]
"""Elements before and after, for every dim."""
MOST_READ = 2048
"""Bytes of rows that are moved before one barrier."""
MOST_BARRIERS = 16


@scoped
def pad(session: Session, held: Held, padding: Padding, memory: MemoryConfig | None = None) -> Held:
    """`ttnn.pad`; nothing happens without padding, whatever memory config is asked for."""
    if not any(a or b for a, b in padding):
        return held
    if len(held.shape) > 4:
        apart = _apart(held.shape, padding)
        for dim in apart:
            held = session.replace(held, _pad_leading(session, held, dim, *padding[dim]))
        padding = tuple((0, 0) if d in apart else both for d, both in enumerate(padding))
        if not any(a or b for a, b in padding):
            return held if memory is None else to_memory_config(session, held, memory)
    if held.is_tile:
        return _pad_tiles(session, held, padding, memory)
    out = _four_dims(session, held, padding, memory)
    rank = len(held.shape)
    if rank > 4:
        shape = tuple(a + s + b for s, (a, b) in zip(held.shape, padding, strict=True))
        return reshape(session, out, shape)
    if rank == 4 or out is held:
        return out
    need(out.padded == out.shape, "Attempting to reshape between two shapes with different volumes")
    return read_as(out, out.shape[4 - rank :], out.shape[4 - rank :])


def _apart(shape: Shape, padding: Padding) -> tuple[int, ...]:
    """Dims before the last three that are padded one after the other; the only one that is not 1 need not be."""
    last = len(shape) - 4
    several = prod(s + a + b for s, (a, b) in zip(shape[:last], padding[:last], strict=True)) != 1
    return tuple(d for d in range(last + 1) if any(padding[d]) and (d < last or several))


def _pad_leading(session: Session, held: Held, dim: int, before: int, after: int) -> Held:
    """One dim before the last three, by way of four dims."""
    shape = held.shape
    rows = shape[dim:-2]
    inner = prod(rows[1:])
    flat = reshape(session, held, (prod(shape[:dim]), prod(rows), *shape[-2:]))
    wide = pad(session, flat, ((0, 0), (before * inner, after * inner), (0, 0), (0, 0)))
    return reshape(session, wide, (*shape[:dim], shape[dim] + before + after, *shape[dim + 1 :]))


# -- tiles -----------------------------------------------------------------------------------------------
@scoped
def _pad_tiles(session: Session, held: Held, padding: Padding, memory: MemoryConfig | None) -> Held:
    need(not any(a for a, _ in padding), "ttnn.pad: on device tile padding does not support front padding")
    shape = tuple(s + b for s, (_, b) in zip(held.shape, padding, strict=True))
    padded = tile_padded(shape)
    out = fill_padding(session, held)
    if len(shape) == 1 or (shape[:-2] == held.shape[:-2] and padded[-2:] == held.padded[-2:]):
        out = view(out, shape, padded)
    else:
        more = tuple((0, b - a) for a, b in zip(held.padded, padded, strict=True))
        out = view(_four_dims(session, out, more, memory), shape, padded)
    asked = held.memory if memory is None else memory
    if (out.memory.shard_spec is None) is (asked.shard_spec is None):
        return out
    if memory is None:
        memory = _height_shards(shape, held.spec)
    return to_memory_config(session, out, memory)


def _height_shards(shape: Shape, spec: ShardSpec) -> MemoryConfig:
    """`create_sharded_memory_config`: height shards in L1 on the cores given."""
    cut = (ceil_div(prod(shape[:-1]), spec.num_cores), shape[-1])
    spec = ShardSpec((spec.num_cores, 1), cut, spec.core_ranges, spec.orientation)
    return MemoryConfig(HEIGHT, BufferType.L1, reshaped(spec, cut))


@scoped
def _four_dims(session: Session, held: Held, padding: Padding, memory: MemoryConfig | None) -> Held:
    """`pad_impl`: the tensor as four dims, block floats by way of bf16."""
    if held.dtype is DType.BFP8_B and held.is_tile:
        source = typecast(session, held, DType.BF16)
        wide = _four_dims(session, source, padding, memory)
        return typecast(session, wide, DType.BFP8_B)
    need(held.dtype is not DType.BFP4_B, "Cannot pad tilized tensor with specified format")
    rank = len(held.shape)
    lead = max(0, 4 - rank)
    if rank > 4:
        flat = read_as(held, (prod(held.shape[:-3]), *held.shape[-3:]), (prod(held.padded[:-3]), *held.padded[-3:]))
        padding = padding[rank - 4 :]
    else:
        flat = read_as(held, (1,) * lead + held.shape, (1,) * lead + held.padded[-rank:])
        padding = ((0, 0),) * lead + padding
    base = flat.padded if flat.is_tile else flat.shape
    target = tuple(a + s + b for s, (a, b) in zip(base, padding, strict=True))
    if flat.is_tile:
        whole = target[2] % TILE == 0 and target[3] % TILE == 0
        need(whole, "ttnn.pad: for tiled tensors padding end must be a multiple of the tile size")
    return _placed(session, flat, target, tuple(a for a, _ in padding), memory)


@scoped
def _placed(session: Session, held: Held, target: Shape, start: Shape, memory: MemoryConfig | None) -> Held:
    if held.shape == target:
        return held
    asked = held.memory if memory is None else memory
    if held.memory.memory_layout in (WIDTH, BLOCK) and not held.is_l1:
        return _by_way_of_dram(session, held, target, start, asked)
    kept = held.memory.memory_layout is HEIGHT and asked.memory_layout is not INTERLEAVED
    if kept and held.shape[3] != target[3]:
        wide = (*held.shape[:3], target[3])
        asked = _height_shards(wide, held.spec)
        if prod(held.shape[:3]) != prod(target[:3]):
            first = _placed(session, held, wide, (0, 0, 0, start[3]), asked)
            tall = memory if memory is not None else _height_shards(target, held.spec)
            return _placed(session, first, target, start, tall)
    return _program(session, held, target, start, asked)


@scoped
def _by_way_of_dram(session: Session, held: Held, target: Shape, start: Shape, asked: MemoryConfig) -> Held:
    source = to_memory_config(session, held, MemoryConfig(INTERLEAVED, held.memory.buffer_type))
    between = MemoryConfig(INTERLEAVED, asked.buffer_type) if asked.is_sharded else asked
    out = _program(session, source, target, start, between)
    if not asked.is_sharded:
        return out
    if asked.buffer_type is BufferType.L1:
        return interleaved_to_sharded(session, out, asked)
    return to_memory_config(session, out, asked)


# -- the programs ----------------------------------------------------------------------------------------
def _program(session: Session, held: Held, target: Shape, start: Shape, memory: MemoryConfig) -> Held:
    """`ttnn::prim::pad`."""
    fits = all(s + a <= t for s, a, t in zip(held.shape, start, target, strict=True))
    need(fits, "Output size cannot fit input with offset")
    if held.is_tile:
        need(not any(start), "On device padding only supports padding at end of dims")
    if held.is_sharded:
        whole = held.page_bytes == aligned_page(held, session.device)
        need(whole, f"Input row-major shard width gives page size {held.page_bytes} bytes, which must be aligned")
    if memory.is_sharded:
        size = named_shards(memory).shape[1] * held.dtype.element_bytes
        whole = size % session.device.l1_alignment_bytes == 0
        need(whole, f"Output row-major shard width gives page size {size} bytes, which must be aligned")
    out = session.make(target, held.dtype, held.page, memory)
    if held.is_tile:
        session.run(dfb=2 * held.dtype.tile_bytes, scratch=held.dtype.tile_bytes)
    elif not _run_in_place(session, held, out):
        _run_rows(session, held, target, start)
    return out


def _run_in_place(session: Session, held: Held, out: Held) -> bool:
    """Height shards that are padded where they are; false when that program does not serve."""
    heights = held.memory.memory_layout is HEIGHT and out.memory.memory_layout is HEIGHT
    if not heights or not held.is_l1 or out.shape[3] != out.spec.shape[1] or out.spec.shape[0] < held.spec.shape[0]:
        return False
    stick = out.shape[3] * out.dtype.element_bytes
    if held.shape[3] == out.shape[3]:
        session.run(dfb=stick, ranges=out.spec.core_ranges)
        return True
    if prod(held.shape[:3]) == prod(out.shape[:3]):
        session.run(scratch=stick)
        return True
    return False


def _run_rows(session: Session, held: Held, target: Shape, start: Shape) -> None:
    """Rows: barriers of 2 KiB, as many as half of L1 holds; a row of the fill value, another to realign."""
    device, size = session.device, held.dtype.element_bytes
    stick = round_up(target[3] * size, device.l1_alignment_bytes)
    staged = round_up(target[3] * size, device.dram_alignment_bytes)
    barrier = max(1, ceil_div(MOST_READ, stick)) * stick
    budget = device.worker_l1_bytes // 2 - device.cb_base_bytes
    need(barrier <= budget, f"ttnn.pad: padded row of {stick} B does not fit in the per-core L1 budget ({budget} B)")
    realigned = start[3] != 0 or stick % device.dram_alignment_bytes != 0
    depth = min(MOST_BARRIERS, max(1, budget // barrier))
    session.run(dfb=depth * barrier, scratch=staged * (2 if realigned else 1))


@scoped
def to_layout(
    session: Session, held: Held, page: PageLayout, memory: MemoryConfig | None = None, dtype: DType | None = None
) -> Held:
    if held.page is page:
        return held
    wanted = held.memory if memory is None else memory
    if page is ROWS and held.is_sharded and wanted.shard_spec is not None:  # its shards are derived again
        need(tile_aligned(wanted.shard_spec), f"Physical shard shape {wanted.shard_spec.shape} must be tile sized!")
    else:
        _check_tiles(session, held, held.shape, wanted)
    if page is ROWS:
        kept = dtype in (None, held.dtype) or (held.dtype.is_block_float and dtype is DType.BF16)
        need(kept, "dtype cannot be different from tensor dtype when converting to ROW_MAJOR_LAYOUT on device")
        if held.shape == held.padded:
            return untilize(session, held, memory)
        need(not wanted.is_sharded or wanted.shard_spec is not None, BAD_ACCESS)
        return untilize_with_unpadding(session, held, memory)
    tensor = held
    if len(held.padded) < 2:
        need(not held.is_sharded, "Cannot convert a sharded device tensor with rank 1 to TILE_LAYOUT")
        tensor = view(held, held.shape, (1, *held.padded))
    _check_tiles(session, tensor, tensor.padded, tensor.memory)
    if tile_padded(tensor.padded) == tensor.padded:
        whole = not tensor.is_sharded or tile_aligned(tensor.spec)
        need(whole, "Sharded tensor must have shard shape that is a multiple of TILE_SIZE!")
        return tilize(session, tensor, memory, dtype)
    if tensor.memory.memory_layout is HEIGHT:  # padded first: height shards are tilized where they are
        missing = tuple((0, b - a) for a, b in zip(tensor.shape, tile_padded(tensor.shape), strict=True))
        return view(tilize(session, pad(session, tensor, missing), memory, dtype), held.shape)
    return tilize_with_padding(session, tensor, memory, dtype)


def _check_tiles(session: Session, held: Held, shape: Shape, memory: MemoryConfig) -> None:
    """The shards must be those of a tiled tensor: tt-metal builds its spec, even on the way to rows."""
    if memory.shard_spec is None:
        return
    dtype = DType.BF16 if held.dtype.is_block_float else held.dtype
    problem = spec_problem(TensorSpec(shape, dtype, TensorLayout(TILED, memory)), session.device)
    need(problem is None, problem or "")
