"""`ttnn.transpose` and `ttnn.permute` (tt-metal 0.81 `data_movement/{transpose,permute}`)."""

from __future__ import annotations

from math import prod

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, MemoryConfig, ShardSpec
from optimizer.layouts.tiling import FACE, TILE, ceil_div, round_up
from optimizer.opmodel.analytical.case import need
from optimizer.opmodel.analytical.derive import adjusted, paged_rows, reshaped, synthesized, tile_aligned, with_spec
from optimizer.opmodel.analytical.device_run.reshaping import read_as
from optimizer.opmodel.analytical.device_run.session import Held, Session, Shape, scoped
from optimizer.opmodel.analytical.device_run.transfer import (
    aligned_page,
    alignment,
    clone,
    derived,
    to_memory_config,
    typecast,
)
from optimizer.opmodel.analytical.device_run.untilize import tile_padded
from optimizer.opmodel.analytical.tensors import BLOCK, L1_MEMORY, WIDTH

COLUMNS_CUT = (WIDTH, BLOCK)
CN, HC, WH = (0, 1), (1, 2), (2, 3)
"""Pairs of dims that a transpose program of its own swaps."""


def _unshaped(memory: MemoryConfig) -> MemoryConfig:
    """The same memory layout, its shards left to be derived."""
    return MemoryConfig(memory.memory_layout, memory.buffer_type)


def _part_rows(held: Held) -> bool:
    """Row-major width or block shards of part tiles: no program reads them where they are."""
    if held.is_tile or held.memory.memory_layout not in COLUMNS_CUT or len(held.shape) < 2:
        return False
    return bool(held.shape[-1] % TILE or held.shape[-2] % TILE)


def swapped(shape: Shape, a: int, b: int) -> Shape:
    """The shape with two dims exchanged."""
    found = list(shape)
    found[a], found[b] = found[b], found[a]
    return tuple(found)


# -- transpose -------------------------------------------------------------------------------------------
@scoped
def transpose(session: Session, held: Held, a: int, b: int, memory: MemoryConfig | None = None) -> Held:
    """`ttnn.transpose` of two non-negative dims."""
    if _part_rows(held):
        target = memory
        if memory is not None and memory.is_sharded and memory.shard_spec is None:
            target = with_spec(memory, _paged(session, held, swapped(held.padded, a, b), memory))
        return transpose(session, to_memory_config(session, held, L1_MEMORY), a, b, target)
    rank = len(held.shape)
    if rank > 4:
        return permute(session, held, swapped(tuple(range(rank)), a, b), memory)
    lead = 4 - rank
    pair = (min(a, b) + lead, max(a, b) + lead)
    flat = read_as(held, (1,) * lead + held.shape, (1,) * lead + held.padded[-rank:])
    narrow = held.dtype is DType.BFP8_B and pair not in (WH, CN)
    source = typecast(session, flat, DType.BF16) if narrow else flat
    if a == b or (source.padded[pair[0]] == 1 and source.padded[pair[1]] == 1):
        out = source if memory is None or memory == source.memory else clone(session, source, memory)
    else:
        out = _transpose(session, source, pair, memory)
    if lead:
        out = read_as(out, out.shape[lead:], out.padded[lead:])
    return typecast(session, out, DType.BFP8_B) if narrow else out


def _paged(session: Session, held: Held, padded: Shape, memory: MemoryConfig) -> ShardSpec:
    """Row-major shards of whole aligned rows where the width allows it."""
    spec = synthesized(padded, memory.memory_layout, session.device, held.spec.orientation, tiled=False)
    width, size = padded[-1], held.dtype.element_bytes
    found = paged_rows(spec, memory.memory_layout, width, size, session.device)
    if found is not None:
        return found
    if memory.memory_layout is not WIDTH:
        return spec
    part = round_up(ceil_div(width, session.device.num_cores), TILE)
    return reshaped(synthesized((width,), WIDTH, session.device, spec.orientation), (spec.shape[0], part))


def _transpose(session: Session, held: Held, pair: tuple[int, int], memory: MemoryConfig | None) -> Held:
    if pair not in (CN, HC, WH):
        return permute(session, held, swapped((0, 1, 2, 3), *pair), memory)
    target = _target(held, pair, memory)
    if not held.is_tile:
        rows_of_it = not held.is_sharded
        if pair == WH and not rows_of_it:
            wide, high = (round_up(n, TILE) for n in (held.shape[3], held.shape[2]))
            rows_of_it = (2 * wide + 2 * high + high * wide) * held.dtype.element_bytes > session.free_l1()
        if rows_of_it:
            return _permute_program(session, held, swapped((0, 1, 2, 3), *pair), target)
    return _transpose_program(session, held, pair, target)


def _native_side(memory: MemoryConfig, is_tile: bool) -> bool:
    if not memory.is_sharded or memory.buffer_type is BufferType.DRAM or memory.memory_layout is BLOCK:
        return False
    spec = memory.shard_spec
    return is_tile or spec is None or prod(spec.shape) % (TILE * TILE) == 0


def _native(held: Held, memory: MemoryConfig | None = None) -> bool:
    """`is_native_transpose_sharding`: shards that a program of their own transposes where they are."""
    if not _native_side(held.memory, held.is_tile) or held.rows % held.spec.shape[0]:
        return False
    if held.padded[-1] % held.spec.shape[1]:
        return False
    if memory is None:
        return True
    if not _native_side(memory, held.is_tile):
        return False
    spec = memory.shard_spec
    return spec is None or spec.core_ranges == held.spec.core_ranges


def _target(held: Held, pair: tuple[int, int], memory: MemoryConfig | None) -> MemoryConfig:
    """Memory config handed to the program; shards may be left to it."""
    if memory is not None and not (memory.is_sharded and memory.shard_spec is None):
        return memory
    if not (held.is_sharded and _native(held)):
        if memory is not None:
            return memory
        return _unshaped(held.memory) if held.is_sharded else held.memory
    seed = held.memory if memory is None else memory
    otherwise = L1_MEMORY if memory is None else _unshaped(memory)
    if pair == CN or (pair == HC and not held.is_tile):
        return seed
    whole_rows = held.padded[0] == held.padded[1] == 1 and held.spec.shape[1] == held.padded[3]
    if pair == WH and memory is None and whole_rows:
        turned = reshaped(held.spec, (held.spec.shape[1], held.spec.shape[0]))
        fits = not held.is_tile or tile_aligned(turned)
        turned = ShardSpec((1, turned.num_cores), turned.shape, turned.core_ranges, turned.orientation)
        return MemoryConfig(WIDTH, seed.buffer_type, turned) if fits else otherwise
    scaled = adjusted(held.spec, held.padded, _transposed_padding(held, pair))
    alike = memory is None or memory.memory_layout is held.memory.memory_layout
    if scaled is None or not alike or (held.is_tile and not tile_aligned(scaled)):
        return otherwise
    return with_spec(seed, scaled)


def _transposed_padding(held: Held, pair: tuple[int, int]) -> Shape:
    if pair == HC and held.is_tile:
        n, c, h, _ = held.shape
        return (held.padded[0] if n else 0, h, round_up(c, TILE), held.padded[3])
    return swapped(held.padded, *pair)


def _transpose_program(session: Session, held: Held, pair: tuple[int, int], target: MemoryConfig) -> Held:
    padded = _transposed_padding(held, pair)
    memory = derived(session, held, held.padded, padded, target)
    natural = not held.is_tile and held.shape == held.padded
    out = session.make(
        swapped(held.shape, *pair), held.dtype, held.page, memory, None if natural or held.is_tile else padded
    )
    if pair == CN:
        unit = held.dtype.tile_bytes if held.is_tile else held.padded[-1] * held.dtype.element_bytes
        session.run(dfb=2 * unit)
    elif pair == WH:
        _run_wh(session, held, memory, padded)
    else:
        _run_hc(session, held, out, padded)
    return out


def _shard_fits(held: Held, memory: MemoryConfig, padded: Shape) -> tuple[bool, bool, bool, bool]:
    """Input rows whole in a shard, and matrices too; the same of the output."""
    native = _native(held, memory)
    in_rows = native and held.spec.shape[1] == held.padded[-1]
    in_whole = in_rows and held.spec.shape[0] % held.padded[-2] == 0
    spec = memory.shard_spec
    out_rows = native and spec is not None and spec.shape[1] == padded[-1]
    out_whole = out_rows and spec is not None and spec.shape[0] % padded[-2] == 0
    return in_rows, in_whole, out_rows, out_whole


def _run_wh(session: Session, held: Held, memory: MemoryConfig, padded: Shape) -> None:
    in_rows, in_whole, _, out_whole = _shard_fits(held, memory, padded)
    tile = held.dtype.tile_bytes
    high, wide = ceil_div(held.shape[2], TILE), ceil_div(held.shape[3], TILE)
    if held.is_tile:
        spec = memory.shard_spec
        single = held.padded[0] == held.padded[1] == 1 and in_rows
        turned = single and spec is not None and spec.shape[0] == padded[-2]
        if (in_whole and out_whole) or turned:
            session.run(ranges=held.spec.core_ranges)
        else:
            session.run(dfb=4 * tile)
    elif in_whole and out_whole:
        staged = (2 * wide + high * wide + (3 * high if high > 8 else 0)) * tile
        session.run(cb=staged, ranges=held.spec.core_ranges)
    else:
        session.run(dfb=(2 * wide + 2 * high + high * wide) * tile)


def _run_hc(session: Session, held: Held, out: Held, padded: Shape) -> None:
    size = 1 if held.dtype.is_block_float else held.dtype.element_bytes
    if held.is_tile:
        session.run(dfb=2 * held.dtype.tile_bytes + (FACE * FACE * size if held.shape[1] % TILE else 0))
        return
    in_rows, _, out_rows, _ = _shard_fits(held, out.memory, padded)
    if in_rows and out_rows:
        session.run(ranges=held.spec.core_ranges)
        return
    stick = max(held.shape[3] * size, aligned_page(held, session.device), aligned_page(out, session.device))
    session.run(dfb=stick * ceil_div(prod(held.shape[:3]), session.device.num_cores))


# -- permute ---------------------------------------------------------------------------------------------
def permute(session: Session, held: Held, dims: Shape, memory: MemoryConfig | None = None) -> Held:
    """`ttnn.permute`; nothing moves where only dims of size one change place."""
    rank = len(held.shape)
    if _is_idle(held, dims):
        return to_memory_config(session, held, held.memory if memory is None else memory)
    lead = max(0, 4 - rank)
    flat = read_as(held, (1,) * lead + held.shape, (1,) * lead + held.padded[-rank:]) if lead else held
    order = (*range(lead), *(d + lead for d in dims))
    spec = None if memory is None else memory.shard_spec
    if spec is not None and not held.is_tile:
        whole = spec.shape[1] * held.dtype.element_bytes % session.device.l1_alignment_bytes == 0
        need(whole, f"Shard page size must be aligned to {session.device.l1_alignment_bytes}B for L1 Tensor")
    out = _permute(session, flat, order, memory)
    return read_as(out, out.shape[lead:], out.padded[lead:]) if lead else out


def _is_idle(held: Held, dims: Shape) -> bool:
    rank = len(held.shape)
    if rank <= 1 or dims == tuple(range(rank)):
        return True
    if dims[-1] != rank - 1 or (held.is_tile and dims[-2] != rank - 2):
        return False
    if tuple(held.shape[d] for d in dims) != held.shape:
        return False
    return all(i == d or held.shape[i] <= 1 for i, d in enumerate(dims))


@scoped
def _permute(session: Session, held: Held, dims: Shape, memory: MemoryConfig | None) -> Held:
    if _part_rows(held):
        target = memory
        if memory is not None and memory.is_sharded and memory.shard_spec is None:
            padded = tuple(held.padded[d] for d in dims)
            spec = synthesized(padded, memory.memory_layout, session.device, held.spec.orientation)
            target = with_spec(memory, spec)
        return _permute(session, to_memory_config(session, held, L1_MEMORY), dims, target)
    if held.is_sharded:
        return _permute_shards(session, held, dims, memory)
    if len(dims) > 4:
        return _permute_program(session, held, dims, held.memory if memory is None else memory)
    narrow = held.dtype is DType.BFP8_B and dims not in ((0, 1, 3, 2), (1, 0, 2, 3), (1, 0, 3, 2))
    source = typecast(session, held, DType.BF16) if narrow else held
    if dims == (0, 1, 2, 3):
        out = source
    elif dims in ((0, 1, 3, 2), (0, 2, 1, 3), (1, 0, 2, 3)):
        a, b = (i for i, d in enumerate(dims) if i != d)
        out = transpose(session, source, a, b, memory)
    else:
        out = _permute_program(session, source, dims, held.memory if memory is None else memory)
    return typecast(session, out, DType.BFP8_B) if narrow else out


_CHAINS: dict[Shape, tuple[tuple[int, int], ...]] = {
    (0, 1, 2, 3): (),
    (0, 1, 3, 2): (WH,),
    (0, 2, 1, 3): (HC,),
    (0, 2, 3, 1): (HC, WH),
    (0, 3, 1, 2): (WH, HC),
    (0, 3, 2, 1): (WH, HC, WH),
    (1, 0, 2, 3): (CN,),
}
"""Permutations of shards that are done by one transpose after the other."""


@scoped
def _permute_shards(session: Session, held: Held, dims: Shape, memory: MemoryConfig | None) -> Held:
    chain = _CHAINS.get(dims)
    if chain is None:
        return _permute_program(session, held, dims, _unshaped(held.memory) if memory is None else memory)
    results = [held]  # nested calls of one expression: all of them live until the last returns
    for index, pair in enumerate(chain):
        results.append(transpose(session, results[-1], *pair, memory if index == len(chain) - 1 else None))
    return results[-1]


def _permute_program(session: Session, held: Held, dims: Shape, target: MemoryConfig) -> Held:
    """`ttnn::prim::permute`."""
    shape = tuple(held.shape[d] for d in dims)
    padded = tile_padded(shape) if held.is_tile else shape
    out = session.make(shape, held.dtype, held.page, derived(session, held, held.padded, padded, target))
    if held.is_tile:
        session.run(dfb=_tile_buffers(session, held, dims))
        return out
    size = held.dtype.element_bytes
    if dims[-1] == len(dims) - 1:
        session.run(dfb=2 * round_up(held.shape[-1] * size, alignment(session.device, held.memory)))
    else:
        session.run(dfb=6 * TILE * TILE * size)
    return out


def _tile_buffers(session: Session, held: Held, dims: Shape) -> int:
    """Bytes: tiles stay whole, one of their dims moves out, or both do."""
    rank, tile = len(dims), held.dtype.tile_bytes
    size = 1 if held.dtype.is_block_float else held.dtype.element_bytes
    last = (dims[-2], dims[-1])
    if last == (rank - 2, rank - 1):
        return 2 * tile
    if last == (rank - 1, rank - 2):
        return 4 * tile
    if dims[-1] == rank - 1:
        return 2 * tile + (FACE * size if held.shape[dims[-2]] % TILE else 0)
    if dims[-1] == rank - 2:
        return 4 * tile + (FACE * size if _swapped_height(held, dims) % TILE else 0)
    off = max(0, alignment(session.device, held.memory) - FACE * size)
    return 6 * (tile + off) + (FACE * size if held.shape[dims[-2]] % TILE else 0)


def _swapped_height(held: Held, dims: Shape) -> int:
    """Rows of the result where rows become columns: the program works on the operand with its last dims swapped."""
    rank = len(dims)
    turned = {rank - 2: rank - 1, rank - 1: rank - 2}
    shape = swapped(held.shape, rank - 2, rank - 1)
    return shape[turned.get(dims[-2], dims[-2])]
