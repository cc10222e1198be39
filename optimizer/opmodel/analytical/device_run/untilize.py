"""Tiles to rows: untilize, untilize_with_unpadding and the code-generated untilize.

Sources: tt-metal 0.81 `data_movement/untilize`, `untilize/codegen`, `untilize_with_unpadding`.
"""

from __future__ import annotations

from math import prod

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, MemoryConfig, ShardSpec
from optimizer.layouts.tiling import TILE, ceil_div, padded_shape, round_up
from optimizer.opmodel.analytical.case import need
from optimizer.opmodel.analytical.derive import grid_shards, named_shards, reshaped, with_spec
from optimizer.opmodel.analytical.device_run.session import Held, Session, Shape, view
from optimizer.opmodel.analytical.device_run.transfer import alignment
from optimizer.opmodel.analytical.device_run.work_split import enough, pending_bytes, run_blocks, wants_blocks
from optimizer.opmodel.analytical.tensors import BLOCK, HEIGHT, INTERLEAVED, ROWS, TILED, WIDTH

NO_SHARDS = "Output memory config is sharded but no shard spec is provided"
CODEGEN_TILE = 2048
WIDEST_CODEGEN = 800_000
"""Bytes of two rows of tiles above which the code-generated program is not used."""


def row_dtype(dtype: DType) -> DType:
    """Element type of the rows: block floats become bf16."""
    return DType.BF16 if dtype is DType.BFP8_B else dtype


def folded(shape: Shape) -> Shape:
    """At most four dims, the leading ones multiplied together."""
    return shape if len(shape) <= 4 else (prod(shape[:-3]), *shape[-3:])


def is_aligned(shape: Shape) -> bool:
    return len(shape) > 1 and shape[-1] % TILE == 0 and shape[-2] % TILE == 0


def untilize(session: Session, held: Held, memory: MemoryConfig | None = None) -> Held:
    """`ttnn.untilize`."""
    memory = held.memory if memory is None else memory
    flat = view(held, folded(held.shape))
    if _codegen_serves(session, flat, memory) and _codegen_pages(session, flat, memory) is not None:
        out = _codegen(session, flat, memory)
    elif not flat.is_sharded and flat.shape != flat.padded:
        out = untilize_with_unpadding(session, flat, memory)
    else:
        out = _native(session, flat, memory)
    return (
        view(out, held.shape, held.padded if out.padded != out.shape else held.shape)
        if flat.shape != held.shape
        else out
    )


# -- code-generated --------------------------------------------------------------------------------------
def _tile_rows(held: Held) -> int:
    return held.rows // TILE


def _codegen_serves(session: Session, held: Held, memory: MemoryConfig) -> bool:
    if held.dtype not in (DType.BF16, DType.BFP8_B) or held.is_sharded or memory.is_sharded:
        return False
    wide = ceil_div(held.shape[-1], TILE)
    if not is_aligned(held.shape):
        return held.dtype is DType.BF16 and 2 * wide * CODEGEN_TILE <= WIDEST_CODEGEN
    rows = _tile_rows(held)
    if rows > 1 and 2 * wide * CODEGEN_TILE > WIDEST_CODEGEN:
        return False
    each = ceil_div(wide, session.device.num_cores)
    return not (rows == 1 and wide > 1 and 2 * each * CODEGEN_TILE > session.device.cb_limit_bytes)


def _codegen_unit(session: Session, held: Held) -> int:
    """Tiles that one core takes at a time."""
    wide, rows, cores = held.padded[-1] // TILE, _tile_rows(held), session.device.num_cores
    if not is_aligned(held.shape) or wide == 1:
        return wide
    if rows == 1:
        return ceil_div(wide, cores)
    if rows >= cores:
        return wide
    most = min(cores // rows, wide)
    return wide // max(d for d in range(1, most + 1) if wide % d == 0)


def _codegen_pages(session: Session, held: Held, memory: MemoryConfig, reserve: bool = True) -> tuple[int, int] | None:
    """(input, output) tiles buffered: both double, the input double, or single, by what is free; None: no room."""
    dtype = row_dtype(held.dtype)
    tile = max(held.dtype.tile_bytes, dtype.tile_bytes)
    shape = held.padded if is_aligned(held.shape) else held.shape
    reserved = pending_bytes(session, shape, dtype, ROWS, memory) if reserve else 0
    room, unit = max(0, session.free_l1() - reserved), _codegen_unit(session, held)
    for tiles_in, tiles_out in ((2, 2), (2, 1), (1, 1)):
        if (tiles_in + tiles_out) * unit * tile <= room:
            return (tiles_in * unit, tiles_out * unit)
    return None


def _codegen(session: Session, held: Held, memory: MemoryConfig) -> Held:
    dtype = row_dtype(held.dtype)
    padded = held.padded if is_aligned(held.shape) else held.shape
    out = session.make(held.shape, dtype, ROWS, memory, padded)
    pages = _codegen_pages(session, held, memory, reserve=False)
    need(pages is not None, "untilize: no circular-buffer plan fits the free L1")
    assert pages is not None
    session.run(cb=pages[0] * held.dtype.tile_bytes + pages[1] * dtype.tile_bytes)
    return out


# -- whole tiles -----------------------------------------------------------------------------------------
def _native(session: Session, held: Held, memory: MemoryConfig) -> Held:
    """`ttnn::prim::untilize`: the padding stays."""
    dtype = row_dtype(held.dtype)
    if memory.is_sharded:
        size = named_shards(memory, NO_SHARDS).shape[1] * (2 if dtype is DType.BF16 else dtype.element_bytes)
        need(size % alignment(session.device, memory) == 0, f"Output shard row size {size} bytes must be aligned")
        in_l1 = memory.memory_layout is not BLOCK or memory.buffer_type is BufferType.L1
        need(in_l1, "We don't support DRAM block sharding")
    per_tile = held.dtype.tile_bytes + dtype.tile_bytes
    wide = held.padded[-1] // TILE
    reserved = pending_bytes(session, held.padded, dtype, ROWS, memory)
    fits = enough(session, wide, per_tile, 0, reserved)
    out = session.make(held.shape, dtype, ROWS, memory, held.padded)
    _run_native(session, held, out, fits)
    return out


def _run_native(session: Session, held: Held, out: Held, fits: bool) -> None:
    cores, wide, rows = session.device.num_cores, held.padded[-1] // TILE, _tile_rows(held)
    tile_in, tile_out = held.dtype.tile_bytes, out.dtype.tile_bytes
    if held.is_sharded or out.is_sharded:
        _run_sharded(session, held, out)
        return
    high = held.padded[-2] // TILE
    if not fits or wants_blocks(cores, rows, wide, high, wide * high):
        run_blocks(session, wide, high, tile_in, tile_out, staged=False)
        return
    half = session.device.worker_l1_bytes // 2 - session.device.cb_base_bytes
    if wide > half // (2 * tile_in):  # a row of tiles that does not fit in half of L1
        each = 2 * ceil_div(wide, cores) if rows == 1 else wide
        session.run(dfb=each * (tile_in + tile_out))
        return
    each = wide if ceil_div(rows, cores) == 1 else 2 * wide
    session.run(dfb=each * (tile_in + tile_out))


def _run_sharded(session: Session, held: Held, out: Held) -> None:
    """Shards are read where they lie unless the last ones are partly empty or in DRAM."""
    tile_in, tile_out = held.dtype.tile_bytes, out.dtype.tile_bytes
    if not held.is_sharded:
        wide, rows = held.padded[-1] // TILE, _tile_rows(held)
        each = wide if ceil_div(rows, session.device.num_cores) == 1 else 2 * wide
        session.run(dfb=each * (tile_in + tile_out))
        return
    if held.memory == out.memory and held.is_l1:
        session.run(ranges=held.spec.core_ranges)
        return
    height, width = held.spec.shape
    wide, high = width // TILE, height // TILE
    each = wide if high == 1 else 2 * wide
    uneven = held.rows % height or held.padded[-1] % width
    own = each if uneven or not held.is_l1 else 0
    session.run(dfb=own * tile_in + each * tile_out)


# -- without the padding ---------------------------------------------------------------------------------
def untilize_with_unpadding(session: Session, held: Held, memory: MemoryConfig | None = None) -> Held:
    """`ttnn.untilize_with_unpadding` down to the logical shape."""
    flat = view(held, folded(held.shape))
    memory = held.memory if memory is None else memory
    dtype = row_dtype(held.dtype)
    wide = flat.padded[-1] // TILE
    reserved = pending_bytes(session, flat.shape, dtype, ROWS, memory)
    fits = enough(session, wide, held.dtype.tile_bytes + dtype.tile_bytes, 0, reserved)
    if flat.is_sharded:
        _check_sharded(flat, memory)
    elif memory.is_sharded:
        named_shards(memory, NO_SHARDS)
    out = session.make(flat.shape, dtype, ROWS, _unpadded_memory(flat, memory))
    if flat.is_sharded:
        _run_unpadding_shards(session, flat, out)
    else:
        _run_unpadding(session, flat, out, fits)
    return view(out, held.shape, held.shape) if flat.shape != held.shape else out


def _run_unpadding(session: Session, held: Held, out: Held, fits: bool) -> None:
    tile_in, tile_out = held.dtype.tile_bytes, out.dtype.tile_bytes
    wide, high = held.padded[-1] // TILE, (held.padded[-2] // TILE)
    cut = not fits or wants_blocks(session.device.num_cores, _tile_rows(held), wide, high, wide * high)
    if cut and not out.is_sharded:
        run_blocks(session, wide, high, tile_in, tile_out, staged=False)
    else:
        session.run(dfb=wide * (tile_in + tile_out))


def _matrices(held: Held) -> int:
    """Whole padded matrices in one height shard, at least one."""
    return max(1, prod(held.spec.shape) // (held.padded[-2] * held.padded[-1]))


def _run_unpadding_shards(session: Session, held: Held, out: Held) -> None:
    wide, high = held.spec.shape[1] // TILE, held.spec.shape[0] // TILE
    if not out.is_sharded:
        tiles = 2 * wide
    elif out.memory.memory_layout is held.memory.memory_layout and out.padded[-1] == 16 and out.padded[-2] % TILE == 0:
        tiles = 16
    else:
        all_of_it = held.volume // (held.padded[-2] * held.padded[-1])
        batch = _matrices(held) if held.memory.memory_layout is HEIGHT else all_of_it
        tiles = 2 * (wide * high // batch)
    session.run(dfb=tiles * out.dtype.tile_bytes, ranges=held.spec.core_ranges)


def _check_sharded(held: Held, memory: MemoryConfig) -> None:
    kind, to = held.memory.memory_layout, memory.memory_layout
    single = held.volume == held.padded[-2] * held.padded[-1]
    if kind is HEIGHT:
        need(to in (HEIGHT, INTERLEAVED), "Output memory config layout must be HEIGHT_SHARDED when output is sharded")
    elif kind is BLOCK:
        need(to in (BLOCK, WIDTH, INTERLEAVED), "Output memory config layout must be BLOCK_SHARDED")
        name = "interleaved" if to is INTERLEAVED else f"for BLOCK_SHARDED -> {to.value.upper()}"
        need(single, f"Can only write unbatched output {name}")
    else:
        _check_width(held, memory, single)
    if to is kind:
        need(memory.buffer_type is BufferType.L1, f"{to.value.upper()} -> {to.value.upper()} output must be in L1")
    elif memory.is_sharded:
        _check_across(held, memory, single)


def _check_width(held: Held, memory: MemoryConfig, single: bool) -> None:
    to, width = memory.memory_layout, held.spec.shape[1]
    need(to in (BLOCK, WIDTH, INTERLEAVED), "Output memory config layout must match input tensor memory layout")
    if to is WIDTH:
        whole = held.padded[-1] == held.shape[-1] or ceil_div(held.shape[-1], width) == held.spec.num_cores
        need(whole, "Input tensor width must equal output width or output width / shard width must equal num cores")
    elif to is INTERLEAVED:
        need(single, "Can only write unbatched output interleaved")
        need(held.padded[-1] - held.shape[-1] < width, "Input tensor width difference must be less than shard width")


def _check_across(held: Held, memory: MemoryConfig, single: bool) -> None:
    """Width to block shards or back: the columns must be cut alike."""
    width = held.spec.shape[1]
    need(width == named_shards(memory, NO_SHARDS).shape[1], "requires matching column shard width")
    columns = held.spec.num_cores if held.memory.memory_layout is WIDTH else grid_shards(held.spec)[1]
    need(columns == ceil_div(held.shape[-1], width), "requires the output to span the same number of column shards")
    need(single, "Can only write unbatched output across shard types")


def _tiled_part(total: int, parts: int) -> int:
    return round_up(ceil_div(total, parts), TILE)


def _unpadded_memory(held: Held, memory: MemoryConfig) -> MemoryConfig:
    """Memory config of the rows: shards cut again for the unpadded shape, on the cores given."""
    rows, width = prod(held.shape[:-1]), held.shape[-1]
    if not memory.is_sharded:
        return memory
    if held.is_sharded and held.memory.memory_layout is not memory.memory_layout:
        return memory
    given = held.spec if held.is_sharded else named_shards(memory)
    return with_spec(memory, reshaped(given, _unpadded_shard(held, memory, given, rows, width)))


def _unpadded_shard(held: Held, memory: MemoryConfig, given: ShardSpec, rows: int, width: int) -> tuple[int, int]:
    if memory.memory_layout is BLOCK:
        tall, wide = grid_shards(given)
        return (_tiled_part(rows, tall), _tiled_part(width, wide))
    if memory.memory_layout is WIDTH:
        return (rows, given.shape[1] if held.is_sharded else _tiled_part(width, given.num_cores))
    if not held.is_sharded:
        return (_tiled_part(rows, given.num_cores), given.shape[1])
    batch = _matrices(held)
    if batch > 1:
        return (batch * held.shape[-2], width)
    return (_tiled_part(rows, given.num_cores), width)


def tile_padded(shape: Shape) -> Shape:
    return padded_shape(shape, TILED)
