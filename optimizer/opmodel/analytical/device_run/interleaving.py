"""`ttnn.repeat_interleave` (tt-metal 0.81 `data_movement/repeat_interleave`)."""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import MemoryConfig
from optimizer.layouts.tiling import round_up
from optimizer.opmodel.analytical.device_run.concatenating import concat
from optimizer.opmodel.analytical.device_run.padding import to_layout
from optimizer.opmodel.analytical.device_run.reshaping import reshape
from optimizer.opmodel.analytical.device_run.session import Held, Session, Shape, scoped
from optimizer.opmodel.analytical.device_run.transfer import alignment, to_memory_config, typecast
from optimizer.opmodel.analytical.device_run.transposing import transpose
from optimizer.opmodel.analytical.device_run.upsampling import upsample
from optimizer.opmodel.analytical.tensors import DRAM_MEMORY, ROWS

CODEGEN_DTYPES = (DType.BF16, DType.F32, DType.I32)
TILES_IN_FLIGHT = 8
ROWS_AT_ONCE = 4
JOINED_AT_ONCE = 32
"""Copies that one concat joins."""


def repeat_interleave(session: Session, held: Held, times: int, dim: int, memory: MemoryConfig | None = None) -> Held:
    """Every index of a non-negative `dim` `times` times in a row."""
    target = held.memory if memory is None else memory
    if _served(session, held, times, dim, target):
        return _by_codegen(session, held, times, dim, target)
    return _native(session, held, times, dim, memory)


def _times(shape: Shape, dim: int, times: int) -> Shape:
    return (*shape[:dim], shape[dim] * times, *shape[dim + 1 :])


def _slots(session: Session, held: Held, target: MemoryConfig) -> tuple[int, int]:
    """(bytes of a row's slot, slots that fit now): `rm_cb_budget`."""
    row = held.shape[-1] * held.dtype.element_bytes
    size = max(round_up(row, alignment(session.device, m)) for m in (held.memory, target))
    return size, session.free_l1() // size


def _served(session: Session, held: Held, times: int, dim: int, target: MemoryConfig) -> bool:
    """`supported_by_codegen`: whole pages, interleaved on both sides."""
    rank = len(held.shape)
    if held.is_sharded or target.is_sharded or not 2 <= rank <= 4 or times < 2 or held.dtype not in CODEGEN_DTYPES:
        return False
    if held.is_tile:
        return dim < rank - 2
    return held.shape[-1] > 1 and dim < rank - 1 and _slots(session, held, target)[1] >= 2


def _by_codegen(session: Session, held: Held, times: int, dim: int, target: MemoryConfig) -> Held:
    out = session.make(_times(held.shape, dim, times), held.dtype, held.page, target)
    if held.is_tile:
        session.run(cb=TILES_IN_FLIGHT * held.dtype.tile_bytes)
        return out
    size, most = _slots(session, held, target)
    batch = ROWS_AT_ONCE
    while 2 * batch > most and batch:
        batch //= 2
    session.run(cb=2 * batch * size)
    return out


@scoped
def _native(session: Session, held: Held, times: int, dim: int, memory: MemoryConfig | None) -> Held:
    if len(held.shape) == 1:
        column = reshape(session, held, (held.shape[0], 1))
        return reshape(session, _native(session, column, times, 0, memory), (held.shape[0] * times,))
    if held.is_sharded and times > 1:
        if not held.is_tile and len(held.shape) == 4 and held.is_l1:
            out = _by_upsampling(session, held, times, dim)
            return out if memory is None else to_memory_config(session, out, memory)
        spread = to_memory_config(session, held, DRAM_MEMORY)
        out = _native(session, spread, times, dim, DRAM_MEMORY)
        return to_memory_config(session, out, DRAM_MEMORY if memory is None else memory)
    target = held.memory if memory is None else memory
    if times == 1:
        return to_memory_config(session, held, target)
    last = len(held.shape) - 1
    if dim == last:
        turned = transpose(session, held, last - 1, last, target)
        repeated = _native(session, turned, times, last - 1, target)
        return transpose(session, repeated, last - 1, last, target)
    return _joined(session, held, times, dim, target)


@scoped
def _by_upsampling(session: Session, held: Held, times: int, dim: int) -> Held:
    """Row-major shards of (n, h, w, c): an image that grows by nearest neighbours."""
    n, h, w, c = held.shape
    if dim in (1, 2):
        return upsample(session, held, (times, 1) if dim == 1 else (1, times))
    if dim == 0:
        image = reshape(session, held, (1, n, h * w, c))
        return reshape(session, upsample(session, image, (times, 1)), (n * times, h, w, c))
    turned = transpose(session, held, 2, 3)
    return transpose(session, upsample(session, turned, (1, times)), 2, 3)


@scoped
def _joined(session: Session, held: Held, times: int, dim: int, target: MemoryConfig) -> Held:
    """Rows concatenated with themselves along a new dim; block floats as bf16. Every step lives to the end."""
    block = held.dtype.is_block_float
    source = typecast(session, held, DType.BF16, target) if block else held
    rows = session.replace(source, to_layout(session, source, ROWS))
    column = reshape(session, rows, (*rows.shape[: dim + 1], 1, *rows.shape[dim + 1 :]))
    parts = []
    for start in range(0, times, JOINED_AT_ONCE):
        copies = min(JOINED_AT_ONCE, times - start)
        parts.append(concat(session, (column,) * copies, dim + 1))
    joined = concat(session, tuple(parts), dim + 1)
    flat = reshape(session, joined, _times(held.shape, dim, times))
    out = to_layout(session, flat, held.page)
    return typecast(session, out, held.dtype, target) if block else to_memory_config(session, out, target)
