"""Sums up to each element of a dim (`ttnn.cumsum`).

Source: tt-metal `reduction/accumulation`; buffers and the order of the steps measured on mock devices.
"""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import CoreRange, MemoryConfig
from optimizer.layouts.tiling import TILE
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.device_run.reducing import four_dims
from optimizer.opmodel.analytical.device_run.session import Held, Session, Shape, scoped
from optimizer.opmodel.analytical.device_run.transposing import permute

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
    need(not memory.is_sharded or memory.shard_spec is not None, "bad optional access")
    if x.dtype is DType.BF16 and dim == rank - 1:
        return session.usage(_accumulate(session, held, memory))
    lead = max(0, 4 - rank)
    flat = four_dims(held) if lead else held
    order = _swapped(rank + lead, dim + lead)
    out = permute(session, _accumulated_first(session, flat, order, memory), order, memory)
    return session.usage(Held(x.shape, held.padded, out.dtype, out.page, out.memory, out.buffer))


@scoped
def _accumulated_first(session: Session, held: Held, order: Shape, memory: MemoryConfig) -> Held:
    return _accumulate(session, permute(session, held, order), memory)


def _swapped(rank: int, dim: int) -> Shape:
    """The dim summed over goes first."""
    order = list(range(rank))
    order[0], order[dim] = dim, 0
    return tuple(order)


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
