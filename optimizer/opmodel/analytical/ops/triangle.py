"""tril and triu: a mask of zeros and ones is made, then multiplied with the operand.

Rule measured on mock devices (tt-metal 0.81.1): the mask lies where the result lies, bf16 for floats and i32 for
integers; the multiplication's buffers are two tiles of operand, mask and result.
"""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.base import TensorSpec

_MASKS = {
    DType.BF16: DType.BF16,
    DType.BFP8_B: DType.BF16,
    DType.F32: DType.BF16,
    DType.I32: DType.I32,
    DType.U32: DType.I32,
}


def triangle(case: Case) -> Usage:
    x = case.x
    need(x.layout.is_tile, f"{case.query.op}: the operand must be in tiles")
    need(not x.layout.is_sharded, f"{case.query.op}: sharded operands are not supported")
    need(x.dtype in _MASKS, f"{case.query.op}: no mask of element type {x.dtype}")
    memory = case.follow()
    need(not memory.is_sharded, f"{case.query.op}: sharded output is not supported")
    out = case.result(x.shape, x.dtype, memory)
    mask = TensorSpec(x.shape, _MASKS[x.dtype], out.layout)
    held = case.l1(out) + case.l1(mask) if memory.buffer_type.value == "l1" else 0
    cb = 2 * (x.dtype.tile_bytes + mask.dtype.tile_bytes + out.dtype.tile_bytes)
    return Usage((out,), cb=cb, l1=held, cores=case.device.num_cores)
