"""Batch norm (inference).

Source: tt-metal 0.81's own messages.
"""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.opmodel.analytical.case import Case, Usage, need


def batch_norm(case: Case) -> Usage:
    x = case.x
    need(all(not t.layout.is_sharded for t in case.inputs), "batch_norm: interleaved only")
    need(x.dtype in (DType.BF16, DType.F32), "batch_norm only supports bfloat16, float32")
    memory = case.follow()
    need(not memory.is_sharded, "batch_norm: interleaved only")
    out = case.result(x.shape, x.dtype, memory)
    return Usage((out,), cb=18 * x.dtype.tile_bytes, cores=case.device.num_cores)
