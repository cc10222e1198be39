"""The device programs of `ttnn.sum`, `mean`, `max`, `min`, `std` and `var` on tensors of four dims.

Sources: tt-metal `reduction/generic/device` (`reduce_op.cpp`, the multi core H and W factories, `common.cpp`) and
`experimental/reduction/fast_reduce_nc`; numbers of tiles measured on mock devices where the sources differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm, prod

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, MemoryConfig, PageLayout, ShardOrientation, ShardSpec
from optimizer.layouts.tiling import TILE, ceil_div, round_up
from optimizer.opmodel.analytical.case import need
from optimizer.opmodel.analytical.device_run.session import Held, Session, Shape, scoped, view
from optimizer.opmodel.analytical.device_run.tilize import tilize_with_padding
from optimizer.opmodel.analytical.device_run.untilize import tile_padded
from optimizer.opmodel.analytical.tensors import BLOCK, HEIGHT, WIDTH

BATCH = 4
"""Tiles the readers fetch before one barrier (`kReduceReaderTilesPerBatch`); the buffer holds two batches."""
COLUMN_TILES = 4
"""Tiles of the destination registers with f32 sums: the columns a core reduces at once."""
LEAST_SPLIT_TILES = 20
LEAST_SPLIT_ROW_TILES = 16
"""Rows of tiles below which a tiled, a row-major operand is not cut into slices of rows."""
CHUNK_TILES = 8
"""Tiles a core tilizes at once when it reduces row-major data."""
FAST_TILES = 8
"""Most tiles `fast_reduce_nc` reads at once: the largest divisor of the dim."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What one reduction does: its op (`sum`, `mean`, `max` or `min`) and whether it is -max(-x)."""

    op: str
    negate: bool = False

    @property
    def adds(self) -> bool:
        return self.op in ("sum", "mean")


def _scaler(held: Held) -> int:
    return (DType.F32 if held.dtype is DType.F32 else DType.BF16).tile_bytes


def result_memory(session: Session, held: Held, shape: Shape, memory: MemoryConfig) -> MemoryConfig:
    """`build_reduce_output_tensor_spec`: shards as the result and the cores demand, the operand's cores if need be."""
    if held.is_sharded and held.is_l1:
        rows, columns = session.device.grid_yx
        inside = all(x1 < columns and y1 < rows for _, _, x1, y1 in held.spec.core_ranges)
        need(inside, "Input shard grid must be contained in program core grid")
    whole = all(m.memory_layout is not BLOCK or m.buffer_type is BufferType.L1 for m in (held.memory, memory))
    need(whole, "reduce: DRAM block sharding is not supported")
    if not memory.is_sharded:
        return MemoryConfig(memory.memory_layout, memory.buffer_type)
    spec = memory.shard_spec
    if spec is None:
        alike = held.memory.buffer_type is memory.buffer_type or not held.is_sharded
        need(alike, "Sharded memory layout requires an explicit shard_spec (cannot fall back to another buffer type's)")
        spec = held.spec
    padded = tile_padded(shape)
    size = _shard_size(spec, memory, (prod(padded[:-1]), padded[-1]))
    kind = memory.memory_layout
    if kind is HEIGHT and size[0] >= prod(padded[:-1]):
        kind = WIDTH  # a single shard is the same either way and is reported as the other kind
    cut = ShardSpec(spec.grid_yx, size, spec.core_ranges, spec.orientation)
    return MemoryConfig(kind, memory.buffer_type, cut)


def _shard_size(spec: ShardSpec, memory: MemoryConfig, size: tuple[int, int]) -> tuple[int, int]:
    rows, columns = size
    if memory.memory_layout is HEIGHT:
        return round_up(ceil_div(rows, spec.num_cores), TILE), columns
    if memory.memory_layout is WIDTH:
        return rows, round_up(ceil_div(columns, spec.num_cores), TILE)
    need(len(spec.core_ranges) == 1, "Block sharding requires a single CoreRange")
    x0, y0, x1, y1 = spec.core_ranges[0]
    wide, tall = x1 - x0 + 1, y1 - y0 + 1
    if spec.orientation is ShardOrientation.COL_MAJOR:
        wide, tall = tall, wide
    return round_up(ceil_div(rows, tall), TILE), round_up(ceil_div(columns, wide), TILE)


def _reduced(held: Held, axis: int) -> Shape:
    shape = list(held.shape)
    shape[axis] = 1
    return tuple(shape)


def _least(units: int, session: Session) -> int:
    """Units of the core with the fewest (`split_work_to_cores`)."""
    return units // min(units, session.device.num_cores)


def _borrows(held: Held, target: MemoryConfig, kind: object) -> bool:
    """Operand and result are shards of that kind in L1 and are reduced where they are."""
    alike = held.memory.memory_layout is kind and target.memory_layout is kind
    return alike and held.is_l1 and target.buffer_type is BufferType.L1


def _same_rows(held: Held, target: MemoryConfig) -> bool:
    """Full shards of the same rows on the same cores."""
    spec, other = held.spec, target.shard_spec
    full = held.rows == spec.shape[0] * spec.num_cores
    return full and other is not None and other.core_ranges == spec.core_ranges and other.shape[0] == spec.shape[0]


def reduce_rows(session: Session, held: Held, kind: Kind, memory: MemoryConfig, dtype: DType) -> Held:
    """`ReduceMultiCoreWProgramFactory`: the last dim of tiles."""
    target = result_memory(session, held, _reduced(held, -1), memory)
    out = session.make(_reduced(held, -1), dtype, held.page, target)
    width = held.padded[-1] // TILE
    least = _least(held.rows // TILE, session)
    negated = 2 * dtype.tile_bytes if kind.negate else 0
    if _borrows(held, target, HEIGHT) and _same_rows(held, target):
        session.run(dfb=2 * held.dtype.tile_bytes + _scaler(held) + negated, ranges=held.spec.core_ranges)
        return out
    batched = least * width >= BATCH and (not kind.negate or least > 1)
    tiles = 2 * (BATCH if batched else 1)
    session.run(dfb=tiles * held.dtype.tile_bytes + _scaler(held) + 2 * dtype.tile_bytes + negated)
    return out


def reduce_columns(session: Session, held: Held, kind: Kind, memory: MemoryConfig, dtype: DType) -> Held:
    """`ReduceMultiCoreHProgramFactory`: the second last dim of tiles."""
    target = result_memory(session, held, _reduced(held, -2), memory)
    out = session.make(_reduced(held, -2), dtype, held.page, target)
    tile = held.dtype.tile_bytes
    if _borrows(held, target, WIDTH):
        negated = 2 * _negated_tiles(session, held) * dtype.tile_bytes if kind.negate else 0
        session.run(dfb=2 * tile + _scaler(held) + negated, ranges=held.spec.core_ranges)
        return out
    if kind.negate:
        tiles = COLUMN_TILES * tile + (COLUMN_TILES + 2 * _negated_tiles(session, held)) * dtype.tile_bytes
        session.run(dfb=tiles + _scaler(held))
        return out
    batched = _least(_columns(held), session) >= BATCH
    session.run(dfb=2 * (BATCH if batched else 1) * tile + _scaler(held) + 2 * dtype.tile_bytes)
    return out


def _columns(held: Held) -> int:
    """Columns of tiles over all matrices."""
    return prod(held.padded[:-2]) * ceil_div(held.padded[-1], TILE)


def _negated_tiles(session: Session, held: Held) -> int:
    """Tiles of what was summed and of its negative, so that every core's run ends at the buffer's end."""
    tall = held.padded[-2] // TILE
    if held.memory.memory_layout is WIDTH:
        return tall * (held.spec.shape[1] // TILE)
    columns = _columns(held)
    most = ceil_div(columns, min(columns, session.device.num_cores))
    least = _least(columns, session)
    return tall * lcm(most, least)


def negates_in_place(session: Session, held: Held) -> bool:
    """`h_reduce_negate_fits_in_l1`."""
    return 2 * _negated_tiles(session, held) * held.dtype.tile_bytes <= session.free_l1()


def _slices(session: Session, held: Held, kind: Kind, memory: MemoryConfig, least: int) -> int:
    """Slices of rows reduced apart so that few columns keep more cores busy; only between interleaved tensors."""
    if held.is_sharded or memory.is_sharded or kind.negate or not (kind.adds or not held.dtype.is_block_float):
        return 1
    tall, columns = ceil_div(held.shape[-2], TILE), _columns(held)
    return min(session.device.num_cores // columns, tall) if tall >= least else 1


@scoped
def _reduce_slices(session: Session, held: Held, kind: Kind, memory: MemoryConfig, dtype: DType, slices: int) -> Held:
    """Row-major partial results of the slices, then those reduced."""
    shape = (*held.shape[:-2], slices, held.shape[-1])
    partial = DType.F32 if kind.adds else held.dtype
    between = session.make(shape, partial, PageLayout.ROW_MAJOR, memory)
    if held.is_tile:
        batch = 1 if held.dtype is DType.F32 else BATCH
        session.run(dfb=2 * batch * held.dtype.tile_bytes + _scaler(held) + 2 * partial.tile_bytes)
    else:
        _run_dense(session, held, partial, 1, ceil_div(held.shape[-2], TILE))
    return _dense_columns(session, between, memory, dtype, held.page)


def _run_dense(session: Session, held: Held, dtype: DType, staged: int, tiles: int) -> None:
    """Buffers for row-major data: rows, padding, sums, tiles, the scaler and results (`make_rm_plan`)."""
    tile, out = held.dtype.tile_bytes, dtype.tile_bytes
    tilized = max(2, min(tiles, CHUNK_TILES))
    session.run(dfb=(2 * staged + 1 + tilized) * tile + 3 * out + _scaler(held))


def _dense_columns(session: Session, held: Held, memory: MemoryConfig, dtype: DType, page: PageLayout) -> Held:
    out = session.make(_reduced(held, -2), dtype, page, memory)
    _run_dense(session, held, dtype, 1, ceil_div(held.shape[-2], TILE))
    return out


def _dense_rows(session: Session, held: Held, memory: MemoryConfig, dtype: DType) -> Held:
    out = session.make(_reduced(held, -1), dtype, PageLayout.ROW_MAJOR, memory)
    width = ceil_div(held.shape[-1], TILE)
    _run_dense(session, held, dtype, min(width, CHUNK_TILES), width)
    return out


# -- what is chosen --------------------------------------------------------------------------------------
@scoped
def reduce_four(
    session: Session, held: Held, op: str, axes: str, memory: MemoryConfig, dtype: DType | None = None
) -> Held:
    """`generic::detail::reduce` of a tensor of four dims: `axes` is "w", "h" or "hw"."""
    dense = not held.is_tile and not held.is_sharded and not memory.is_sharded and op in ("sum", "mean")
    if dense and axes != "hw" and held.dtype in (DType.BF16, DType.F32):
        return _dense(session, held, axes, memory, dtype or held.dtype)
    kind = Kind(op, op == "min" and held.dtype.is_block_float)
    source = tilize_with_padding(session, held)
    wanted = dtype or held.dtype
    if axes == "w":
        return reduce_rows(session, source, kind, memory, wanted)
    if axes == "hw":
        if held.volume // (TILE * TILE) <= 1 and op != "min" and held.dtype is not DType.F32:
            return _reduce_tile(session, source, kind, memory, wanted)
        first = DType.F32 if op == "sum" and source.dtype in (DType.BF16, DType.F32) else wanted
        narrow = reduce_rows(session, source, kind, memory, first)
        return _columns_in_one(session, narrow, kind, memory, wanted)
    if not kind.negate:
        slices = _slices(session, source, kind, memory, LEAST_SPLIT_TILES)
        if slices > 1:
            return _reduce_slices(session, source, kind, memory, wanted, slices)
    return _columns_in_one(session, source, kind, memory, wanted)


def _columns_in_one(session: Session, held: Held, kind: Kind, memory: MemoryConfig, dtype: DType) -> Held:
    if kind.negate and not negates_in_place(session, held):
        return _negated_outside(session, held, kind, memory, dtype)
    return reduce_columns(session, held, kind, memory, dtype)


def _dense(session: Session, held: Held, axes: str, memory: MemoryConfig, dtype: DType) -> Held:
    if axes == "w":
        return _dense_rows(session, held, memory, dtype)
    kind = Kind("sum")
    slices = _slices(session, held, kind, memory, LEAST_SPLIT_ROW_TILES)
    if slices > 1:
        return _reduce_slices(session, held, kind, memory, dtype, slices)
    return _dense_columns(session, held, memory, dtype, PageLayout.ROW_MAJOR)


def _reduce_tile(session: Session, held: Held, kind: Kind, memory: MemoryConfig, dtype: DType) -> Held:
    """`ReduceSingleCoreHwProgramFactory`: what was one tile's worth before it was tilized."""
    shape = (*held.shape[:-2], 1, 1)
    out = session.make(shape, dtype, held.page, result_memory(session, held, shape, memory))
    tiles = 2 * (BATCH if held.volume >= BATCH * TILE * TILE else 1)
    session.run(dfb=tiles * held.dtype.tile_bytes + _scaler(held) + 2 * dtype.tile_bytes)
    return out


@scoped
def _negated_outside(session: Session, held: Held, kind: Kind, memory: MemoryConfig, dtype: DType) -> Held:
    """-max(-x) in three programs, where the buffers of the one program do not fit."""
    negative = session.like(held, held.memory)
    session.run(dfb=4 * held.dtype.tile_bytes)
    reduced = reduce_columns(session, negative, Kind("max"), memory, dtype)
    out = session.like(reduced, reduced.memory)
    session.run(dfb=4 * dtype.tile_bytes)
    return out


def fast_reduce(session: Session, held: Held, dim: int, memory: MemoryConfig, dtype: DType) -> Held:
    """`fast_reduce_nc` over one leading dim: the result's shape is the padded one."""
    shape = (*held.padded[:dim], 1, *held.padded[dim + 1 :])
    out = session.make(shape, dtype, held.page, memory)
    size = held.padded[dim]
    read = next(n for n in range(min(FAST_TILES, size), 0, -1) if size % n == 0)
    session.run(dfb=2 * read * held.dtype.tile_bytes + DType.BF16.tile_bytes + 2 * dtype.tile_bytes)
    return out


WELFORD_TILES = 8
"""Tiles read ahead when a line of tiles is read twice."""
KEPT_ALONE, KEPT_HIGH = 24, 16
"""Tiles from which a core's only row or column, each of a matrix's several columns, is kept and read once."""


def welford(session: Session, held: Held, axes: str, shape: Shape, memory: MemoryConfig) -> Held:
    """`welford_reduce`: mean and variance (`std`, `var`); when lines are kept was measured on mock devices."""
    out = session.make(shape, held.dtype, held.page, result_memory(session, held, shape, memory))
    tile = held.dtype.tile_bytes
    fixed = 2 * tile + (5 * DType.F32.tile_bytes if axes == "hw" else 0)
    kept = _kept_tiles(session, held, axes, prod(shape))
    fits = fixed + kept * tile <= session.free_l1()
    session.run(dfb=fixed + (kept if fits else WELFORD_TILES) * tile)
    return out


def _kept_tiles(session: Session, held: Held, axes: str, results: int) -> int:
    width, cores = held.padded[-1] // TILE, session.device.num_cores
    line = width if axes == "w" else held.padded[-2] // TILE
    matrices = prod(held.padded[:-2])
    if axes == "hw":
        least = KEPT_HIGH if matrices * width > min(results, cores) else KEPT_ALONE
    else:
        lines = held.rows // TILE if axes == "w" else matrices * width
        least = WELFORD_TILES if lines > cores else KEPT_ALONE
    return line if line >= least else WELFORD_TILES


def four_dims(held: Held) -> Held:
    """`unsqueeze_to_4D`, `squeeze_from_ND_to_4D`: the same rows in four dims."""
    rank = len(held.shape)
    if rank == 4:
        return held
    if rank < 4:
        lead = (1,) * (4 - len(held.padded))  # tiles of a vector have two padded dims
        return view(held, (1,) * (4 - rank) + held.shape, lead + held.padded)
    first = prod(held.shape[: rank - 3])
    return view(held, (first, *held.shape[-3:]), (first, *held.padded[-3:]))
