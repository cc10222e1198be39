"""Linear quantisation, written out in floats: TTNN computes in floats either way.

Weights are dequantised once, when the model is prepared; integer products go through f32, which holds the
sums of products of bytes exactly.
"""

from __future__ import annotations

import onnx_ir as ir

from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError
from optimizer.importers.onnx_ops.conv import convolve
from optimizer.importers.onnx_ops.matmul import product
from optimizer.ir.dtype import DType

_RANGES = {
    ir.DataType.INT8: (-128, 127),
    ir.DataType.UINT8: (0, 255),
    ir.DataType.INT16: (-(1 << 15), (1 << 15) - 1),
    ir.DataType.UINT16: (0, (1 << 16) - 1),
}


def _along(ctx: Lowering, index: int, shape: tuple[int, ...], axis: int, block: int = 0) -> str:
    """A scale or zero point as a float that broadcasts to `shape`, which it follows along `axis`."""
    value = ctx.x(index)
    if block:
        value = ctx.emit("repeat_interleave", ctx.typecast(value, ctx.float_dtype), repeats=block, dim=axis)
        if ctx.vshape(value)[axis] != shape[axis]:
            value = ctx.slice(value, axis, 0, shape[axis])
    elif len(ctx.shape(index)) == 1 and ctx.shape(index)[0] > 1:
        value = ctx.reshape(value, tuple(ctx.shape(index)[0] if i == axis else 1 for i in range(len(shape))))
    return ctx.typecast(value, ctx.float_dtype)


def _to_floats(ctx: Lowering, at: tuple[int, int, int], axis: int = 1, block: int = 0) -> str:
    """(x - zero_point) * scale, the three operands being at these positions."""
    x = ctx.typecast(ctx.x(at[0]), ctx.float_dtype)
    shape = ctx.vshape(x)
    axis %= len(shape)  # read only where there is a scale for each of its elements
    if ctx.has(at[2]):
        x = ctx.emit("subtract", x, _along(ctx, at[2], shape, axis, block))
    return ctx.emit("multiply", x, _along(ctx, at[1], shape, axis, block))


def _to_integers(ctx: Lowering, x: str, scale: int, zero_point: int, axis: int = 1) -> str:
    """clamp(round(x / scale) + zero_point)"""
    target = ctx.node.outputs[0].dtype
    if target not in _RANGES:
        raise NotMappedError(f"quantisation to {target}")
    shape = ctx.vshape(x)
    axis %= len(shape)  # read only where there is a scale for each of its elements
    x = ctx.emit("round", ctx.emit("divide", x, _along(ctx, scale, shape, axis)))
    if ctx.has(zero_point):
        x = ctx.emit("add", x, _along(ctx, zero_point, shape, axis))
    return _whole(ctx, x, target)


def _whole(ctx: Lowering, x: str, kind: ir.DataType) -> str:
    """Floats that are whole numbers as integers: unsigned bytes go through i32, which every typecast accepts."""
    low, high = _RANGES[kind]
    clamped = ctx.emit("clamp", x, min=float(low), max=float(high))
    return ctx.typecast(ctx.typecast(clamped, DType.I32), ctx.dtype(ctx.node.outputs[0]))


def dequantize(ctx: Lowering) -> str:
    result = _to_floats(ctx, (0, 1, 2), int(ctx.attr("axis", 1)), int(ctx.attr("block_size", 0)))
    return ctx.typecast(result, ctx.dtype(ctx.node.outputs[0]))


def quantize(ctx: Lowering) -> str:
    if ctx.attr("block_size", 0):
        raise NotMappedError("quantisation in blocks")
    return _to_integers(ctx, ctx.x(0), 1, 2, int(ctx.attr("axis", 1)))


def dynamic_quantize(ctx: Lowering) -> list[str]:
    """To unsigned bytes by the range of the data, which always includes zero."""
    x = ctx.x(0)
    axes = tuple(range(len(ctx.vshape(x))))
    high = ctx.emit("relu", ctx.emit("max", x, dim=axes, keepdim=True))
    low = ctx.emit("minimum", ctx.emit("min", x, dim=axes, keepdim=True), scalar=0.0)
    scale = ctx.emit("multiply", ctx.emit("subtract", high, low), scalar=1 / 255)
    zero = ctx.emit("round", ctx.emit("neg", ctx.emit("divide", low, scale)))
    levels = ctx.emit("add", ctx.emit("round", ctx.emit("divide", x, scale)), zero)
    return [_whole(ctx, levels, ir.DataType.UINT8), scale, _whole(ctx, zero, ir.DataType.UINT8)]


def _centred(ctx: Lowering, index: int, zero_point: int, axis: int) -> str:
    """x - zero_point in f32."""
    x = ctx.typecast(ctx.x(index), DType.F32)
    if not ctx.has(zero_point):
        return x
    shape = ctx.shape(zero_point)
    zero = ctx.typecast(ctx.x(zero_point), DType.F32)
    if len(shape) == 1 and shape[0] > 1:
        zero = ctx.reshape(zero, tuple(shape[0] if i == axis else 1 for i in range(len(ctx.vshape(x)))))
    return ctx.emit("subtract", x, zero)


def matmul_integer(ctx: Lowering) -> str:
    ranks = len(ctx.shape(0)), len(ctx.shape(1))
    a, b = _centred(ctx, 0, 2, max(ranks[0] - 2, 0)), _centred(ctx, 1, 3, ranks[1] - 1)
    return ctx.typecast(product(ctx, a, b, *ranks), DType.I32)


def conv_integer(ctx: Lowering) -> str:
    return ctx.typecast(convolve(ctx, [_centred(ctx, 0, 2, 1), _centred(ctx, 1, 3, 0)]), DType.I32)


def qlinear_matmul(ctx: Lowering) -> str:
    ranks = len(ctx.shape(0)), len(ctx.shape(3))
    a = _to_floats(ctx, (0, 1, 2), max(ranks[0] - 2, 0))
    b = _to_floats(ctx, (3, 4, 5), ranks[1] - 1)
    return _to_integers(ctx, product(ctx, a, b, *ranks), 6, 7)


def qlinear_conv(ctx: Lowering) -> str:
    operands = [_to_floats(ctx, (0, 1, 2)), _to_floats(ctx, (3, 4, 5), 0)]
    if ctx.has(8):  # integers in steps of both scales
        bias = ctx.typecast(ctx.x(8), ctx.float_dtype)
        for scale in (1, 4):
            bias = ctx.emit("multiply", bias, ctx.typecast(ctx.x(scale), ctx.float_dtype))
        operands.append(bias)
    return _to_integers(ctx, convolve(ctx, operands), 6, 7)


def qlinear_binary(op: str) -> NodeMapping:
    def lower(ctx: Lowering) -> str:
        return _to_integers(ctx, ctx.emit(op, _to_floats(ctx, (0, 1, 2)), _to_floats(ctx, (3, 4, 5))), 6, 7)

    return lower


def matmul_bits(ctx: Lowering) -> str:
    """onnxruntime's MatMulNBits: weights [N, blocks, bytes] of 4 or 8 bits, a scale (and zero point) per block."""
    width, depth, block = (int(ctx.attr(name)) for name in ("N", "K", "block_size"))
    bits = int(ctx.attr("bits", 4))
    if bits not in (4, 8) or ctx.has(4):
        raise NotMappedError(f"weights of {bits} bits or in another order")
    blocks = -(-depth // block)
    levels = ctx.reshape(_unpacked(ctx, 1, bits), (width, blocks, block))
    if ctx.has(3) and not ctx.vdtype(ctx.x(3)).is_float:
        stored = blocks + blocks % 2 if bits == 4 else blocks
        zero = ctx.reshape(_unpacked(ctx, 3, bits), (width, stored))
        levels = ctx.emit("subtract", levels, ctx.reshape(ctx.slice(zero, 1, 0, blocks), (width, blocks, 1)))
    elif ctx.has(3):
        levels = ctx.emit("subtract", levels, ctx.reshape(ctx.x(3), (width, blocks, 1)))
    else:
        levels = ctx.emit("subtract", levels, scalar=float(1 << (bits - 1)))
    weights = ctx.emit("multiply", levels, ctx.reshape(ctx.x(2), (width, blocks, 1)))
    weights = ctx.slice(ctx.reshape(weights, (width, blocks * block)), 1, 0, depth)
    operands = [ctx.x(0), ctx.permute(weights, (1, 0)), *ctx.there((5,))]
    return ctx.emit("linear", *operands)


def _unpacked(ctx: Lowering, index: int, bits: int) -> str:
    """Packed bytes as floats, two to a byte when of 4 bits (the lower half first): [elements, 1 or 2]."""
    whole = ctx.typecast(ctx.x(index), DType.I32)
    flat = ctx.reshape(whole, (ctx.graph.value(whole).volume, 1))
    if bits == 4:
        low = ctx.emit("bitwise_and", flat, scalar=15)
        flat = ctx.emit("concat", low, ctx.emit("logical_right_shift", flat, scalar=4), dim=1)
    return ctx.typecast(flat, ctx.float_dtype)


_MS = "com.microsoft."

OPS: dict[str, NodeMapping] = {
    "DequantizeLinear": dequantize,
    "QuantizeLinear": quantize,
    "DynamicQuantizeLinear": dynamic_quantize,
    "MatMulInteger": matmul_integer,
    "ConvInteger": conv_integer,
    "QLinearMatMul": qlinear_matmul,
    "QLinearConv": qlinear_conv,
    f"{_MS}DequantizeLinear": dequantize,
    f"{_MS}QuantizeLinear": quantize,
    f"{_MS}QLinearAdd": qlinear_binary("add"),
    f"{_MS}QLinearMul": qlinear_binary("multiply"),
    f"{_MS}MatMulNBits": matmul_bits,
}
