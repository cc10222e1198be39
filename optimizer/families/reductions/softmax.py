"""Softmax: any layout in, any layout out; buffers hold whole rows of tiles.

The buffer sums reproduce recorded programs: the last dim keeps a row of tiles (twice the row's width in
intermediates where the result is stabilised), the second last a column of tiles while it is small, any other
dim single tiles.
"""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.layouts.tiling import TILE, ceil_div, padded_shape, round_up
from optimizer.opmodel.analytical.case import Case, Usage, need, need_named
from optimizer.opmodel.analytical.tensors import TILED, tiles
from optimizer.opmodel.base import TensorSpec

SMALL_COLUMN = 512 * 1024
"""Address below which the buffers of the column kernel must end that keeps the whole column."""
LARGE_ROW_TILES = 80
"""Row tiles that the kernel for wide rows holds at a time."""
SINGLE_TILES = 5
"""Buffers of one tile, as the row kernel estimates them."""
L1_SHARE = 0.9
"""Part of L1 that the row kernel may fill by its own estimate."""


def softmax(case: Case) -> Usage:
    x = case.x
    out = _result(case)
    rank = len(x.shape)
    dim = int(case.attrs.get("dim", -1)) % rank
    rows, wide = tiles(x.shape)
    if dim == rank - 1:
        cb = _row_buffers(case, x, wide)
        work = rows
    elif dim == rank - 2:
        cb = _column_buffers(case, x, padded_shape(x.shape, TILED)[-2] // TILE)
        work = max(1, rows * wide // max(1, padded_shape(x.shape, TILED)[-2] // TILE))
    else:
        cb = 4 * x.dtype.tile_bytes + 4096 + 4096 + 8192 + x.dtype.tile_bytes + 4096
        work = rows * wide
    return Usage((out,), cb=cb, cores=max(1, min(work, case.device.num_cores)))


def _result(case: Case) -> TensorSpec:
    x = case.x
    memory = case.follow()
    spec = memory.shard_spec
    need_named(memory)
    if spec is not None:
        partial = spec.shape[1] != padded_shape(x.shape, TILED)[-1] and x.shape[-1] % TILE
        need(not partial, "Changing the last dimension of a sharded tensor is not supported")
    return case.result(x.shape, x.dtype, memory, x.layout.page_layout)


def _row_buffers(case: Case, x: TensorSpec, wide: int, mask: TensorSpec | None = None) -> int:
    """Buffers of the row kernel (`softmax_program_factory_attention_optimized.cpp`), or of the one for wide rows.

    The choice is an estimate against nine tenths of all of L1, whatever lives there.
    """
    tile = x.dtype.tile_bytes
    held = 4096 if case.fp32(x.dtype is DType.F32) else 2048
    scalar = 4096 if x.dtype is DType.F32 else 2048
    stable = bool(case.attrs.get("numeric_stable", True))
    padded = mask is not None or bool(x.shape[-1] % TILE)
    parts = ceil_div(wide, 4)
    block = wide // parts if wide % parts == 0 else 4  # at most four tiles, or equal parts (measured)
    row = round_up(wide, block)
    read = row if stable and not padded else 2 * block
    estimate = read * tile + row * held + 2 * block * tile + SINGLE_TILES * held
    estimate += row * held if stable and padded else 0
    covered = 0 if mask is None else mask.dtype.tile_bytes
    if mask is not None:
        estimate += (row + block) * held + 2048 + row * covered
    large = case.device.worker_l1_bytes * L1_SHARE < estimate
    size = 2 * block * tile + 4096 + scalar + 4096 + 2048 + (held if stable else 0)
    if large:
        part = LARGE_ROW_TILES
        size += 4096 + held + 4096 + part * (tile + 2 * held)
        return size + (part * (held + covered) + 2048 if mask is not None else 0)
    size += read * tile + row * held + (row * held if stable and padded else 0)
    return size + ((row + block) * held + row * covered + 2048 if mask is not None else 0)


def _column_buffers(case: Case, x: TensorSpec, tall: int) -> int:
    """The whole column (`is_softmax_general_h_small_available`: if it ends below 512 KB), else tile by tile."""
    tile = x.dtype.tile_bytes
    mask = 4096 if x.dtype is DType.F32 else 2048
    estimate = 2 * tall * (tile + 4096) + 2 * tile + 3 * 4096
    if case.device.cb_base_bytes + estimate <= SMALL_COLUMN:
        return 2 * tall * tile + 3 * mask + 2 * tall * 4096 + 3 * 4096
    return 4 * tile + 3 * mask + 8192 + 4 * 4096


def attention_softmax(case: Case) -> Usage:
    """Scale, mask and softmax of the last dim in one kernel; shards may cut a partly empty tile."""
    x = case.x
    memory = case.follow()
    need(x.dtype is not DType.BFP4_B, "Input tensor must be FLOAT32, BFLOAT16, or BFLOAT8_B")
    need_named(memory)
    out = case.result(x.shape, x.dtype, memory, x.layout.page_layout)
    rows, wide = tiles(x.shape)
    return Usage((out,), cb=_row_buffers(case, x, wide, case.operand(1) or x), cores=min(rows, case.device.num_cores))
