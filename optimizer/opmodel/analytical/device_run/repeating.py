"""`ttnn.repeat` (tt-metal 0.81 `data_movement/repeat`): a code-generated program, or the older ones."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, MemoryConfig, PageLayout, ShardSpec, TensorLayout
from optimizer.layouts.tiling import TILE, round_up
from optimizer.opmodel.analytical.case import need
from optimizer.opmodel.analytical.derive import (
    ROW_WISE,
    grid_shards,
    paged_rows,
    reshaped,
    synthesized,
    tile_aligned,
    with_spec,
)
from optimizer.opmodel.analytical.device_run.padding import to_layout
from optimizer.opmodel.analytical.device_run.reshaping import viewed
from optimizer.opmodel.analytical.device_run.session import Held, Session, Shape, natural_padding, scoped
from optimizer.opmodel.analytical.device_run.transfer import (
    aligned_page,
    alignment,
    interleaved_to_sharded,
    to_memory_config,
)
from optimizer.opmodel.analytical.device_run.untilize import is_aligned, untilize
from optimizer.opmodel.analytical.tensors import (
    BLOCK,
    DRAM_MEMORY,
    HEIGHT,
    INTERLEAVED,
    L1_MEMORY,
    ROWS,
    TILED,
    WIDTH,
    l1_bytes,
)
from optimizer.opmodel.base import TensorSpec

BATCH = 4
"""Pages moved between two barriers; buffers hold two batches."""
READ_ALIGNMENT = 64
HOT_COLUMNS = 8
"""Cores of a one-row shard grid from which reads of the whole grid hold each other up."""


def repeat(session: Session, held: Held, reps: Shape, memory: MemoryConfig | None = None) -> Held:
    """`ttnn.repeat`, one count per dim."""
    target = memory
    if target is None:
        target = MemoryConfig(held.memory.memory_layout, held.memory.buffer_type) if held.is_sharded else held.memory
    resolved = _resolved(session, held, reps, target)
    generated = not _demoted(held, reps, resolved) and _supported(session, held, reps, resolved)
    if generated and _legs_fit(session, held, reps, resolved, session.free_l1(), now=True):
        return _by_codegen(session, held, reps, resolved)
    return _native(session, held, reps, target)


def _repeated(shape: Shape, reps: Shape) -> Shape:
    return tuple(s * r for s, r in zip(shape, reps, strict=True))


def _plain(buffer: BufferType) -> MemoryConfig:
    return MemoryConfig(INTERLEAVED, buffer)


def _single(reps: Shape) -> int | None:
    """The one dim that is repeated."""
    dims = [i for i, r in enumerate(reps) if r != 1]
    return dims[0] if len(dims) == 1 else None


# -- shards of the result --------------------------------------------------------------------------------
def _generated(session: Session, held: Held, shape: Shape, memory: MemoryConfig, hint: Held) -> MemoryConfig | None:
    """`generate_repeat_shard_spec`: over the whole grid, row-major shards of whole aligned rows; None: impossible."""
    kind, device = memory.memory_layout, session.device
    orientation = hint.spec.orientation if hint.is_sharded else ROW_WISE
    spec = synthesized(shape, kind, device, orientation, tiled=held.is_tile)
    if held.is_tile:
        return with_spec(memory, spec)
    size, width = held.dtype.element_bytes, shape[-1]
    found = paged_rows(spec, kind, width, size, device)
    if found is not None:
        return with_spec(memory, found)
    spec = synthesized(shape, kind, device, orientation)
    if spec.shape[1] * size % device.l1_alignment_bytes or width % spec.shape[1]:
        return None
    return with_spec(memory, spec)


def _scaled(spec: ShardSpec, dim: int, rank: int, times: int) -> ShardSpec:
    height, width = spec.shape
    return reshaped(spec, (height, width * times) if dim == rank - 1 else (height * times, width))


def _resolved(session: Session, held: Held, reps: Shape, target: MemoryConfig) -> MemoryConfig:
    """`resolve_codegen_output_mem_config`."""
    if not target.is_sharded or target.shard_spec is not None:
        return target
    dim = _single(reps)
    if dim is not None and held.is_sharded and _stays(held, target, dim, reps[dim]):
        return with_spec(target, _scaled(held.spec, dim, len(reps), reps[dim]))
    shape = natural_padding(_repeated(held.shape, reps), held.page, _plain(target.buffer_type))
    found = _generated(session, held, shape, target, held)
    return _plain(target.buffer_type) if found is None else found


def _stays(held: Held, target: MemoryConfig, dim: int, times: int) -> bool:
    """`is_native_repeat_sharding`: every core repeats what it holds."""
    kind, spec = held.memory.memory_layout, held.spec
    if not held.is_l1 or len(held.padded) < 2 or held.rows % spec.shape[0] or held.padded[-1] % spec.shape[1]:
        return False
    last = dim == len(held.shape) - 1
    if held.is_tile:
        if not is_aligned(held.shape):
            return False
    elif last and kind in (WIDTH, BLOCK):
        return False
    if target.is_sharded:
        same = target.shard_spec is None or target.shard_spec.core_ranges == spec.core_ranges
        if target.buffer_type is BufferType.DRAM or target.memory_layout is not kind or not same:
            return False
    if last or times <= 1:
        return True
    return spec.shape[0] % (prod(held.padded[dim + 1 : -1]) * held.padded[dim]) == 0


def _whole_pages(memory: MemoryConfig, shape: Shape, page: PageLayout) -> bool:
    """`shard_spec_is_page_identical`: the shards hold the pages of the interleaved tensor, none of them partly."""
    if not memory.is_sharded:
        return True
    spec = memory.shard_spec
    if spec is None or len(shape) < 2:
        return False
    padded = natural_padding(shape, page, DRAM_MEMORY)
    height, width = prod(padded[:-1]), padded[-1]
    if (page is TILED and not tile_aligned(spec)) or height % spec.shape[0] or width % spec.shape[1]:
        return False
    tall, wide = height // spec.shape[0], width // spec.shape[1]
    if page is not TILED and wide != 1:
        return False
    if memory.memory_layout is HEIGHT:
        return wide == 1 and tall <= spec.num_cores
    if memory.memory_layout is WIDTH:
        return tall == 1 and wide <= spec.num_cores
    return spec.is_rectangle and grid_shards(spec) == (tall, wide)


# -- the code-generated program --------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Legs:
    """How one dim after the other is repeated (`plan_codegen_legs`)."""

    dims: tuple[int, ...]
    reps: Shape
    unshard: bool
    by_row: bool
    between: MemoryConfig
    last: MemoryConfig
    rows: bool
    """The legs move rows, not tiles."""


def _by_row(held: Held, reps: Shape) -> bool:
    part = held.is_tile and len(reps) > 1 and not is_aligned(held.shape)
    return part and (reps[-2] > 1 or reps[-1] > 1)


def _legs(held: Held, reps: Shape, target: MemoryConfig) -> Legs:
    rank, by_row = len(reps), _by_row(held, reps)
    unshard = held.is_sharded and (by_row or not _whole_pages(held.memory, held.shape, held.page))
    tiles = held.is_tile and not by_row
    folded = list(reps)
    for d in range(rank - (3 if tiles else 2)):
        if held.shape[d] == 1 and folded[d] > 1 and folded[d + 1] > 1:
            folded[d + 1] *= folded[d]
            folded[d] = 1
    order = range(rank) if tiles else range(rank - 1, -1, -1)
    direct = not by_row and _whole_pages(target, _repeated(held.shape, reps), held.page)
    return Legs(
        dims=tuple(d for d in order if folded[d] > 1),
        reps=tuple(folded),
        unshard=unshard,
        by_row=by_row,
        between=_plain(BufferType.DRAM if unshard else held.memory.buffer_type),
        last=target if direct else _plain(target.buffer_type),
        rows=not tiles,
    )


def _page(session: Session, shape: Shape, dtype: DType, memory: MemoryConfig) -> int:
    """Aligned bytes of a row, or of its part in a width or block shard."""
    width = shape[-1]
    if memory.memory_layout in (WIDTH, BLOCK) and memory.shard_spec is not None:
        width = memory.shard_spec.shape[1]
    return round_up(width * dtype.element_bytes, alignment(session.device, memory))


def _bank_bytes(session: Session, shape: Shape, dtype: DType, page: PageLayout, memory: MemoryConfig) -> int:
    return l1_bytes(TensorSpec(shape, dtype, TensorLayout(page, memory)), session.device)


def _legs_fit(session: Session, held: Held, reps: Shape, target: MemoryConfig, room: int, now: bool) -> bool:
    """Whether every row-major leg has room for its buffer: one slot of what is free `now`, two of an idle core."""
    legs = _legs(held, reps, target)
    if not legs.rows:
        return True
    dtype, shape = held.dtype, held.shape
    source = DRAM_MEMORY if legs.unshard else held.memory
    taken = 0 if now else _bank_bytes(session, shape, dtype, held.page, held.memory)
    if legs.by_row:
        source = legs.between
        taken += _bank_bytes(session, shape, dtype, ROWS, source)
    for index, d in enumerate(legs.dims):
        memory = legs.last if index == len(legs.dims) - 1 else legs.between
        wider = (*shape[:d], shape[d] * legs.reps[d], *shape[d + 1 :])
        taken += _bank_bytes(session, wider, dtype, ROWS, memory)
        slot = max(_page(session, shape, dtype, source), _page(session, wider, dtype, memory))
        if taken >= room or (1 if now else 2) * slot > room - taken:
            return False
        shape, source = wider, memory
    return True


def _supported(session: Session, held: Held, reps: Shape, target: MemoryConfig) -> bool:
    if not 2 <= len(reps) <= 4 or not any(r > 1 for r in reps) or 0 in reps:
        return False
    if target.is_sharded and target.shard_spec is None:
        return False
    if held.is_tile and not _by_row(held, reps):
        return True
    if held.dtype.is_block_float:
        return False
    room = session.device.cb_limit_bytes
    if not held.is_l1 and target.buffer_type is BufferType.DRAM:
        stick = held.shape[-1] * reps[-1] * held.dtype.element_bytes
        return 2 * round_up(stick, session.device.dram_alignment_bytes) <= room
    return _legs_fit(session, held, reps, target, room, now=False)


def _demoted(held: Held, reps: Shape, target: MemoryConfig) -> bool:
    """`is_demoted`: shards that the older programs repeat faster."""
    if not held.is_sharded or not held.is_l1:
        return False
    rank, kind = len(reps), held.memory.memory_layout
    tall, wide = held.spec.bounding_box_yx
    whole = _whole_pages(held.memory, held.shape, held.page)
    rows_of_last = kind is HEIGHT and target.memory_layout is HEIGHT and rank > 1 and whole
    if not held.is_tile and rows_of_last and all(r == 1 for r in reps[:-1]) and reps[-1] != 1 and wide > tall:
        return True
    dim = _single(reps)
    if not held.is_tile and not whole and dim is not None and _stays(held, target, dim, reps[dim]):
        return True
    if kind is not HEIGHT or rank < 3 or (not held.is_tile and target != L1_MEMORY):
        return False
    legs = _legs(held, reps, target)
    if legs.unshard or legs.by_row or not legs.dims or legs.dims[0] + 2 >= rank:
        return False
    return tall == 1 and wide >= HOT_COLUMNS


@scoped
def _by_codegen(session: Session, held: Held, reps: Shape, target: MemoryConfig) -> Held:
    legs = _legs(held, reps, target)
    out = to_memory_config(session, held, DRAM_MEMORY) if legs.unshard else held
    if legs.by_row:
        out = session.replace(out, untilize(session, out))
    for index, d in enumerate(legs.dims):
        memory = legs.last if index == len(legs.dims) - 1 else legs.between
        out = session.replace(out, _codegen_leg(session, out, d, legs.reps[d], memory))
    shape = _repeated(held.shape, reps)
    out = viewed(out, shape)
    if legs.by_row:
        out = session.replace(out, to_layout(session, out, TILED, None, held.dtype))
    return out if out.memory == target else to_memory_config(session, out, target)


def _codegen_leg(session: Session, held: Held, dim: int, times: int, memory: MemoryConfig) -> Held:
    """`ttnn::prim::repeat_codegen` of one dim."""
    lead = 4 - len(held.shape)
    flat = viewed(held, (1,) * lead + held.shape)
    axis = dim + lead
    need(_whole_pages(flat.memory, flat.shape, flat.page), "Input is not supported by RepeatCodegen")
    if flat.is_tile:
        need(axis < 2 or flat.shape[axis] % TILE == 0, "Input is not supported by RepeatCodegen")
    shape = tuple(s * times if i == axis else s for i, s in enumerate(flat.shape))
    need(_whole_pages(memory, shape, flat.page), "RepeatCodegen output placement must be a page-identical shard spec")
    out = session.make(shape, flat.dtype, flat.page, memory)
    if not flat.is_tile:
        slot = max(aligned_page(flat, session.device), aligned_page(out, session.device))
        slots = session.free_l1() // slot
        need(slots > 0, f"RepeatCodegen: a {slot}-byte row-major CB slot does not fit in free L1")
        session.run(cb=slot * (1 if slots == 1 else 2 * min(BATCH, slots // 2)))
    elif axis < 2 and out.is_l1 and memory.memory_layout is not BLOCK:
        session.run(cb=flat.dtype.tile_bytes)
    else:
        session.run(cb=2 * BATCH * flat.dtype.tile_bytes)
    return viewed(out, out.shape[lead:])


# -- the older programs ----------------------------------------------------------------------------------
@scoped
def _native(session: Session, held: Held, reps: Shape, target: MemoryConfig) -> Held:
    need(0 not in reps, "repeat: zero repetitions")
    if all(r == 1 for r in reps):
        return _as_it_is(session, held, target)
    dim = _single(reps)
    stays = held.is_sharded and dim is not None and _stays(held, target, dim, reps[dim])
    out, memory = held, target
    if not stays:
        if held.is_sharded:
            out = to_memory_config(session, held, L1_MEMORY)
        if target.is_sharded:
            memory = _plain(target.buffer_type)
    order = [d for d in range(len(reps) - 1, -1, -1) if reps[d] != 1]
    if out.is_tile and is_aligned(out.shape):
        for d in order:
            out = session.replace(out, _tile_leg(session, out, d, reps[d], memory))
    else:
        out = session.replace(out, to_layout(session, out, ROWS))
        for d in order:
            out = session.replace(out, _row_leg(session, out, d, reps[d], memory))
        out = session.replace(out, to_layout(session, out, held.page, None, held.dtype))
    if stays or not target.is_sharded:
        return out
    if target.shard_spec is None:
        found = _generated(session, out, out.padded, target, held)
        if found is None:
            return out
        target = found
    return interleaved_to_sharded(session, out, target)


def _as_it_is(session: Session, held: Held, target: MemoryConfig) -> Held:
    if target.is_sharded and target.shard_spec is None:
        same = held.memory.memory_layout is target.memory_layout
        if same and held.memory.buffer_type is target.buffer_type:
            target = held.memory
        else:
            target = _generated(session, held, held.padded, target, held) or _plain(target.buffer_type)
    return to_memory_config(session, held, target)


def _derived(session: Session, held: Held, shape: Shape, dim: int, times: int, memory: MemoryConfig) -> MemoryConfig:
    """Shards of a leg's result when the request names none."""
    if not memory.is_sharded or memory.shard_spec is not None:
        return memory
    if held.is_sharded:
        return with_spec(memory, _scaled(held.spec, dim, len(shape), times))
    return _generated(session, held, shape, memory, held) or memory


def _tile_leg(session: Session, held: Held, dim: int, times: int, memory: MemoryConfig) -> Held:
    shape = tuple(s * times if i == dim else s for i, s in enumerate(held.shape))
    memory = _derived(session, held, shape, dim, times, memory)
    out = session.make(shape, held.dtype, held.page, memory)
    session.run(scratch=2 * READ_ALIGNMENT + held.dtype.tile_bytes)
    return out


def _row_leg(session: Session, held: Held, dim: int, times: int, memory: MemoryConfig) -> Held:
    """Rows as (before, dim, between, row), or as a matrix when rows themselves are repeated."""
    need(held.dtype is not DType.BFP8_B, "Can only work with UINT16, BFLOAT16, UINT32, INT32, FLOAT32 data types")
    rank, shape = len(held.shape), held.shape
    last = dim == rank - 1
    if last:
        flat: Shape = (prod(shape[:-1]), shape[-1])
    else:
        flat = (prod(shape[:dim]), shape[dim], prod(shape[dim + 1 : -1]), shape[-1])
    wider = (flat[0], flat[1] * times, *flat[2:])
    source = viewed(held, flat)
    memory = _derived(session, source, wider, 1, times, memory)
    out = session.make(wider, held.dtype, held.page, memory)
    size = shape[-1] * held.dtype.element_bytes
    step = next((16 // n for n in (16, 8, 4, 2) if size % n == 0), 16) if last else 1
    staged = 2 * READ_ALIGNMENT + size * step
    session.run(scratch=staged * (1 if source.is_sharded or out.is_sharded else 2))
    expected = tuple(s * times if i == dim else s for i, s in enumerate(shape))
    return viewed(out, expected)
