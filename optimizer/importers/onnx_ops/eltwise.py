"""Elementwise ONNX ops."""

from __future__ import annotations

import math

import onnx_ir as ir

from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError
from optimizer.importers.onnx_ops.computed import filled
from optimizer.importers.onnx_ops.selecting import full
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr

_SAME = (
    "Relu", "Sigmoid", "Tanh", "Exp", "Sqrt", "Neg", "Abs", "Log", "Reciprocal", "Sin", "Cos", "Tan", "Asin", "Acos",
    "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Erf", "Softplus", "Softsign", "Mish", "HardSwish", "Floor",
    "Ceil", "Round", "Sign", "IsNaN",
)  # fmt: skip
"""Ops of one operand that TTNN calls the same, in small letters."""
UNARY = {**{name: name.lower() for name in _SAME}, "Not": "logical_not"}

BINARY = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "Div": "divide",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "Equal": "eq",
    "Less": "lt",
    "Greater": "gt",
    "LessOrEqual": "le",
    "GreaterOrEqual": "ge",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
}

_COMMUTES = {"add", "multiply", "logical_and", "logical_or", "logical_xor", "eq", "ne", "maximum", "minimum"}
_COMMUTES |= {"bitwise_and", "bitwise_or", "bitwise_xor"}
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "subtract": "rsub", "divide": "rdiv"}
_COMPARES = {"eq", "ne", "lt", "gt", "le", "ge"}
_LOGICAL = {"logical_and", "logical_or", "logical_xor"}


_FLOATS_ONLY = {"sign", "floor", "ceil", "round"}
"""Unary ops that ONNX has for integers (or that leave them as they are) and TTNN has not."""


def _unary(name: str) -> NodeMapping:
    def lower(ctx: Lowering) -> str:
        x = ctx.x(0)
        if name in _FLOATS_ONLY and not ctx.vdtype(x).is_float:
            return ctx.typecast(ctx.emit(name, ctx.typecast(x, DType.F32)), ctx.vdtype(x))
        return ctx.emit(name, x)

    return lower


def combine(ctx: Lowering, op: str, left: ir.Value, right: ir.Value) -> str:
    """A binary op of two foreign values; a one-element constant becomes the attribute `scalar`."""
    a_rank, b_rank = len(left.shape or ()), len(right.shape or ())
    scalar = ctx.scalar(right, a_rank)
    if scalar == 1 and op == "logical_and":
        return ctx.use(left)
    if scalar is not None:
        return _finish(ctx, op, ctx.emit(op, ctx.use(left), scalar=scalar))
    scalar = ctx.scalar(left, b_rank)
    if scalar == 1 and op == "logical_and":
        return ctx.use(right)
    if scalar is not None and (op in _COMMUTES or op in _MIRRORED):
        name = op if op in _COMMUTES else _MIRRORED[op]
        return _finish(ctx, op, ctx.emit(name, ctx.use(right), scalar=scalar))
    a, b = ctx.use(left), ctx.use(right)
    if op in _COMMUTES and ctx.is_static(a) and not ctx.is_static(b):
        a, b = b, a
    return _finish(ctx, op, ctx.emit(op, a, b))


def _finish(ctx: Lowering, op: str, result: str) -> str:
    # a comparison of integers gives integers; booleans are floats everywhere in the graph
    if op in _COMPARES or op in _LOGICAL:
        return ctx.typecast(result, ctx.float_dtype)
    return result


def _binary(name: str) -> NodeMapping:
    def lower(ctx: Lowering) -> str:
        return combine(ctx, name, ctx.input(0), ctx.input(1))

    return lower


def div(ctx: Lowering) -> str:
    result = combine(ctx, "divide", ctx.input(0), ctx.input(1))
    if ctx.vdtype(result).is_float:
        return result
    # ONNX truncates integer quotients; the operands go through f32
    dtype = ctx.vdtype(result)
    a, b = ctx.typecast(ctx.x(0), DType.F32), ctx.typecast(ctx.x(1), DType.F32)
    return ctx.typecast(ctx.emit("trunc", ctx.emit("divide", a, b)), dtype)


def variadic(op: str) -> NodeMapping:
    """Sum, Min, Max, Mean of any number of inputs as a chain of binary ops."""

    def lower(ctx: Lowering) -> str:
        if len(ctx.node.inputs) == 1:
            return ctx.x(0)
        result = combine(ctx, op, ctx.input(0), ctx.input(1))
        for value in list(ctx.node.inputs)[2:]:
            assert value is not None
            scalar = ctx.scalar(value, len(ctx.vshape(result)))
            attrs: dict[str, Attr] = {} if scalar is None else {"scalar": scalar}
            result = ctx.emit(op, result, *([ctx.use(value)] if scalar is None else []), **attrs)
        return result

    return lower


def mean(ctx: Lowering) -> str:
    total = variadic("add")(ctx)
    assert isinstance(total, str)
    return ctx.emit("multiply", total, scalar=1.0 / len(ctx.node.inputs))


def power(ctx: Lowering) -> str:
    exponent = ctx.scalar(ctx.input(1), len(ctx.shape(0)))
    if exponent is not None:
        return power_scalar(ctx, ctx.x(0), float(exponent))
    base = ctx.scalar(ctx.input(0), len(ctx.shape(1)))
    if base is not None and base > 0:
        power_of = ctx.typecast(ctx.x(1), ctx.dtype(ctx.node.outputs[0]))
        return ctx.emit("exp", ctx.emit("multiply", power_of, scalar=math.log(base)))
    dtype = ctx.dtype(ctx.node.outputs[0])
    computed = dtype if dtype.is_float else DType.F32  # TTNN raises no integers to powers of another tensor
    powers = ctx.emit("pow", ctx.typecast(ctx.x(0), computed), ctx.typecast(ctx.x(1), computed))
    return ctx.typecast(powers if dtype.is_float else ctx.emit("round", powers), dtype)


def power_scalar(ctx: Lowering, x: str, exponent: float) -> str:
    named = {2.0: "square", 0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}
    if exponent == 1.0:
        return x
    if exponent in named:
        return ctx.emit(named[exponent], x)
    return ctx.emit("pow_scalar", x, exponent=exponent)


def bit_shift(ctx: Lowering) -> str:
    kind = ctx.input(0).dtype
    if kind is not None and kind.is_signed():
        raise NotMappedError("a shift of signed numbers")
    left = str(ctx.attr("direction")) == "LEFT"
    return combine(ctx, "bitwise_left_shift" if left else "logical_right_shift", ctx.input(0), ctx.input(1))


def mod(ctx: Lowering) -> str:
    return combine(ctx, "fmod" if ctx.attr("fmod", 0) else "remainder", ctx.input(0), ctx.input(1))


def clip(ctx: Lowering) -> str:
    rank = len(ctx.shape(0))
    x = ctx.x(0)
    if ctx.opset < 11:
        low, high = ctx.attr("min"), ctx.attr("max")
    else:
        bounds = [ctx.scalar(ctx.input(index), rank) if ctx.has(index) else None for index in (1, 2)]
        for index, op in ((1, "maximum"), (2, "minimum")):
            if ctx.has(index) and bounds[index - 1] is None:
                x = ctx.emit(op, x, ctx.x(index))
        low, high = bounds
    return clamp(ctx, x, low, high)


def clamp(ctx: Lowering, x: str, low: float | None, high: float | None) -> str:
    """Clamp with absent or infinite bounds dropped; [0, 6] and [0, inf) have ops of their own."""
    low = None if low is None or low < -3e38 else low
    high = None if high is None or high > 3e38 else high
    if low is None and high is None:
        return x
    if low == 0 and high is None:
        return ctx.emit("relu", x)
    if low == 0 and high == 6:
        return ctx.emit("relu6", x)
    return ctx.emit("clamp", x, min=low, max=high)


def where(ctx: Lowering) -> str:
    rank = len(ctx.out_shape())
    cond, x, y = ctx.x(0), ctx.scalar(ctx.input(1), rank), ctx.scalar(ctx.input(2), rank)
    condition_rank = len(ctx.shape(0))
    if (x is not None or y is not None) and condition_rank < rank and len(ctx.vshape(cond)) < rank:
        cond = ctx.reshape(cond, (*(1,) * (rank - condition_rank), *ctx.shape(0)))
    dtype = ctx.dtype(ctx.node.outputs[0])
    operands = [ctx.typecast(cond, dtype)]
    attrs: dict[str, Attr] = {}
    for name, scalar, index in (("x", x, 1), ("y", y, 2)):
        if scalar is not None:
            attrs[name] = scalar
        else:
            operands.append(ctx.typecast(ctx.x(index), dtype))
    return ctx.emit("where", *operands, **attrs)


def cast(ctx: Lowering) -> str:
    target, source = ctx.node.outputs[0], ctx.input(0)
    dtype = ctx.dtype(target)
    if target.dtype == ir.DataType.BOOL and source.dtype != ir.DataType.BOOL:
        return ctx.emit("nez", ctx.typecast(ctx.x(0), dtype))
    return ctx.typecast(ctx.x(0), dtype)


def with_alpha(op: str, attribute: str, default: float) -> NodeMapping:
    """An op whose one number ONNX calls `alpha`."""
    return lambda ctx: ctx.emit(op, ctx.x(0), **{attribute: float(ctx.attr("alpha", default))})


def selu(ctx: Lowering) -> str:
    alpha, gamma = float(ctx.attr("alpha", 1.6732632)), float(ctx.attr("gamma", 1.050701))
    if abs(alpha - 1.6732632) < 1e-5 and abs(gamma - 1.050701) < 1e-5:
        return ctx.emit("selu", ctx.x(0))
    return ctx.emit("multiply", ctx.emit("elu", ctx.x(0), alpha=alpha), scalar=gamma)


def thresholded_relu(ctx: Lowering) -> str:
    return ctx.emit("threshold", ctx.x(0), threshold=float(ctx.attr("alpha", 1.0)), value=0.0)


def shrink(ctx: Lowering) -> str:
    """`hardshrink` without a bias, `softshrink` with one of the threshold's size; TTNN has both for floats only."""
    lambd, bias = float(ctx.attr("lambd", 0.5)), float(ctx.attr("bias", 0.0))
    x = ctx.x(0)
    if bias in (0.0, lambd) and ctx.vdtype(x).is_float:
        return ctx.emit("softshrink" if bias else "hardshrink", x, lambd=lambd)
    high = ctx.emit("multiply", ctx.emit("gt", x, scalar=lambd), ctx.emit("add", x, scalar=-bias))
    low = ctx.emit("multiply", ctx.emit("lt", x, scalar=-lambd), ctx.emit("add", x, scalar=bias))
    return ctx.emit("add", high, low)


def hard_sigmoid(ctx: Lowering) -> str:
    alpha, beta = float(ctx.attr("alpha", 0.2)), float(ctx.attr("beta", 0.5))
    if abs(alpha - 1 / 6) < 1e-5 and beta == 0.5:
        return ctx.emit("hardsigmoid", ctx.x(0))
    scaled = ctx.emit("add", ctx.emit("multiply", ctx.x(0), scalar=alpha), scalar=beta)
    return ctx.emit("clamp", scaled, min=0.0, max=1.0)


def gelu(ctx: Lowering) -> str:
    return ctx.emit("gelu_tanh" if ctx.attr("approximate", "none") == "tanh" else "gelu", ctx.x(0))


def swish(ctx: Lowering) -> str:
    alpha = float(ctx.attr("alpha", 1.0))
    if alpha == 1.0:
        return ctx.emit("silu", ctx.x(0))
    return ctx.emit("multiply", ctx.x(0), ctx.emit("sigmoid", ctx.emit("multiply", ctx.x(0), scalar=alpha)))


def prelu(ctx: Lowering) -> str:
    slope = ctx.scalar(ctx.input(1), len(ctx.shape(0)))
    if slope is not None:
        return ctx.emit("leaky_relu", ctx.x(0), negative_slope=float(slope))
    # TTNN's prelu takes one slope per element of dim 1 only, which is not where channels are after a convolution
    x = ctx.x(0)
    return ctx.emit("where", ctx.emit("gtz", x), x, ctx.emit("multiply", x, ctx.x(1)))


def is_inf(ctx: Lowering) -> str:
    x = ctx.x(0)
    positive, negative = ctx.attr("detect_positive", 1), ctx.attr("detect_negative", 1)
    if not positive and not negative:
        return full(ctx, ctx.out_shape() or (1,), 0.0)
    return ctx.emit("isinf" if positive and negative else "isposinf" if positive else "isneginf", x)


def bitwise_not(ctx: Lowering) -> str:
    """Of short unsigned integers all bits of their own width, as they are held in 32."""
    width = {ir.DataType.UINT8: 8, ir.DataType.UINT16: 16}.get(ctx.input(0).dtype or ir.DataType.INT32)
    x = ctx.x(0)
    if width is None:
        return ctx.emit("bitwise_not", x)
    turned = ctx.emit("bitwise_xor", ctx.typecast(x, DType.I32), scalar=(1 << width) - 1)
    return ctx.typecast(turned, ctx.vdtype(x))


def identity(ctx: Lowering) -> list[str | None]:
    """Identity, and Dropout at inference (its mask is all ones)."""
    if ctx.has(2) and ctx.need_const(2, "training mode").any():
        raise NotMappedError("Dropout in training mode")
    outputs: list[str | None] = [ctx.x(0)]
    if len(ctx.node.outputs) > 1:
        mask = ctx.node.outputs[1]
        wanted = ctx.is_needed(mask)
        outputs.append(ctx.constant(filled(ctx, ctx.shape(0), 1.0), ctx.float_dtype, "mask") if wanted else None)
    return outputs


OPS: dict[str, NodeMapping] = {
    **{name: _unary(op) for name, op in UNARY.items()},
    **{name: _binary(op) for name, op in BINARY.items()},
    "Div": div,
    "Sum": variadic("add"),
    "Max": variadic("maximum"),
    "Min": variadic("minimum"),
    "Mean": mean,
    "Pow": power,
    "Mod": mod,
    "Clip": clip,
    "BitwiseNot": bitwise_not,
    "Where": where,
    "Cast": cast,
    "CastLike": cast,
    "LeakyRelu": with_alpha("leaky_relu", "negative_slope", 0.01),
    "Elu": with_alpha("elu", "alpha", 1.0),
    "Celu": with_alpha("celu", "alpha", 1.0),
    "Selu": selu,
    "ThresholdedRelu": thresholded_relu,
    "Shrink": shrink,
    "HardSigmoid": hard_sigmoid,
    "Gelu": gelu,
    "Swish": swish,
    "PRelu": prelu,
    "IsInf": is_inf,
    "BitShift": bit_shift,
    "Identity": identity,
    "Dropout": identity,
}
