"""The ops of onnxruntime's own domain that exporters and its optimizer write."""

from __future__ import annotations

from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError
from optimizer.importers.onnx_ops import norm
from optimizer.importers.onnx_ops.conv import conv
from optimizer.importers.onnx_ops.matmul import gemm, multiply
from optimizer.ir.dtype import DType


def gelu(ctx: Lowering) -> str:
    return ctx.emit("gelu", ctx.x(0))


def bias_gelu(ctx: Lowering) -> str:
    return ctx.emit("gelu", _biased(ctx))


def fast_gelu(ctx: Lowering) -> str:
    """The tanh form, after a bias that may be absent."""
    return ctx.emit("gelu_tanh", _biased(ctx))


def _biased(ctx: Lowering) -> str:
    return ctx.emit("add", ctx.x(0), ctx.x(1)) if ctx.has(1) else ctx.x(0)


def quick_gelu(ctx: Lowering) -> str:
    alpha = float(ctx.attr("alpha", 1.702))
    return ctx.emit("multiply", ctx.x(0), ctx.emit("sigmoid", ctx.emit("multiply", ctx.x(0), scalar=alpha)))


def fused_matmul(ctx: Lowering) -> str:
    operands = []
    for index, side in enumerate("AB"):
        x, rank = ctx.x(index), len(ctx.shape(index))
        if ctx.attr(f"transBatch{side}", 0):  # the batch dims stand between rows and columns
            x = ctx.permute(x, (*range(1, rank - 1), 0, rank - 1))
        operands.append(x)
    a, b = operands
    turned = [bool(ctx.attr(name, 0)) for name in ("transA", "transB")]
    result = multiply(ctx, a, b, *turned)
    alpha = float(ctx.attr("alpha", 1.0))
    return result if alpha == 1.0 else ctx.emit("multiply", result, scalar=alpha)


_ACTIVATIONS = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Gelu": "gelu"}


def _activated(ctx: Lowering, x: str, default: str = "") -> str:
    """The activation that a fused op names, without parameters."""
    name = str(ctx.attr("activation", default))
    if not name:
        return x
    if name not in _ACTIVATIONS:
        raise NotMappedError(f"a fused activation '{name}'")
    return ctx.emit(_ACTIVATIONS[name], x)


def fused_gemm(ctx: Lowering) -> str:
    return _activated(ctx, gemm(ctx))


def fused_conv(ctx: Lowering) -> str:
    """activation(conv(X, W, B) + Z)"""
    result = conv(ctx)
    return _activated(ctx, ctx.emit("add", result, ctx.x(3)) if ctx.has(3) else result)


def embed_layer_norm(ctx: Lowering) -> list[str | None]:
    """layer_norm(word + position + segment embeddings)."""
    if any(v.uses() or v.is_graph_output() for v in list(ctx.node.outputs)[1:2]):
        raise NotMappedError("the number of unmasked tokens as a result")
    length = ctx.shape(0)[1]
    words = ctx.emit("embedding", ctx.typecast(ctx.x(0), DType.U32), ctx.x(2))
    if ctx.has(8):
        places = ctx.emit("embedding", ctx.typecast(ctx.x(8), DType.U32), ctx.x(3))
    else:
        table = ctx.x(3)
        places = ctx.reshape(ctx.slice(table, 0, 0, length), (1, length, ctx.vshape(table)[1]))
    total = ctx.emit("add", words, places)
    if ctx.has(1) and ctx.has(4):
        total = ctx.emit("add", total, ctx.emit("embedding", ctx.typecast(ctx.x(1), DType.U32), ctx.x(4)))
    epsilon = float(ctx.attr("epsilon", 1e-12))
    result = norm.over_tail(ctx, "layer_norm", total, 2, [ctx.x(5), ctx.x(6)], epsilon)
    return [result, None, total][: len(ctx.node.outputs)]


def skip_norm(op: str) -> NodeMapping:
    """norm(input + skip [+ bias]); output 3 is the sum."""

    def lower(ctx: Lowering) -> list[str | None]:
        outputs = list(ctx.node.outputs)
        if any(v.uses() or v.is_graph_output() for v in outputs[1:3]):
            raise NotMappedError("mean or deviation as a result")
        total = ctx.emit("add", ctx.x(0), ctx.x(1))
        count = 2 if op == "layer_norm" else 1
        if ctx.has(2 + count):
            total = ctx.emit("add", total, ctx.x(2 + count))
        scales = [ctx.x(2 + i) for i in range(count) if ctx.has(2 + i)]
        axis = len(ctx.vshape(total)) - 1
        result = norm.over_tail(ctx, op, total, axis, scales, float(ctx.attr("epsilon", 1e-5)))
        return [result, None, None, total][: len(outputs)]

    return lower


_MS = "com.microsoft."

OPS: dict[str, NodeMapping] = {
    f"{_MS}Gelu": gelu,
    f"{_MS}FastGelu": fast_gelu,
    f"{_MS}BiasGelu": bias_gelu,
    f"{_MS}QuickGelu": quick_gelu,
    f"{_MS}FusedMatMul": fused_matmul,
    f"{_MS}FusedGemm": fused_gemm,
    f"{_MS}FusedConv": fused_conv,
    f"{_MS}EmbedLayerNormalization": embed_layer_norm,
    f"{_MS}SkipLayerNormalization": skip_norm("layer_norm"),
    f"{_MS}SkipSimplifiedLayerNormalization": skip_norm("rms_norm"),
    f"{_MS}SimplifiedLayerNormalization": norm.rms_norm,
    "SimplifiedLayerNormalization": norm.rms_norm,
}
