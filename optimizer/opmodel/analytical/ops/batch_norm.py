"""Batch norm (inference).

Source: tt-metal 0.81's own messages; buffers measured on mock devices.
"""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.opmodel.analytical.case import Case, Usage, need


def batch_norm(case: Case) -> Usage:
    """Operands: x, running mean and variance, then weight and bias; a buffer of two tiles for each of them."""
    x = case.x
    need(all(not t.layout.is_sharded for t in case.inputs), "batch_norm: interleaved only")
    need(all(t.layout.is_tile for t in case.inputs), "batch_norm: operands must be tiled")
    need(all(t.dtype in (DType.BF16, DType.F32) for t in case.inputs), "batch_norm only supports bfloat16, float32")
    held = case.inputs[1].dtype
    need(all(t.dtype is held for t in case.inputs[1:]), "batch_norm: parameter tensors must have the same dtype")
    memory = case.follow()
    need(not memory.is_sharded, "batch_norm: interleaved only")
    out = case.result(x.shape, x.dtype, memory)
    wide = DType.F32 if DType.F32 in (x.dtype, held) else DType.BF16
    scales = [held] * (len(case.inputs) - 1) + [DType.BF16] * (5 - len(case.inputs))
    tiles = x.dtype.tile_bytes + 4 * wide.tile_bytes + sum(d.tile_bytes for d in scales)
    if x.dtype is not wide:  # the result is narrowed at the end
        tiles += x.dtype.tile_bytes
    return Usage((out,), cb=2 * tiles, cores=case.device.num_cores)
