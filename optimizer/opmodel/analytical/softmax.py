"""Softmax: any layout in, any layout out; buffers hold whole rows of tiles.

The buffer sums reproduce recorded programs: the last dim keeps a row of tiles (twice the row's width in
intermediates where the result is stabilised), the second last a column of tiles while it is small, any other
dim single tiles.
"""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.layouts.tiling import TILE, padded_shape, round_up
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.tensors import TILED, tiles
from optimizer.opmodel.base import TensorSpec

SMALL_COLUMN = 512 * 1024
"""Largest buffer total of the column kernel that keeps the whole column."""
LARGE_ROW_TILES = 80
"""Row tiles that the kernel for wide rows holds at a time."""


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
        cb = _column_buffers(x, padded_shape(x.shape, TILED)[-2] // TILE)
        work = max(1, rows * wide // max(1, padded_shape(x.shape, TILED)[-2] // TILE))
    else:
        cb = 4 * x.dtype.tile_bytes + 4096 + 4096 + 8192 + x.dtype.tile_bytes + 4096
        work = rows * wide
    return Usage((out,), cb=cb, cores=max(1, min(work, case.device.num_cores)))


def _result(case: Case) -> TensorSpec:
    x = case.x
    memory = case.follow()
    spec = memory.shard_spec
    need(not memory.is_sharded or spec is not None, "bad optional access")
    if spec is not None:
        partial = spec.shape[1] != padded_shape(x.shape, TILED)[-1] and x.shape[-1] % TILE
        need(not partial, "Changing the last dimension of a sharded tensor is not supported")
    return case.result(x.shape, x.dtype, memory, x.layout.page_layout)


def _row_buffers(case: Case, x: TensorSpec, wide: int) -> int:
    compute = case.attrs.get("compute")
    fp32 = bool(dict(compute).get("fp32")) if compute else x.dtype is DType.F32
    tile, held = x.dtype.tile_bytes, 4096 if fp32 else 2048
    mask = 4096 if x.dtype is DType.F32 else 2048
    stable = bool(case.attrs.get("numeric_stable", True))
    padded = bool(x.shape[-1] % TILE)

    def total(width: int, whole: bool) -> int:
        block = min(width, 4)
        row = round_up(width, block)
        size = (row if whole else 2 * block) * tile + 2 * block * tile + 4096 + mask + 4096 + row * held + 2048
        if stable:
            size += held + (row * held if padded else 0)
        return size

    cb = total(wide, stable and not padded)
    room = case.device.l1_bank_bytes(case.l1_small_bytes) - sum(case.l1(t) for t in case.inputs)
    if cb > room and not x.layout.is_sharded:
        cb = min(cb, total(LARGE_ROW_TILES, True) + LARGE_ROW_TILES * held)
    return cb


def _column_buffers(x: TensorSpec, tall: int) -> int:
    tile = x.dtype.tile_bytes
    mask = 4096 if x.dtype is DType.F32 else 2048
    small = 2 * tall * tile + 3 * mask + 2 * tall * 4096 + 3 * 4096
    if small < SMALL_COLUMN:
        return small
    return 4 * tile + 3 * mask + 8192 + 4 * 4096


def attention_softmax(case: Case) -> Usage:
    """Scale, mask and softmax of the last dim in one kernel, 4 tiles at a time."""
    x = case.x
    usage = softmax(case)
    compute = case.attrs.get("compute")
    fp32 = bool(dict(compute).get("fp32")) if compute else x.dtype is DType.F32
    tile, held, mask = x.dtype.tile_bytes, 4096 if fp32 else 2048, 4096 if x.dtype is DType.F32 else 2048
    row = round_up(tiles(x.shape)[1], 4)
    usage.cb = 16 * tile + 3 * 4096 + mask + (2 * row + 4) * tile + held + 2 * row * held
    return usage
