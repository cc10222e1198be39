"""The ops of onnxruntime's own domain that exporters and its optimizer write."""

from __future__ import annotations

from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError
from optimizer.importers.onnx_ops import norm
from optimizer.ir.graph import Attr


def gelu(ctx: Lowering) -> str:
    return ctx.emit("gelu", ctx.x(0))


def bias_gelu(ctx: Lowering) -> str:
    x = ctx.emit("add", ctx.x(0), ctx.x(1)) if ctx.has(1) else ctx.x(0)
    return ctx.emit("gelu", x)


def quick_gelu(ctx: Lowering) -> str:
    alpha = float(ctx.attr("alpha", 1.702))
    return ctx.emit("multiply", ctx.x(0), ctx.emit("sigmoid", ctx.emit("multiply", ctx.x(0), scalar=alpha)))


def fused_matmul(ctx: Lowering) -> str:
    if ctx.attr("transBatchA", 0) or ctx.attr("transBatchB", 0):
        raise NotMappedError("FusedMatMul with transposed batches")
    attrs: dict[str, Attr] = {
        f"transpose_{key}": True for key, name in (("a", "transA"), ("b", "transB")) if ctx.attr(name, 0)
    }
    result = ctx.emit("matmul", ctx.x(0), ctx.x(1), **attrs)
    alpha = float(ctx.attr("alpha", 1.0))
    return result if alpha == 1.0 else ctx.emit("multiply", result, scalar=alpha)


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
    f"{_MS}FastGelu": bias_gelu,
    f"{_MS}BiasGelu": bias_gelu,
    f"{_MS}QuickGelu": quick_gelu,
    f"{_MS}FusedMatMul": fused_matmul,
    f"{_MS}SkipLayerNormalization": skip_norm("layer_norm"),
    f"{_MS}SkipSimplifiedLayerNormalization": skip_norm("rms_norm"),
    f"{_MS}SimplifiedLayerNormalization": norm.rms_norm,
    "SimplifiedLayerNormalization": norm.rms_norm,
}
