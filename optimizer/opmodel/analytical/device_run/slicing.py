"""`ttnn.slice` and the programs behind it (tt-metal 0.81 `data_movement/slice`)."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import MemoryConfig
from optimizer.layouts.tiling import TILE, ceil_div, round_up
from optimizer.opmodel.analytical.case import need
from optimizer.opmodel.analytical.derive import ROW_WISE, grid_shards, reshaped, synthesized, with_spec
from optimizer.opmodel.analytical.device_run.padding import to_layout
from optimizer.opmodel.analytical.device_run.session import Held, Session, Shape, scoped, view
from optimizer.opmodel.analytical.device_run.transfer import aligned_page, alignment, derived, to_memory_config
from optimizer.opmodel.analytical.device_run.untilize import tile_padded
from optimizer.opmodel.analytical.tensors import BLOCK, HEIGHT, L1_MEMORY, ROWS, WIDTH

MOST_READ = 4096
"""Bytes of rows that are read before one barrier."""
CHUNK = 8192
"""Bytes of a row passed at once when whole rows do not fit in L1."""
COLUMNS_CUT = (WIDTH, BLOCK)


@dataclass(frozen=True, slots=True)
class Range:
    """What is taken: begin, end and step of every dim."""

    begins: Shape
    ends: Shape
    steps: Shape

    @property
    def shape(self) -> Shape:
        spans = zip(self.begins, self.ends, self.steps, strict=True)
        return tuple(ceil_div(end - begin, step) for begin, end, step in spans)

    @property
    def plain(self) -> bool:
        return all(step == 1 for step in self.steps)

    def tiled(self) -> Range:
        """The ends rounded up to whole tiles."""
        end = tile_padded(self.ends) if len(self.ends) > 1 else self.ends
        return Range(self.begins, end, self.steps)


def slices_by_row(begins: Shape, steps: Shape) -> bool:
    """Whether what is taken of tiles goes by way of rows; no `steps`: all are 1."""
    return len(begins) == 1 or any(step != 1 for step in steps) or any(at % TILE for at in begins[-2:])


@scoped
def slice_tensor(session: Session, held: Held, wanted: Range, memory: MemoryConfig | None = None) -> Held:
    """`ttnn.slice`; without a memory config the operand's, its shards cut for the new shape."""
    asked = held.memory if memory is None else memory
    if wanted.plain and not any(wanted.begins) and wanted.ends == held.shape:
        return _placed(session, held, held, asked)
    rank = len(held.shape)
    by_row = not held.is_tile or slices_by_row(wanted.begins, wanted.steps)
    target = asked
    if memory is None and held.is_sharded and rank > 1:
        target = _inherited(held, wanted.shape, by_row)
    if _staged(session, held, wanted, target):
        return _by_way_of_l1(session, held, wanted, target)
    source = held
    if by_row:
        need(wanted.plain or held.dtype is not DType.BFP8_B, "Strided slice is not supported for BFLOAT8 tensors")
        source = to_layout(session, held, ROWS, asked)
    taken = wanted.tiled() if source.is_tile else wanted
    for begin, end in zip(wanted.begins, wanted.ends, strict=True):
        need(end >= begin, f"End {end} must be greater than or equal to start {begin}")
    out = _program(session, source, taken, target)
    out = view(out, wanted.shape, tuple(max(n, 1) for n in taken.shape))
    return _placed(session, out, held, target)


@scoped
def _placed(session: Session, source: Held, held: Held, target: MemoryConfig) -> Held:
    """The result where it is wanted, in the operand's page layout."""
    moved = to_memory_config(session, source, _resolved(session, source, target, None))
    return to_layout(session, moved, held.page)


def _resolved(session: Session, source: Held, target: MemoryConfig, hint: Held | None) -> MemoryConfig:
    """`resolve_mc`: shards for a request that names none."""
    if not target.is_sharded or target.shard_spec is not None:
        return target
    if source.memory.memory_layout is target.memory_layout:
        return with_spec(target, source.spec)
    orientation = next((t.spec.orientation for t in (hint, source) if t is not None and t.is_sharded), ROW_WISE)
    return with_spec(target, synthesized(source.padded, target.memory_layout, session.device, orientation))


def _inherited(held: Held, shape: Shape, by_row: bool) -> MemoryConfig:
    """The operand's shards cut for the slice's shape, on the same cores."""
    up = 1 if by_row else TILE
    rows, width = prod(shape[:-1]), shape[-1]
    if not by_row:
        padded = tile_padded(shape)
        rows, width = prod(padded[:-1]), padded[-1]
    spec, kind = held.spec, held.memory.memory_layout
    tall, wide = 1, 1
    if kind is HEIGHT:
        tall = spec.num_cores
    elif kind is WIDTH:
        wide = spec.num_cores
    else:
        need(spec.is_rectangle, "BLOCK_SHARDED grid must be a full rectangle")
        tall, wide = grid_shards(spec) if spec.orientation is ROW_WISE else grid_shards(spec)[::-1]
    size = (rows if kind is WIDTH else ceil_div(rows, tall), width if kind is HEIGHT else ceil_div(width, wide))
    return with_spec(held.memory, reshaped(spec, (round_up(size[0], up), round_up(size[1], up))))


# -- by way of interleaved rows in L1 --------------------------------------------------------------------
def _part_rows(session: Session, memory: MemoryConfig, dtype: DType) -> bool:
    """Whether the rows of shards are not a multiple of the buffer's alignment."""
    spec = memory.shard_spec
    return spec is not None and spec.shape[1] * dtype.element_bytes % alignment(session.device, memory) != 0


def _staged(session: Session, held: Held, wanted: Range, target: MemoryConfig) -> bool:
    seeded = held.is_sharded and held.memory.memory_layout is target.memory_layout
    if target.is_sharded and target.shard_spec is None and not seeded:
        return True
    if held.is_tile:
        return False
    part_width = bool(held.shape[-1] % TILE)
    if target.memory_layout in COLUMNS_CUT and (part_width or _part_rows(session, target, held.dtype)):
        return True
    return _rows_in_shards(session, held, wanted, target)


def _rows_in_shards(session: Session, held: Held, wanted: Range, target: MemoryConfig) -> bool:
    """`needs_rm_composite_input`: row-major shards the slice program cannot read."""
    if held.is_tile or not held.is_sharded:
        return False
    if held.memory.memory_layout in COLUMNS_CUT:
        part = _part_rows(session, held.memory, held.dtype)
        return bool(held.shape[-1] % TILE) or wanted.begins[-1] != 0 or part
    stays = target.memory_layout is HEIGHT and target.shard_spec is not None and wanted.plain
    return len(held.shape) > 1 and bool(held.shape[-1] % TILE or held.shape[-2] % TILE) and not stays


@scoped
def _by_way_of_l1(session: Session, held: Held, wanted: Range, target: MemoryConfig) -> Held:
    source = held
    if _rows_in_shards(session, held, wanted, target):
        source = to_memory_config(session, held, L1_MEMORY)
    part = slice_tensor(session, source, wanted, L1_MEMORY)
    return to_memory_config(session, part, _resolved(session, part, target, held))


# -- the programs ----------------------------------------------------------------------------------------
def _program(session: Session, held: Held, taken: Range, target: MemoryConfig) -> Held:
    """`ttnn::prim::slice`."""
    for begin, end, size in zip(taken.begins, taken.ends, held.padded, strict=False):
        need(begin < size, f"Slice start ({begin}) must be less than input tensor shape ({size})")
        need(end <= size, f"Ends {end} must be less than or equal to the shape of the tensor {size}")
    out = session.make(taken.shape, held.dtype, held.page, derived(session, held, held.shape, taken.shape, target))
    rank = 4 * len(held.shape)
    if held.is_tile:
        session.run(dfb=2 * held.dtype.tile_bytes, scratch=rank)
        return out
    start = taken.begins[-1] * held.dtype.element_bytes
    heights = held.memory.memory_layout is HEIGHT and out.memory.memory_layout is HEIGHT
    if heights and taken.plain and start % session.device.l1_alignment_bytes == 0:
        session.run(ranges=out.spec.core_ranges)
    elif not taken.plain:
        step = max(alignment(session.device, t.memory) for t in (held, out))
        session.run(dfb=2 * round_up(held.padded[-1] * held.dtype.element_bytes, step))
    else:
        session.run(dfb=_row_buffer(session, held, out, start), scratch=rank)
    return out


def _row_buffer(session: Session, held: Held, out: Held, start: int) -> int:
    """Double buffer of the row-major program: as many rows as one read takes, or part of a row when rows are huge."""
    device, size = session.device, held.dtype.element_bytes
    for tensor in (held, out):
        if tensor.memory.memory_layout in COLUMNS_CUT:
            whole = aligned_page(tensor, device) == tensor.page_bytes
            need(whole, "ttnn::slice: per-shard page size disagrees with the accessor's aligned page size")
    single = max(alignment(device, held.memory), alignment(device, out.memory))
    off = start % alignment(device, held.memory)
    step = 2 * single if off else single
    width = out.padded[-1] * size
    entry, room = round_up(width, step), session.free_l1()
    if not off and 2 * entry > room and entry > step:
        return _chunk_buffer(width, step, room)
    need(2 * entry <= room, f"ttnn::slice: required DFB size {2 * entry} B exceeds per-core L1 budget {room} B")
    sticks = round_up(ceil_div(out.rows, device.num_cores), 32)
    return 2 * entry * (sticks // _reads(sticks, round_up(width, single)))


def _reads(sticks: int, size: int) -> int:
    """`merge_num_sticks_to_read`: reads for so many rows when rows are read together up to 4 KiB."""
    total, reads = sticks * size, sticks
    for at_once in range(size, MOST_READ + 1, size):
        if total % at_once == 0:
            reads = total // at_once
    return reads


def _chunk_buffer(width: int, step: int, room: int) -> int:
    most = min(CHUNK, room // 8) // step * step
    need(most >= step, f"ttnn::slice: L1 budget {room} B too small for sub-row chunking")
    count = ceil_div(width, most)
    if count % 2:
        smaller = width // (count + 1) // step * step
        if smaller >= step and ceil_div(width, smaller) % 2 == 0:
            most, count = smaller, ceil_div(width, smaller)
    return 2 * most * (2 if count % 2 == 0 else 1)
