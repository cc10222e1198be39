"""Moving a tensor as it is (copy, interleaved_to_sharded, sharded_to_interleaved, reshard, to_memory_config); typecast.

Sources: tt-metal 0.81 `data_movement/{copy,sharded}`, `core/to_memory_config/to_memory_config_op.cpp`, `copy/typecast`.
"""

from __future__ import annotations

from math import gcd, prod

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, MemoryConfig
from optimizer.layouts.tiling import TILE, round_up
from optimizer.opmodel.analytical.case import need
from optimizer.opmodel.analytical.derive import (
    ROW_WISE,
    adjusted,
    grid_shards,
    named_shards,
    synthesized,
    tile_aligned,
    with_spec,
)
from optimizer.opmodel.analytical.device_run.session import Held, Session, Shape, scoped
from optimizer.opmodel.analytical.tensors import BLOCK, DRAM_MEMORY, HEIGHT, WIDTH

MOST_COPIED = 65536 * 4
"""Bytes of a row-major page that the copy kernel passes at once."""
MOST_ENTRIES = 65535
"""Entries of a dataflow buffer: the hardware counts them in 16 bits."""
TILES_ONLY = "Only tile layout supports dtype conversion"


def alignment(device: DeviceSpec, memory: MemoryConfig) -> int:
    """Bytes that pages of a buffer start at multiples of."""
    return device.l1_alignment_bytes if memory.buffer_type is BufferType.L1 else device.dram_alignment_bytes


def aligned_page(held: Held, device: DeviceSpec) -> int:
    return round_up(held.page_bytes, alignment(device, held.memory))


def derived(session: Session, held: Held, before: Shape, after: Shape, target: MemoryConfig) -> MemoryConfig:
    """Shards for a request that names none: the operand's scaled exactly, else over the whole grid."""
    if not target.is_sharded or target.shard_spec is not None:
        return target
    if held.is_sharded and held.memory.memory_layout is target.memory_layout:
        scaled = adjusted(held.spec, before, after)
        if scaled is not None and (not held.is_tile or tile_aligned(scaled)):
            return with_spec(target, scaled)
    orientation = held.spec.orientation if held.is_sharded else ROW_WISE
    return with_spec(target, synthesized(after, target.memory_layout, session.device, orientation))


def copy(session: Session, held: Held, memory: MemoryConfig, dtype: DType | None = None) -> Held:
    """`ttnn::prim::copy`: page by page through a double buffer; another element type through two."""
    if dtype is not None and dtype is not held.dtype:
        need(held.is_tile, TILES_ONLY)
        out = session.like(held, memory, dtype)
        session.run(dfb=2 * (held.dtype.tile_bytes + dtype.tile_bytes))
        return out
    if held.memory == memory:
        unit = 2 * aligned_page(held, session.device)
        if unit < session.device.cb_limit_bytes:
            out = session.like(held, memory)
            session.run(cb=unit)
            return out
    out = session.like(held, memory)
    if held.is_tile:
        session.run(dfb=2 * held.dtype.tile_bytes)
    else:
        _copy_rows(session, held, out)
    return out


def clone(session: Session, held: Held, memory: MemoryConfig) -> Held:
    """`ttnn.clone`: interleaved to interleaved, or within identical shards."""
    if held.is_sharded and memory.is_sharded:
        need(held.memory.memory_layout is memory.memory_layout, "Clone: input and output must have the same layout")
        need(memory.shard_spec is not None, "Clone: output memory config must have shard spec when sharded")
        need(memory.shard_spec == held.spec, "Clone: input and output shard specs must be identical")
    mixed = held.is_sharded is not memory.is_sharded
    need(not mixed, "Clone: mixed sharded/interleaved layout not currently supported.")
    out = session.like(held, memory)
    unit = held.dtype.tile_bytes
    if not held.is_tile:
        unit = (held.spec.shape[1] if held.is_sharded else held.shape[-1]) * held.dtype.element_bytes
    ranges = held.spec.core_ranges if held.is_sharded else None
    session.run(dfb=2 * round_up(unit, alignment(session.device, held.memory)), ranges=ranges)
    return out


def _row_page(held: Held) -> int:
    """Elements of a row that lie on one page."""
    return held.spec.shape[1] if held.memory.memory_layout in (WIDTH, BLOCK) else held.shape[-1]


def _copy_rows(session: Session, held: Held, out: Held) -> None:
    device, size, width = session.device, held.dtype.element_bytes, held.shape[-1]
    common = gcd(_row_page(held), _row_page(out))
    unit = common * size
    step = max(alignment(device, held.memory), alignment(device, out.memory))
    few = prod(held.shape) // width < device.num_cores
    if few and common < width and unit <= MOST_COPIED and unit % step == 0:
        session.run(dfb=2 * unit)
        return
    session.run(dfb=2 * min(aligned_page(out, device), MOST_COPIED), scratch=min(held.page_bytes, MOST_COPIED))


# -- to and from shards ----------------------------------------------------------------------------------
def _i2s_problem(session: Session, held: Held, memory: MemoryConfig, dtype: DType) -> str | None:
    if held.is_sharded:
        return "Input tensor memory layout must be INTERLEAVED"
    if not memory.is_sharded:
        return "Output memory config must be sharded"
    if memory.memory_layout is BLOCK and memory.buffer_type is not BufferType.L1:
        return "We don't support DRAM block sharding"
    spec = named_shards(memory)
    if not held.is_tile:
        if dtype is not held.dtype:
            return TILES_ONLY
        size = spec.shape[1] * held.dtype.element_bytes
        if size % session.device.l1_alignment_bytes:
            return "Shard page size must currently have L1 aligned page size"
    return None


def _i2s_scratch(session: Session, unit: int) -> int:
    step = session.device.dram_alignment_bytes
    return 4 * round_up(unit + step, step)


def _shard_units(held: Held, memory: MemoryConfig, dtype: DType | None = None) -> tuple[int, int]:
    """(units per shard, bytes of one as `dtype`): tiles, or rows of the shard."""
    assert memory.shard_spec is not None
    height, width = memory.shard_spec.shape
    dtype = dtype or held.dtype
    if held.is_tile:
        return (height // TILE * (width // TILE), dtype.tile_bytes)
    return (height, width * dtype.element_bytes)


def _countable(units: int) -> None:
    need(units <= MOST_ENTRIES, f"DFB 0: capacity {units} exceeds the maximum {MOST_ENTRIES}")


def _i2s_staged(session: Session, held: Held, memory: MemoryConfig, dtype: DType) -> int:
    """Buffers of a shard: as it comes where its type changes, as it goes where it is written to DRAM."""
    staged = 0
    if dtype is not held.dtype:
        units, unit = _shard_units(held, memory)
        staged += units * round_up(unit, alignment(session.device, held.memory))
    if memory.buffer_type is not BufferType.L1:  # L1 shards are filled where they lie
        units, unit = _shard_units(held, memory, dtype)
        staged += units * round_up(unit, session.device.dram_alignment_bytes)
    return staged


def _can_i2s(session: Session, held: Held, memory: MemoryConfig, dtype: DType) -> bool:
    if _i2s_problem(session, held, memory, dtype) is not None:
        return False
    unit = _shard_units(held, memory)[1]
    size = _i2s_scratch(session, unit) + _i2s_staged(session, held, memory, dtype)
    return size < session.device.cb_limit_bytes


def interleaved_to_sharded(session: Session, held: Held, memory: MemoryConfig, dtype: DType | None = None) -> Held:
    dtype = dtype or held.dtype
    problem = _i2s_problem(session, held, memory, dtype)
    need(problem is None, problem or "")
    out = session.like(held, memory, dtype)
    units, unit = _shard_units(held, memory)
    _countable(units)
    scratch = 0 if held.is_tile else _i2s_scratch(session, unit)
    session.run(dfb=_i2s_staged(session, held, memory, dtype), scratch=scratch)
    return out


def _s2i_problem(session: Session, held: Held, memory: MemoryConfig, dtype: DType) -> str | None:
    if not held.is_l1:
        return "Input tensor must be in L1"
    if memory.is_sharded:
        return "Output memory config must be Interleaved"
    if held.is_tile:
        return None
    if dtype is not held.dtype:
        return TILES_ONLY
    if held.spec.shape[1] * held.dtype.element_bytes % session.device.l1_alignment_bytes:
        return f"Shard page size must be aligned to {session.device.l1_alignment_bytes}B for L1 Tensor"
    return None


def _s2i_staged(session: Session, held: Held, memory: MemoryConfig, dtype: DType) -> int:
    """Buffers of a shard in its new element type; none where the type stays."""
    if dtype is held.dtype:
        return 0
    units, unit = _shard_units(held, held.memory, dtype)
    return units * round_up(unit, alignment(session.device, memory))


def _can_s2i(session: Session, held: Held, memory: MemoryConfig, dtype: DType) -> bool:
    if _s2i_problem(session, held, memory, dtype) is not None:
        return False
    return _s2i_staged(session, held, memory, dtype) < session.device.cb_limit_bytes


def sharded_to_interleaved(session: Session, held: Held, memory: MemoryConfig, dtype: DType | None = None) -> Held:
    if not held.is_sharded:
        return held
    dtype = dtype or held.dtype
    problem = _s2i_problem(session, held, memory, dtype)
    need(problem is None, problem or "")
    out = session.make(held.shape, dtype, held.page, memory, held.padded if held.is_tile else None)
    _countable(_shard_units(held, held.memory)[0])
    session.run(dfb=_s2i_staged(session, held, memory, dtype))
    return out


# -- between shards --------------------------------------------------------------------------------------
def _direct(held: Held, memory: MemoryConfig) -> bool:
    """`is_valid_for_legacy_reshard`: straight from core to core."""
    in_l1, out_l1 = held.is_l1, memory.buffer_type is BufferType.L1
    same = held.memory.memory_layout is memory.memory_layout and memory.memory_layout is not BLOCK
    return (in_l1 or out_l1) if same else out_l1


def _reshard_problem(session: Session, held: Held, memory: MemoryConfig) -> str | None:
    device = session.device
    for one in (held.memory, memory):
        if one.memory_layout is BLOCK and one.buffer_type is BufferType.DRAM:
            return "We don't support DRAM block sharding"
    assert memory.shard_spec is not None
    in_l1, out_l1 = held.is_l1, memory.buffer_type is BufferType.L1
    page = held.dtype.tile_bytes if held.is_tile else memory.shard_spec.shape[1] * held.dtype.element_bytes
    heights = held.memory.memory_layout is HEIGHT and memory.memory_layout is HEIGHT
    if not held.is_tile and not ((heights and (in_l1 or out_l1)) or not (in_l1 or out_l1)):
        if aligned_page(held, device) != held.page_bytes:
            return "Input row-major shard width must be aligned for reshard"
        if page % device.l1_alignment_bytes:
            return "Output row-major shard width must be aligned for reshard"
    if not _direct(held, memory) and page != held.page_bytes:
        return "Input and output tensors must have the same page size"
    return None


def _same_width(held: Held, memory: MemoryConfig) -> bool:
    return held.memory.memory_layout is HEIGHT and memory.memory_layout is HEIGHT and _direct(held, memory)


def _reshard_unit(held: Held) -> int:
    return held.recut or (held.dtype.tile_bytes if held.is_tile else held.spec.shape[1] * held.dtype.element_bytes)


def _reshard_scratch(session: Session, held: Held, memory: MemoryConfig) -> int:
    """Staging of height shards whose rows are not aligned (same-width factory)."""
    if not _same_width(held, memory):
        return 0
    local, remote = (memory, held.memory) if memory.buffer_type is BufferType.L1 else (held.memory, memory)
    unit = _reshard_unit(held)
    padded = [round_up(unit, alignment(session.device, m)) for m in (local, remote)]
    if padded == [unit, unit]:
        return 0
    return _shard_units(held, remote)[0] * padded[1]


def reshard(session: Session, held: Held, memory: MemoryConfig) -> Held:
    problem = _reshard_problem(session, held, memory)
    need(problem is None, problem or "")
    broken = held.recut > 0 and held.memory.memory_layout is BLOCK and grid_shards(held.spec)[1] > 1
    need(not broken, "tt-metal ends in a reshard of block shards whose width was changed by a view")
    if not held.is_tile and not held.recut and _same_width(held, memory):  # entries: bytes of it all
        entry = round_up(_reshard_unit(held), session.device.l1_alignment_bytes)
        elements = prod(held.shape[:-1]) * round_up(held.shape[-1], held.spec.shape[1])
        need(elements * held.dtype.element_bytes >= entry, "DataflowBufferSpec 'shard' has num_entries = 0")
    out = session.like(held, memory)
    staged = 2 * _reshard_scratch(session, held, memory) if memory.buffer_type is BufferType.L1 else 0
    session.run(dfb=staged)
    return out


def to_memory_config(session: Session, held: Held, memory: MemoryConfig, dtype: DType | None = None) -> Held:
    """`ttnn.to_memory_config`; a tensor that is there already keeps its element type."""
    if held.memory == memory:
        return held
    for one in (held.memory, memory):
        blocked = one.memory_layout is BLOCK and one.buffer_type is BufferType.DRAM
        need(not blocked, "We don't support DRAM block sharding")
    to = dtype or held.dtype
    if not memory.is_sharded:
        if held.is_sharded and _can_s2i(session, held, memory, to):
            return sharded_to_interleaved(session, held, memory, to)
        return copy(session, held, memory, to)
    if held.is_sharded:
        found = _between_shards(session, held, memory, dtype)
        if found is not None:
            return found
    if _can_i2s(session, held, memory, to):
        return interleaved_to_sharded(session, held, memory, to)
    return copy(session, held, memory, to)


@scoped
def _between_shards(session: Session, held: Held, memory: MemoryConfig, dtype: DType | None) -> Held | None:
    spec, to = named_shards(memory), dtype or held.dtype
    recut = held.memory.memory_layout is not memory.memory_layout and held.spec.shape[1] != spec.shape[1]
    detour = not held.is_tile and recut
    if not detour and dtype is not None:
        return copy(session, held, memory, dtype)
    fits = _reshard_scratch(session, held, memory) < session.device.cb_limit_bytes
    if not detour and fits and _reshard_problem(session, held, memory) is None:
        return reshard(session, held, memory)
    if not _can_s2i(session, held, DRAM_MEMORY, to):
        return None
    between = sharded_to_interleaved(session, held, DRAM_MEMORY, to)
    if _can_i2s(session, between, memory, to):
        return interleaved_to_sharded(session, between, memory, to)
    return None


def typecast(session: Session, held: Held, dtype: DType, memory: MemoryConfig | None = None) -> Held:
    """`ttnn.typecast`: both types double buffered, tile by tile (`copy/typecast`)."""
    target = held.memory if memory is None else memory
    same = target.memory_layout is held.memory.memory_layout
    need(same, "Typecast operation requires Input and Output memory layout to match")
    out = session.like(held, target, dtype)
    session.run(dfb=2 * (held.dtype.tile_bytes + dtype.tile_bytes))
    return out


@scoped
def fill_padding(session: Session, held: Held) -> Held:
    """`ttnn.fill_implicit_tile_padding`: in place, nothing where there is no padding (`fill_pad`).

    Block floats are filled as bf16. One mask tile for part columns and one for part rows.
    """
    right, bottom = held.shape[-1] % TILE, held.shape[-2] % TILE
    if not right and not bottom:
        return held
    filled = typecast(session, held, DType.BF16) if held.dtype.is_block_float else held
    if held.is_sharded and held.is_l1:
        need(prod(held.shape[:-2]) == 1, "FillPadL1ShardedProgramFactory: N_slices > 1 not yet supported")
    session.run(dfb=(4 + bool(right) + bool(bottom)) * filled.dtype.tile_bytes)
    return typecast(session, filled, held.dtype) if filled is not held else held
