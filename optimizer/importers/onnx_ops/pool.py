"""Pooling."""

from __future__ import annotations

from optimizer.errors import ShapeError
from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError
from optimizer.importers.onnx_ops.conv import lift, pads, spatial, two
from optimizer.ir.graph import Attr


def _window(ctx: Lowering, op: str) -> str:
    rank = spatial(ctx)
    x = lift(ctx, ctx.x(0), rank)
    n, c, height, width = ctx.vshape(x)
    kernel = two(ctx.attr("kernel_shape"), rank)
    if min(kernel) < 1:
        raise ShapeError(f"attribute 'kernel_shape' must be positive, not {list(kernel)}")
    stride, dilation = two(ctx.attr("strides"), rank), two(ctx.attr("dilations"), rank)
    if min(stride + dilation) < 1:
        raise ShapeError("attributes 'strides' and 'dilations' must be positive")
    ceil = bool(ctx.attr("ceil_mode", 0))
    attrs: dict[str, Attr] = {
        "kernel_size": kernel,
        "stride": stride,
        "padding": pads(ctx, (height, width), kernel, stride, dilation, rank),
        "dilation": dilation,
        "ceil_mode": ceil,
    }
    if op == "nchw.avg_pool2d":
        attrs["count_include_pad"] = bool(ctx.attr("count_include_pad", 0))
        if dilation != (1, 1):
            raise NotMappedError("average pooling with dilation")
    out = ctx.out_shape()
    shape = (n, c, *((1,) if rank == 1 else ()), *out[2:])
    result = ctx.emit_raw(op, [x], attrs, [(shape, ctx.vdtype(x))])[0]
    return ctx.reshape(result, out)


def max_pool(ctx: Lowering) -> list[str | None]:
    outputs = list(ctx.node.outputs)
    if len(outputs) > 1 and (outputs[1].uses() or outputs[1].is_graph_output()):
        raise NotMappedError("MaxPool that returns indices")
    if ctx.attr("storage_order", 0):
        raise NotMappedError("column-major MaxPool")
    return [_window(ctx, "nchw.max_pool2d"), *([None] * (len(outputs) - 1))]


def average_pool(ctx: Lowering) -> str:
    return _window(ctx, "nchw.avg_pool2d")


def global_pool(op: str) -> NodeMapping:
    def lower(ctx: Lowering) -> str:
        axes = tuple(range(2, len(ctx.shape(0))))
        return ctx.emit(op, ctx.x(0), dim=axes, keepdim=True)

    return lower


OPS: dict[str, NodeMapping] = {
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": global_pool("mean"),
    "GlobalMaxPool": global_pool("max"),
}
