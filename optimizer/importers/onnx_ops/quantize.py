"""Linear quantisation, written out in floats: TTNN computes in floats either way."""

from __future__ import annotations

import onnx_ir as ir

from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError
from optimizer.ir.dtype import DType

_RANGES = {
    ir.DataType.INT8: (-128, 127),
    ir.DataType.UINT8: (0, 255),
    ir.DataType.INT16: (-(1 << 15), (1 << 15) - 1),
    ir.DataType.UINT16: (0, (1 << 16) - 1),
}


def _along(ctx: Lowering, index: int) -> str:
    """Scale or zero point as a float that broadcasts to input 0."""
    if ctx.attr("block_size", 0):
        raise NotMappedError("blocked quantisation")
    value, rank = ctx.x(index), len(ctx.shape(0))
    if len(ctx.shape(index)) == 1 and ctx.shape(index)[0] > 1:
        axis = ctx.axis(ctx.attr("axis", 1), rank)
        value = ctx.reshape(value, tuple(ctx.shape(index)[0] if i == axis else 1 for i in range(rank)))
    return ctx.typecast(value, ctx.float_dtype)


def dequantize(ctx: Lowering) -> str:
    """(x - zero_point) * scale"""
    x = ctx.typecast(ctx.x(0), ctx.float_dtype)
    if ctx.has(2):
        x = ctx.emit("subtract", x, _along(ctx, 2))
    return ctx.typecast(ctx.emit("multiply", x, _along(ctx, 1)), ctx.dtype(ctx.node.outputs[0]))


def quantize(ctx: Lowering) -> str:
    """clamp(round(x / scale) + zero_point)"""
    target = ctx.node.outputs[0].dtype
    if target not in _RANGES:
        raise NotMappedError(f"quantisation to {target}")
    low, high = _RANGES[target]
    x = ctx.emit("round", ctx.emit("divide", ctx.x(0), _along(ctx, 1)))
    if ctx.has(2):
        x = ctx.emit("add", x, _along(ctx, 2))
    clamped = ctx.emit("clamp", x, min=float(low), max=float(high))
    # the float steps are exact integers; unsigned bytes go through i32, which every typecast accepts
    dtype = ctx.dtype(ctx.node.outputs[0])
    return ctx.typecast(ctx.typecast(clamped, DType.I32), dtype)


OPS: dict[str, NodeMapping] = {"DequantizeLinear": dequantize, "QuantizeLinear": quantize}
