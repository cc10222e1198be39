"""fill_implicit_tile_padding: what lies in the last tiles beyond a tensor's own elements, written in place.

Rule measured on mock devices (tt-metal 0.81.1): bf16, f32 and integers are filled in the operand's buffer, and a memory
config that says otherwise is ignored; block floats are unpacked and packed again, which also spoils elements that share
an exponent with the filling, so they are refused here. Circular buffers: four tiles, and one for each of the two last
dims that is no multiple of 32; a tensor of whole tiles is handed back as it is.
"""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.layouts.tiling import TILE
from optimizer.opmodel.analytical.case import Case, Usage, need

FILLED = (DType.BF16, DType.F32)


def fill_padding(case: Case) -> Usage:
    x = case.x
    need(x.layout.is_tile, f"{case.query.op}: the operand must be in tiles")
    need(not x.layout.is_sharded, f"{case.query.op}: sharded operands are not supported")
    need(
        x.dtype in FILLED, f"{case.query.op}: elements of type {x.dtype} share exponents with the filling, or are none"
    )
    need(case.output in (None, x.layout.memory), f"{case.query.op}: the result stays in the operand's buffer")
    rows, columns = (1, 1, *x.shape)[-2:]
    partial = (rows % TILE > 0) + (columns % TILE > 0)
    cb = (4 + partial) * x.dtype.tile_bytes if partial else 0
    return Usage((x,), cb=cb, l1=0, cores=case.device.num_cores, view=not partial)
