"""`ttnn.reshape` (tt-metal 0.81 `data_movement/reshape_view`)."""

from __future__ import annotations

from math import prod

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, MemoryConfig, ShardSpec
from optimizer.layouts.tiling import TILE, ceil_div, round_up
from optimizer.opmodel.analytical.case import need
from optimizer.opmodel.analytical.derive import ROW_WISE, block_spec, reshaped, tile_aligned, with_spec
from optimizer.opmodel.analytical.device_run.reshape_table import table_bytes
from optimizer.opmodel.analytical.device_run.session import Held, Session, Shape, scoped, view
from optimizer.opmodel.analytical.device_run.transfer import (
    fill_padding,
    interleaved_to_sharded,
    sharded_to_interleaved,
    to_memory_config,
    typecast,
)
from optimizer.opmodel.analytical.device_run.untilize import tile_padded
from optimizer.opmodel.analytical.tensors import BLOCK, HEIGHT, INTERLEAVED, TILED, WIDTH

NOC_BYTES = 16
"""Alignment of rows that are written straight from where they were read."""
ROW_BLOCK_BYTES = 64
"""Rows of derived row-major block shards are multiples of this (measured: 32 bf16, 16 f32)."""
ROW_SLOTS = 8
"""Rows of the result staged where rows are not aligned for the NoC."""


def reshape(
    session: Session, held: Held, shape: Shape, memory: MemoryConfig | None = None, padded: Shape | None = None
) -> Held:
    """`ttnn.reshape`; `padded` is the padded shape asked for, the shape itself when left out."""
    padded = shape if padded is None else padded
    target = held.memory if memory is None else memory
    same = held.shape == shape and held.padded == padded
    if same and target == held.memory:
        return held
    need(prod(shape) == prod(held.shape), "Invalid arguments to reshape")
    if same and not (target.is_sharded and target.shard_spec is None):
        return to_memory_config(session, held, target)
    if _is_view(held, shape, target):
        return read_as(held, shape, padded)
    if not held.is_tile:
        return _reshape_rows(session, held, shape, target)
    return _reshape_tiles(session, held, shape, target, memory is not None)


def _is_view(held: Held, shape: Shape, target: MemoryConfig) -> bool:
    """Whether nothing moves; a number without dims is a row of one."""
    given, shape = held.shape or (1,), shape or (1,)
    if given[-1] != shape[-1] or target.is_sharded is not held.is_sharded:
        return False
    if (target.buffer_type is BufferType.L1) is not held.is_l1:
        return False
    before, after = (s[-2] if len(s) > 1 else 1 for s in (given, shape))
    return not held.is_tile or before == after or (before % TILE == 0 and after % TILE == 0)


def read_as(held: Held, shape: Shape, padded: Shape) -> Held:
    """`PerformView`."""
    if held.shape == shape and held.padded == padded:
        return held
    part = held.is_tile and len(shape) > 1 and (shape[-1] % TILE or shape[-2] % TILE)
    return view(held, shape, None if len(shape) == 1 or part else padded)


def viewed(held: Held, shape: Shape) -> Held:
    """`ttnn.view`: the tensor itself when the shape is the same."""
    return held if held.shape == shape else read_as(held, shape, shape)


# -- shards of the result --------------------------------------------------------------------------------
def _most_parts(size: int, most: int, up: int) -> int:
    return next((n for n in range(most, 0, -1) if size % n == 0 and size // n % up == 0), 0)


def _resharded(
    session: Session, target: MemoryConfig, given: ShardSpec | None, size: tuple[int, int], up: tuple[int, int]
) -> MemoryConfig:
    """`recompute_shard_spec_for_output`: the same cores for a result of `size` (rows, columns) elements.

    Interleaved when the cores are no rectangle or no even cut exists; `up` is what shards are multiples of.
    """
    spec = target.shard_spec or given
    need(spec is not None, "ttnn.reshape: sharded output memory_config was supplied without a shard_spec")
    assert spec is not None
    plain = MemoryConfig(INTERLEAVED, target.buffer_type)
    if not spec.is_rectangle:
        return plain
    rows, columns = size
    if target.memory_layout is BLOCK:
        tall, wide = spec.bounding_box_yx if spec.orientation is ROW_WISE else spec.bounding_box_yx[::-1]
        parts = (_most_parts(rows, tall, up[0]), _most_parts(columns, wide, up[1]))
        if 0 in parts:
            return plain
        shard = (rows // parts[0], columns // parts[1])
        y, x = parts if spec.orientation is ROW_WISE else parts[::-1]
        x0, y0 = spec.core_ranges[0][0], spec.core_ranges[0][1]
        cut = block_spec(y, x, shard, spec.orientation)
        ranges = ((x0, y0, x0 + x - 1, y0 + y - 1),)
        return with_spec(target, ShardSpec(cut.grid_yx, shard, ranges, spec.orientation))
    if target.memory_layout is HEIGHT:
        shard = (round_up(ceil_div(rows, spec.num_cores), up[0]), columns)
        if shard[0] >= rows:  # one shard: named by its width
            whole = ShardSpec((1, spec.num_cores), shard, spec.core_ranges, spec.orientation)
            return MemoryConfig(WIDTH, target.buffer_type, whole)
        return with_spec(target, reshaped(spec, shard))
    wide = ceil_div(columns, spec.num_cores)
    return with_spec(target, reshaped(spec, (rows, round_up(wide, TILE) if up[0] == TILE else wide)))


# -- rows ------------------------------------------------------------------------------------------------
@scoped
def _reshape_rows(session: Session, held: Held, shape: Shape, target: MemoryConfig) -> Held:
    flat = read_as(held, (prod(held.shape[:-1]), held.shape[-1]), (prod(held.padded[:-1]), held.padded[-1]))
    source = flat
    if held.is_sharded:
        source = sharded_to_interleaved(session, flat, MemoryConfig(INTERLEAVED, held.memory.buffer_type))
    between = MemoryConfig(INTERLEAVED, target.buffer_type) if target.is_sharded else target
    out = _row_program(session, source, (prod(shape[:-1]), shape[-1]), between)
    if target.is_sharded:
        given = held.spec if held.is_sharded else None
        up = (1, ROW_BLOCK_BYTES // held.dtype.element_bytes)
        memory = _resharded(session, target, given, (prod(shape[:-1]), shape[-1]), up)
        if memory.is_sharded:
            out = interleaved_to_sharded(session, out, memory)
    return read_as(out, shape, shape)


def _row_program(session: Session, held: Held, shape: Shape, memory: MemoryConfig) -> Held:
    """`ReshapeViewRMProgramFactory`: scratchpads for two input rows and a slot (or eight) of output rows."""
    need(
        held.dtype in (DType.BF16, DType.F32, DType.U32, DType.I32),
        "Can only work with bfloat16/float32 or int32/uint32 tensors",
    )
    out = session.make(shape, held.dtype, held.page, memory)
    size = held.dtype.element_bytes
    source, result = held.shape[-1] * size, shape[-1] * size
    read = (source - 1) // 64 * 64 + 128
    slot = (result - 1) // 64 * 64 + 80
    aligned = source % NOC_BYTES == 0 and result % NOC_BYTES == 0
    divisible = source % result == 0 or result % source == 0
    copies = 2 if divisible and (result % NOC_BYTES == 0 or out.is_l1) else 1
    slots = 1
    if not aligned:
        room = session.free_l1() - 2 * read * copies
        need(room >= slot * copies, "RM reshape dest staging does not fit in L1")
        slots = max(1, min(ROW_SLOTS, room // (slot * copies)))
    session.run(scratch=copies * (2 * read + slots * slot))
    return out


# -- tiles -----------------------------------------------------------------------------------------------
def _three_dims(shape: Shape) -> Shape:
    if len(shape) < 3:
        return (1,) * (3 - len(shape)) + shape
    return (prod(shape[:-2]), *shape[-2:])


@scoped
def _reshape_tiles(session: Session, held: Held, shape: Shape, target: MemoryConfig, explicit: bool) -> Held:
    before, after = _three_dims(held.shape), _three_dims(shape)
    flat = read_as(held, before, tile_padded(before))
    given = held.spec if held.is_sharded else None
    if held.dtype.is_block_float:
        out = _reshape_blocks(session, flat, after, target, given, explicit)
    else:
        memory = target
        if target.is_sharded:
            memory = _tiled_shards(session, target, given, after, explicit)
            if flat.is_sharded and not memory.is_sharded:
                flat = sharded_to_interleaved(session, flat, MemoryConfig(INTERLEAVED, flat.memory.buffer_type))
        out = _tile_program(session, flat, after, memory)
    return read_as(out, shape, tile_padded(shape))


def _tiled_shards(
    session: Session, target: MemoryConfig, given: ShardSpec | None, shape: Shape, explicit: bool
) -> MemoryConfig:
    padded = tile_padded(shape)
    rows, columns = prod(padded[:-1]), padded[-1]
    spec = target.shard_spec
    if explicit and spec is not None and target.memory_layout is BLOCK and tile_aligned(spec) and spec.is_rectangle:
        tall, wide = spec.bounding_box_yx if spec.orientation is ROW_WISE else spec.bounding_box_yx[::-1]
        if tall * spec.shape[0] >= rows and wide * spec.shape[1] >= columns:
            return target
    return _resharded(session, target, given, (rows, columns), (TILE, TILE))


@scoped
def _reshape_blocks(
    session: Session, held: Held, shape: Shape, target: MemoryConfig, given: ShardSpec | None, explicit: bool
) -> Held:
    """Block floats go by way of interleaved bf16."""
    source = held
    if target.is_sharded and held.is_sharded:
        source = sharded_to_interleaved(session, held, MemoryConfig(INTERLEAVED, held.memory.buffer_type))
    source = session.replace(source, typecast(session, source, DType.BF16))
    between = MemoryConfig(INTERLEAVED, target.buffer_type) if target.is_sharded else target
    moved = _tile_program(session, source, shape, between)
    out = session.replace(moved, typecast(session, fill_padding(session, moved), held.dtype))
    if target.is_sharded:
        memory = _tiled_shards(session, target, given, shape, explicit)
        if memory.is_sharded:
            out = interleaved_to_sharded(session, out, memory)
    return out


def _tile_program(session: Session, held: Held, shape: Shape, memory: MemoryConfig) -> Held:
    """`ReshapeViewTiledProgramFactory`: a table entry, an input tile and an output tile at a time."""
    need(
        held.dtype in (DType.BF16, DType.F32, DType.U32, DType.I32),
        "Can only work with bfloat16/float32 or int32/uint32 tensors",
    )
    out = session.make(shape, held.dtype, TILED, memory, tile_padded(shape))
    tile = held.dtype.tile_bytes
    session.run(dfb=table_bytes(held.shape, shape) + tile, scratch=tile)
    return out
