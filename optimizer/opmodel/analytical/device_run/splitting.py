"""`ttnn.split` (tt-metal 0.81 `data_movement/split`)."""

from __future__ import annotations

from itertools import accumulate
from math import prod

from optimizer.layouts.memory_config import BufferType, MemoryConfig
from optimizer.layouts.tiling import TILE
from optimizer.opmodel.analytical.derive import ROW_WISE, adjusted, synthesized, tile_aligned, with_spec
from optimizer.opmodel.analytical.device_run.reshaping import read_as
from optimizer.opmodel.analytical.device_run.session import Held, Session, Shape, scoped
from optimizer.opmodel.analytical.device_run.slicing import Range, slice_tensor
from optimizer.opmodel.analytical.device_run.transfer import to_memory_config
from optimizer.opmodel.analytical.device_run.untilize import folded
from optimizer.opmodel.analytical.tensors import DRAM_MEMORY

BATCH = 64
"""Slices of equal size taken one after the other; more are taken in batches."""
PAGES_PER_SLICE = 4


@scoped
def split(session: Session, held: Held, sizes: Shape, dim: int, memory: MemoryConfig | None = None) -> tuple[Held, ...]:
    """`ttnn.split` into parts that add up to the dim."""
    target = _target(session, held, sizes, dim, memory)
    if _at_once(session, held, sizes, dim):
        return _split_program(session, held, len(sizes), target)
    source = held
    if held.is_l1 and target.buffer_type is BufferType.DRAM and len(sizes) > 2:
        source = to_memory_config(session, held, DRAM_MEMORY)
    return tuple(_slices(session, source, sizes, dim, target))


def _slices(session: Session, held: Held, sizes: Shape, dim: int, target: MemoryConfig) -> list[Held]:
    if len(sizes) > BATCH and all(size == sizes[0] for size in sizes):
        return _slices_in_batches(session, held, sizes, dim, target)
    starts = accumulate(sizes, initial=0)
    return [_slice(session, held, at, size, dim, target) for at, size in zip(starts, sizes, strict=False)]


@scoped
def _slices_in_batches(session: Session, held: Held, sizes: Shape, dim: int, target: MemoryConfig) -> list[Held]:
    """Equal sizes. A batch lives until the next one has been taken."""
    found: list[Held] = []
    part = held
    for index in range(0, len(sizes), BATCH):
        batch = sizes[index : index + BATCH]
        part = session.replace(part, _slice(session, held, index * sizes[0], sum(batch), dim, target))
        found += _slices(session, part, batch, dim, target)
    return found


def _slice(session: Session, held: Held, at: int, size: int, dim: int, target: MemoryConfig) -> Held:
    begins = tuple(at if i == dim else 0 for i in range(len(held.shape)))
    ends = tuple(at + size if i == dim else n for i, n in enumerate(held.shape))
    return slice_tensor(session, held, Range(begins, ends, (1,) * len(held.shape)), target)


# -- memory config of the parts --------------------------------------------------------------------------
def _part_padding(held: Held, sizes: Shape, dim: int) -> Shape | None:
    """Padded shape of equal parts; None when they are not equal or do not divide the padded dim."""
    if any(size != sizes[0] for size in sizes) or held.padded[dim] % len(sizes):
        return None
    return (*held.padded[:dim], held.padded[dim] // len(sizes), *held.padded[dim + 1 :])


def _target(session: Session, held: Held, sizes: Shape, dim: int, memory: MemoryConfig | None) -> MemoryConfig:
    part = _part_padding(held, sizes, dim)
    if memory is not None:
        if not memory.is_sharded or memory.shard_spec is not None:
            return memory
        if part is None:
            return DRAM_MEMORY
        if held.is_sharded and held.memory.memory_layout is memory.memory_layout:
            scaled = adjusted(held.spec, held.padded, part)
            if scaled is not None:
                return with_spec(memory, scaled)
        orientation = held.spec.orientation if held.is_sharded else ROW_WISE
        return with_spec(memory, synthesized(part, memory.memory_layout, session.device, orientation))
    if not held.is_sharded:
        return held.memory if _fits(session, held, len(sizes)) else DRAM_MEMORY
    scaled = None if part is None else adjusted(held.spec, held.padded, part)
    if scaled is None or (held.is_tile and not tile_aligned(scaled)) or not _fits(session, held, len(sizes)):
        return DRAM_MEMORY
    return with_spec(held.memory, scaled)


def _fits(session: Session, held: Held, parts: int) -> bool:
    """Whether all parts, and buffers for each, would fit on one core as tt-metal estimates it."""
    if not held.is_l1 or parts <= 2:
        return True
    if held.is_tile:
        page = held.dtype.tile_bytes
        part = held.volume // (TILE * TILE) // parts * page
    else:
        page = TILE * TILE * held.dtype.element_bytes
        part = held.volume // parts * held.dtype.element_bytes
    return part * parts + parts * PAGES_PER_SLICE * page <= session.free_l1()


# -- all parts by one program ----------------------------------------------------------------------------
def _at_once(session: Session, held: Held, sizes: Shape, dim: int) -> bool:
    rank, parts = len(held.shape), len(sizes)
    if not held.is_tile or rank < 2 or dim != rank - 1 or any(size != sizes[0] for size in sizes):
        return False
    rows, columns = session.device.grid_yx
    shape = (1,) * (4 - rank) + folded(held.shape)
    deep = shape[0] * shape[1] if parts == 2 else shape[1]
    large = shape[2] // TILE >= 2 and shape[3] // TILE >= 2
    whole = shape[3] % TILE == 0 and held.padded[-1] // TILE % parts == 0
    return deep <= columns and large and whole and parts <= rows and (parts == 2 or shape[0] == 1)


def _split_program(session: Session, held: Held, parts: int, target: MemoryConfig) -> tuple[Held, ...]:
    """`ttnn::prim::split`: all results are allocated, then one program with a double buffer fills them."""
    rank = len(held.shape)
    shape = (1,) * (4 - rank) + folded(held.shape)
    flat = read_as(held, shape, (*shape[:2], *held.padded[-2:]))
    collapsed = (1, prod(shape[:2]), *shape[2:])
    flat = read_as(flat, collapsed, (*collapsed[:2], *held.padded[-2:]))
    size = (*collapsed[:3], collapsed[3] // parts)
    found = tuple(session.make(size, held.dtype, held.page, target) for _ in range(parts))
    session.run(dfb=2 * held.dtype.tile_bytes)
    wanted = (*held.shape[:-1], held.shape[-1] // parts)
    return tuple(read_as(part, wanted, wanted) for part in found)
