"""Typecast and the filling of tile padding, as data-movement ops use them (tt-metal 0.81)."""

from __future__ import annotations

from math import prod

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import MemoryConfig
from optimizer.layouts.tiling import TILE
from optimizer.opmodel.analytical.case import need
from optimizer.opmodel.analytical.device_run.session import Held, Session, scoped


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
