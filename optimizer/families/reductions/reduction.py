"""Reductions over one or several dims.

The last two dims are reduced by programs of their own, leading dims after a transpose, one after the other; sums of
bf16 and bfp8_b reduce leading dims without moving them. Source: tt-metal `reduction/generic/generic_reductions.cpp`.
"""

from __future__ import annotations

from math import prod

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import CoreRange, MemoryConfig, PageLayout
from optimizer.layouts.tiling import TILE
from optimizer.opmodel.analytical.case import Case, Usage, need, need_named
from optimizer.opmodel.analytical.device_run.reducing import fast_reduce, four_dims, reduce_four, welford
from optimizer.opmodel.analytical.device_run.reshaping import reshape
from optimizer.opmodel.analytical.device_run.session import Held, Session, Shape, scoped, view
from optimizer.opmodel.analytical.device_run.slicing import Range, slice_tensor
from optimizer.opmodel.analytical.device_run.tilize import tilize_with_padding
from optimizer.opmodel.analytical.device_run.transfer import fill_padding
from optimizer.opmodel.analytical.device_run.transposing import permute, swapped, transpose

FAST_DTYPES = (DType.BF16, DType.BFP8_B)


def reduce(case: Case) -> Usage:
    x = case.x
    dims = _dims(case, len(x.shape))
    session = Session(case)
    held = session.inputs[0]
    memory = case.output or held.memory
    op = case.query.op.removeprefix("ttnn.")
    keep = bool(case.attrs.get("keepdim"))
    shape = tuple(1 if d in dims else n for d, n in enumerate(x.shape) if keep or d not in dims)
    run = _spread if op in ("std", "var") else _reduced
    return session.usage(run(session, held, op, dims, memory, shape), view=not session.ran)


def _shaped(session: Session, held: Held, shape: Shape) -> Held:
    """The result without the dims that are not kept; with one dim or none its shards are read as they are."""
    if len(shape) < 2 and held.is_sharded and shape[-1:] != held.padded[-1:]:
        same = held.spec.shape[1] == held.padded[-1]
        need(same, "Changing the last dimension of a sharded tensor is not supported unless the shard width matches it")
    if shape:
        return reshape(session, held, shape)
    return Held((), (), held.dtype, held.page, held.memory, held.buffer)


def _dims(case: Case, rank: int) -> Shape:
    given = case.attrs.get("dim")
    if given is None:
        return tuple(range(rank))
    listed = given if isinstance(given, tuple) else (given,)
    need(all(-rank <= int(d) < rank for d in listed), f"Unsupported dim {given} for rank {rank}")
    return tuple(sorted(int(d) % rank for d in listed))


@scoped
def _reduced(session: Session, held: Held, op: str, dims: Shape, memory: MemoryConfig, shape: Shape) -> Held:
    """Sum, mean, max or min; padding is filled with what changes nothing.

    What was filled lives until the result has its shape.
    """
    rank = len(held.shape)
    source = _filled(session, held) if held.is_tile else held
    chained = op in ("sum", "mean") and 1 < len(dims) < rank and source.dtype is DType.BF16
    lead = tuple(d for d in dims if d < rank - 2)
    if op == "sum" and lead and source.dtype in FAST_DTYPES:
        dims = dims[len(lead) :]
        source = session.replace(source, _fast_sum(session, source, lead, memory, chained, last=not dims))
        if not dims:
            return _shaped(session, source, shape)
    return _shaped(session, _one_by_one(session, source, op, dims, memory, chained, last=chained), shape)


def _filled(session: Session, held: Held) -> Held:
    if len(held.shape) > 1:
        return fill_padding(session, held)
    filled = fill_padding(session, view(held, (1, *held.shape), (TILE, held.padded[-1])))
    return view(filled, held.shape, held.padded)


@scoped
def _fast_sum(session: Session, held: Held, lead: Shape, memory: MemoryConfig, chained: bool, last: bool) -> Held:
    """Leading dims from the last to the first, then what is padding is cut off."""
    tiled = tilize_with_padding(session, held, memory)
    dtype = (DType.BF16 if last else DType.F32) if chained else held.dtype
    out = _fast_reduced(session, tiled, lead, memory, DType.F32 if chained else held.dtype, dtype)
    ends = tuple(min(a, b) for a, b in zip(held.shape, out.shape, strict=True))
    return slice_tensor(session, out, Range((0,) * len(ends), ends, (1,) * len(ends)))


@scoped
def _fast_reduced(
    session: Session, held: Held, lead: Shape, memory: MemoryConfig, between: DType, dtype: DType
) -> Held:
    out = held
    for dim in lead[:0:-1]:
        out = session.replace(out, fast_reduce(session, out, dim, memory, between))
    return fast_reduce(session, out, lead[0], memory, dtype)


@scoped
def _one_by_one(
    session: Session, held: Held, op: str, dims: Shape, memory: MemoryConfig, chained: bool, last: bool
) -> Held:
    """`reduce_impl`: at once over the last dims, otherwise one dim after the other, leading ones as rows."""
    rank = len(held.shape)
    if dims in ((rank - 1,), (rank - 2,), (rank - 2, rank - 1)):
        return _at_once(session, held, op, dims, memory, chained, last)
    step = "sum" if op == "mean" and len(dims) > 1 else op
    for dim in reversed(dims):
        moved = dim < rank - 2
        if moved:
            held = session.replace(held, transpose(session, held, dim, rank - 2, memory))
        ends = chained and last and dim == dims[0]
        held = session.replace(
            held, _at_once(session, held, step, (rank - 2 if moved else dim,), memory, chained, ends)
        )
        if moved:
            held = session.replace(held, transpose(session, held, dim, rank - 2, memory))
    return held


def _at_once(
    session: Session, held: Held, op: str, dims: Shape, memory: MemoryConfig, chained: bool, last: bool
) -> Held:
    rank = len(held.shape)
    axes = "hw" if len(dims) == 2 else "w" if dims[0] == rank - 1 else "h"
    dtype = (DType.BF16 if last else DType.F32) if chained and op == "sum" else None
    out = reduce_four(session, four_dims(held), op, axes, memory, dtype)
    return reshape(session, out, tuple(1 if d in dims else n for d, n in enumerate(held.shape)))


@scoped
def _spread(session: Session, held: Held, op: str, dims: Shape, memory: MemoryConfig, kept: Shape) -> Held:
    """`std_var_impl`: one leading dim goes where the rows are, several dims go last."""
    rank, sizes = len(held.shape), held.shape
    if prod(sizes[d] for d in dims) == 1:  # no variance: filled on the host
        return _shaped(session, session.make(sizes, held.dtype, PageLayout.TILE, memory), kept)
    order: Shape = tuple(range(rank))
    axes = "w" if dims == (rank - 1,) else "h"
    moved = held
    if len(dims) == 1 and dims[0] < rank - 2:
        order = tuple(rank - 2 if d == dims[0] else dims[0] if d == rank - 2 else d for d in order)
        moved = permute(session, held, order, memory)
    elif len(dims) > 1:
        axes, order = "hw", (*(d for d in order if d not in dims), *dims)
        moved = permute(session, held, order, memory)
    moved = session.replace(moved, tilize_with_padding(session, moved, memory))
    shape = tuple(1 if d in dims else sizes[d] for d in order)
    flat = four_dims(moved)
    out = welford(session, flat, axes, _in_four(shape), memory)
    if axes == "h" and order != tuple(range(rank)):
        out = permute(session, reshape(session, out, shape), order, memory)
    return _shaped(session, out, kept)


def _in_four(shape: Shape) -> Shape:
    rank = len(shape)
    return (1,) * (4 - rank) + shape if rank < 4 else (prod(shape[: rank - 3]), *shape[-3:])


BUFFERED = 4
"""Tiles of operand and result a core holds."""


def cumsum(case: Case) -> Usage:
    x = case.x
    need(x.layout.is_tile, "cumsum: tiled tensors only")
    need(not x.layout.is_sharded, "accumulation operations (cumprod, cumsum) do not support sharded input tensors")
    rank = len(x.shape)
    dim = int(case.attrs.get("dim", -1)) % rank
    session = Session(case)
    held = session.inputs[0]
    memory = case.output or held.memory
    need_named(memory)
    if x.dtype is DType.BF16 and dim == rank - 1:
        return session.usage(_accumulate(session, held, memory))
    lead = max(0, 4 - rank)
    flat = four_dims(held) if lead else held
    order = swapped(tuple(range(rank + lead)), 0, dim + lead)  # the dim summed over goes first
    out = permute(session, _accumulated_first(session, flat, order, memory), order, memory)
    return session.usage(Held(x.shape, held.padded, out.dtype, out.page, out.memory, out.buffer))


@scoped
def _accumulated_first(session: Session, held: Held, order: Shape, memory: MemoryConfig) -> Held:
    return _accumulate(session, permute(session, held, order), memory)


def _accumulate(session: Session, held: Held, memory: MemoryConfig) -> Held:
    out = session.like(held, memory)
    need(_inside(session, held, memory), "Accumulation output shard grid must be contained in program core grid")
    sums = 0 if held.dtype is DType.BF16 else 2 * DType.BF16.tile_bytes
    if held.dtype is DType.F32:
        sums = 2 * DType.F32.tile_bytes
    session.run(dfb=2 * BUFFERED * held.dtype.tile_bytes + sums)
    return out


def _inside(session: Session, held: Held, memory: MemoryConfig) -> bool:
    """Shards lie on the cores the rows of tiles are dealt to, column by column."""
    spec = memory.shard_spec
    if spec is None or memory.buffer_type.value != "l1":
        return True
    rows = session.device.grid_yx[0]
    units = min(held.rows // TILE, session.device.num_cores)

    def last(span: CoreRange) -> int:
        return span[2] * rows + span[3]

    return all(last(span) < units and span[3] < rows for span in spec.core_ranges)
