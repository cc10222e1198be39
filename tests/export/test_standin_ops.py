"""Every op of the stand-in of ttnn against onnxruntime: one small model of ONNX ops each.

The golden functions of the wheel need torch, which is no dependency here; onnxruntime is the judge instead.
"""

# ruff: noqa: ARG005
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from net import Net, ints
from onnx import helper, numpy_helper
from program_witness import agreement
from ttnn_standin import Array, Standin, Tensor
from witness import run_onnx

Call = Callable[..., Any]
"""(ttnn, device, operands) -> result."""
Nodes = Callable[..., Any]
"""(net, names of the inputs) -> name of the output."""


def normal(*shape: int) -> Array:
    return np.random.default_rng(list(shape)).standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> Array:
    return np.abs(normal(*shape)) + np.float32(0.1)


def small(*shape: int) -> Array:
    return np.tanh(normal(*shape)) * np.float32(0.9)


def whole(top: int, *shape: int) -> Array:
    return np.random.default_rng([top, *shape]).integers(0, top, shape)


def reference(nodes: Nodes, operands: Sequence[Array], opset: int = 20) -> Array:
    """What onnxruntime makes of a few nodes."""
    net = Net()
    names = [f"x{k}" for k in range(len(operands))]
    out = nodes(net, *names)
    kinds = [helper.np_dtype_to_tensor_dtype(x.dtype) for x in operands]
    given = [helper.make_tensor_value_info(n, k, x.shape) for n, k, x in zip(names, kinds, operands, strict=True)]
    weights = [numpy_helper.from_array(array, name) for name, array in net.weights.items()]
    graph = helper.make_graph(net.nodes, "op", given, [onnx.ValueInfoProto(name=out)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    return run_onnx(model, {}, dict(zip(names, operands, strict=True)))[0]


def called(call: Call, operands: Sequence[Array], row_major: bool = False) -> Array:
    """What the stand-in makes of a call with these operands on the device."""
    standin = Standin()
    t, device = standin.ttnn, standin.device
    page = t.ROW_MAJOR_LAYOUT if row_major else t.TILE_LAYOUT
    tensors = []
    for array in operands:
        kind = t.float32 if array.dtype == np.float32 else t.int32
        fed = array if array.dtype == np.float32 else array.astype(np.int32)
        tensors.append(t.Tensor(fed, kind, device, page, t.DRAM_MEMORY_CONFIG))
    made = call(t, device, *tensors)
    assert isinstance(made, Tensor)
    return made.read()


def check(call: Call, nodes: Nodes, operands: Sequence[Array], row_major: bool = False) -> None:
    want, got = reference(nodes, operands), called(call, operands, row_major)
    want = want.astype(np.float32) if want.dtype == bool else want
    assert got.shape == want.shape
    found = agreement(want, got)
    assert np.array_equal(want, got) or found.error < 2e-6, str(found)


# -- elementwise -------------------------------------------------------------------------------------------
UNARY: dict[str, tuple[str, dict[str, Any], Callable[..., Array]]] = {
    "relu": ("Relu", {}, normal), "gelu": ("Gelu", {}, normal), "sigmoid": ("Sigmoid", {}, normal),
    "tanh": ("Tanh", {}, normal), "exp": ("Exp", {}, normal), "sqrt": ("Sqrt", {}, positive),
    "neg": ("Neg", {}, normal), "abs": ("Abs", {}, normal), "log": ("Log", {}, positive),
    "reciprocal": ("Reciprocal", {}, positive), "sin": ("Sin", {}, normal), "cos": ("Cos", {}, normal),
    "tan": ("Tan", {}, small), "asin": ("Asin", {}, small), "acos": ("Acos", {}, small),
    "atan": ("Atan", {}, normal), "sinh": ("Sinh", {}, normal), "cosh": ("Cosh", {}, normal),
    "erf": ("Erf", {}, normal), "softsign": ("Softsign", {}, normal), "mish": ("Mish", {}, normal),
    "hardswish": ("HardSwish", {}, normal), "hardsigmoid": ("HardSigmoid", {"alpha": 1 / 6}, normal),
    "selu": ("Selu", {}, normal), "floor": ("Floor", {}, normal), "ceil": ("Ceil", {}, normal),
    "round": ("Round", {}, normal), "sign": ("Sign", {}, normal), "asinh": ("Asinh", {}, normal),
    "atanh": ("Atanh", {}, small), "isnan": ("IsNaN", {}, normal), "isinf": ("IsInf", {}, normal),
    "softplus": ("Softplus", {}, normal),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary_ops(name: str) -> None:
    kind, attributes, data = UNARY[name]
    check(lambda t, d, x: getattr(t, name)(x), lambda net, x: net(kind, x, **attributes), [data(2, 5, 33)])


FORMULAS: dict[str, tuple[Call, Nodes, list[Array]]] = {
    "silu": (lambda t, d, x: t.silu(x), lambda n, x: n("Mul", x, n("Sigmoid", x)), [normal(3, 7)]),
    "rsqrt": (lambda t, d, x: t.rsqrt(x), lambda n, x: n("Reciprocal", n("Sqrt", x)), [positive(3, 7)]),
    "square": (lambda t, d, x: t.square(x), lambda n, x: n("Mul", x, x), [normal(3, 7)]),
    "nez": (lambda t, d, x: t.nez(x), lambda n, x: n("Cast", n("Cast", x, to=9), to=1), [np.round(normal(3, 7))]),
    "gez and others": (
        lambda t, d, x: t.add(t.gtz(x), t.ltz(x)),
        lambda n, x: n("Abs", n("Sign", x)),
        [np.round(normal(3, 7))],
    ),
    "relu6": (lambda t, d, x: t.relu6(x), lambda n, x: n("Clip", x, np.float32(0), np.float32(6)), [4 * normal(3, 7)]),
    "leaky_relu": (
        lambda t, d, x: t.leaky_relu(x, 0.3), lambda n, x: n("LeakyRelu", x, alpha=0.3), [normal(3, 7)]
    ),
    "elu": (lambda t, d, x: t.elu(x, alpha=0.7), lambda n, x: n("Elu", x, alpha=0.7), [normal(3, 7)]),
    "celu": (lambda t, d, x: t.celu(x, alpha=0.7), lambda n, x: n("Celu", x, alpha=0.7), [normal(3, 7)]),
    "clamp": (
        lambda t, d, x: t.clamp(x, -0.5, 0.25), lambda n, x: n("Clip", x, np.float32(-0.5), np.float32(0.25)),
        [normal(3, 7)],
    ),
    "threshold": (
        lambda t, d, x: t.threshold(x, 0.4, 0.0), lambda n, x: n("ThresholdedRelu", x, alpha=0.4), [normal(3, 7)]
    ),
    "rsub": (lambda t, d, x: t.rsub(x, 2.0), lambda n, x: n("Sub", np.float32(2), x), [normal(3, 7)]),
    "rdiv": (lambda t, d, x: t.rdiv(x, 2.0), lambda n, x: n("Div", np.float32(2), x), [positive(3, 7)]),
    "pow of a number": (lambda t, d, x: t.pow(x, 3.0), lambda n, x: n("Pow", x, np.float32(3)), [normal(3, 7)]),
    "rows broadcast": (
        lambda t, d, x, y: t.subtract(x, y), lambda n, x, y: n("Sub", x, y), [normal(2, 5, 7), normal(7)]
    ),
    "columns broadcast": (
        lambda t, d, x, y: t.divide(x, y), lambda n, x, y: n("Div", x, y), [normal(2, 5, 7), positive(5, 1)]
    ),
    "activations on both sides": (
        lambda t, d, x, y: t.multiply(
            x, y, input_tensor_a_activations=[t.UnaryWithParam(t.UnaryOpType.SILU)],
            activations=[t.UnaryWithParam(t.UnaryOpType.RELU)],
        ),
        lambda n, x, y: n("Relu", n("Mul", n("Mul", x, n("Sigmoid", x)), y)),
        [normal(3, 7), normal(3, 7)[::-1].copy()],
    ),
    "squared_difference": (
        lambda t, d, x, y: t.squared_difference(x, y), lambda n, x, y: n("Pow", n("Sub", x, y), np.float32(2)),
        [normal(3, 7), normal(7)],
    ),
    "where": (
        lambda t, d, c, x, y: t.where(c, x, y), lambda n, c, x, y: n("Where", n("Cast", c, to=9), x, y),
        [np.sign(np.round(normal(3, 7))), normal(3, 7) + 1, normal(7)],
    ),
    "where of numbers": (
        lambda t, d, c: t.where(c, 0.0, -2.5),
        lambda n, c: n("Where", n("Cast", c, to=9), np.float32(0), np.float32(-2.5)), [np.round(normal(3, 7))],
    ),
    "typecast": (
        lambda t, d, x: t.typecast(x, t.int32), lambda n, x: n("Cast", x, to=6), [3 * normal(3, 7)]
    ),
    "addcmul": (
        lambda t, d, x, y, z: t.addcmul(x, y, z, value=0.5),
        lambda n, x, y, z: n("Add", x, n("Mul", n("Mul", y, z), np.float32(0.5))),
        [normal(3, 7), normal(1, 7), normal(3, 1)],
    ),
    "tril": (
        lambda t, d, x: t.tril(x, diagonal=1), lambda n, x: n("Trilu", x, np.int64(1), upper=0), [normal(4, 5)]
    ),
    "triu": (
        lambda t, d, x: t.triu(x, diagonal=-1), lambda n, x: n("Trilu", x, np.int64(-1), upper=1), [normal(4, 5)]
    ),
}  # fmt: skip

LN10, LN2 = np.float32(np.log(10.0)), np.float32(np.log(2.0))
SIGNED_INFINITY = np.array([[np.inf, -np.inf, 0.0, 2.0]], np.float32)
MORE: dict[str, tuple[Nodes, list[Array]]] = {
    "acosh": (lambda n, x: n("Acosh", x), [1 + positive(3, 7)]),
    "cbrt": (lambda n, x: n("Pow", x, np.float32(1 / 3)), [positive(3, 7)]),
    "erfc": (lambda n, x: n("Sub", np.float32(1), n("Erf", x)), [normal(3, 7)]),
    "exp2": (lambda n, x: n("Pow", np.float32(2), x), [normal(3, 7)]),
    "expm1": (lambda n, x: n("Sub", n("Exp", x), np.float32(1)), [normal(3, 7)]),
    "log1p": (lambda n, x: n("Log", n("Add", x, np.float32(1))), [positive(3, 7)]),
    "log2": (lambda n, x: n("Div", n("Log", x), LN2), [positive(3, 7)]),
    "log10": (lambda n, x: n("Div", n("Log", x), LN10), [positive(3, 7)]),
    "frac": (lambda n, x: n("Mod", x, np.float32(1), fmod=1), [3 * normal(3, 7)]),
    "trunc": (lambda n, x: n("Mul", n("Sign", x), n("Floor", n("Abs", x))), [3 * normal(3, 7)]),
    "hardtanh": (lambda n, x: n("Clip", x, np.float32(-1), np.float32(1)), [normal(3, 7)]),
    "identity": (lambda n, x: n("Identity", x), [normal(3, 7)]),
    "eqz": (lambda n, x: n("Not", n("Cast", x, to=9)), [np.round(normal(3, 7))]),
    "logical_not": (lambda n, x: n("Not", n("Cast", x, to=9)), [np.round(normal(3, 7))]),
    "gtz": (lambda n, x: n("Greater", x, np.float32(0)), [np.round(normal(3, 7))]),
    "ltz": (lambda n, x: n("Less", x, np.float32(0)), [np.round(normal(3, 7))]),
    "isposinf": (lambda n, x: n("IsInf", x, detect_negative=0), [SIGNED_INFINITY]),
    "isneginf": (lambda n, x: n("IsInf", x, detect_positive=0), [SIGNED_INFINITY]),
    "ne": (lambda n, x, y: n("Not", n("Equal", x, y)), [np.round(normal(3, 7)), np.round(normal(7))]),
    "fmod": (lambda n, x, y: n("Mod", x, y, fmod=1), [3 * normal(3, 7), positive(7)]),
    "remainder": (lambda n, x, y: n("Mod", x, y), [whole(50, 3, 7) - 25, whole(9, 7) + 1]),
    "bitwise_and": (lambda n, x, y: n("BitwiseAnd", x, y), [whole(50, 3, 7), whole(50, 7)]),
    "bitwise_or": (lambda n, x, y: n("BitwiseOr", x, y), [whole(50, 3, 7), whole(50, 7)]),
    "bitwise_xor": (lambda n, x, y: n("BitwiseXor", x, y), [whole(50, 3, 7), whole(50, 7)]),
    "bitwise_not": (lambda n, x: n("BitwiseNot", x), [whole(50, 3, 7)]),
    "bitwise_left_shift": (lambda n, x, y: n("Mul", x, n("Pow", np.int64(2), y)), [whole(50, 3, 7), whole(5, 7)]),
    "logical_right_shift": (lambda n, x, y: n("Div", x, n("Pow", np.int64(2), y)), [whole(50, 3, 7), whole(5, 7)]),
    "mac": (lambda n, x, y, z: n("Add", n("Mul", x, y), z), [normal(3, 7), normal(1, 7), normal(3, 1)]),
    "lerp": (
        lambda n, x, y, z: n("Add", x, n("Mul", z, n("Sub", y, x))), [normal(3, 7), normal(1, 7), normal(3, 1)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MORE)
def test_further_elementwise_ops(name: str) -> None:
    nodes, operands = MORE[name]
    check(lambda t, d, *x: getattr(t, name)(*x), nodes, operands)


BINARY = {
    "add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "maximum": "Max", "minimum": "Min",
    "pow": "Pow", "eq": "Equal", "lt": "Less", "gt": "Greater", "le": "LessOrEqual", "ge": "GreaterOrEqual",
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_binary_ops(name: str) -> None:
    operands = [np.round(2 * positive(2, 5, 7)), np.round(2 * positive(5, 7)) + 1]
    check(lambda t, d, x, y: getattr(t, name)(x, y), lambda net, x, y: net(BINARY[name], x, y), operands)


@pytest.mark.parametrize(("name", "kind"), [("logical_and", "And"), ("logical_or", "Or"), ("logical_xor", "Xor")])
def test_logical_ops(name: str, kind: str) -> None:
    def nodes(net: Net, x: str, y: str) -> Any:
        return net(kind, net("Cast", x, to=9), net("Cast", y, to=9))

    check(lambda t, d, x, y: getattr(t, name)(x, y), nodes, [np.round(normal(5, 7)), np.round(normal(7))])


@pytest.mark.parametrize("name", FORMULAS)
def test_elementwise_formulas(name: str) -> None:
    check(*FORMULAS[name])


# -- products, norms, reductions ---------------------------------------------------------------------------
def relu_of(*, transpose_b: bool) -> Call:
    def call(t: Any, d: Any, x: Tensor, y: Tensor, bias: Tensor) -> Any:
        return t.linear(x, y, bias=bias, transpose_b=transpose_b, activation="relu")

    return call


def attention(n: Net, q: str, k: str, v: str, mask: str) -> Any:
    scores = n("Add", n("Mul", n("MatMul", q, n("Transpose", k, perm=[0, 1, 3, 2])), np.float32(0.3)), mask)
    return n("MatMul", n("Softmax", scores, axis=-1), v)


def rms(n: Net, x: str, weight: str) -> Any:
    mean = n("ReduceMean", n("Mul", x, x), ints(-1))
    return n("Mul", n("Div", x, n("Sqrt", n("Add", mean, np.float32(1e-2)))), weight)


def rotated(n: Net, x: str, cos: str, sin: str) -> Any:
    low, high = n("Split", x, axis=-1, num_outputs=2, count=2)
    turned = n("Concat", n("Neg", high), low, axis=-1)
    return n("Add", n("Mul", x, cos), n("Mul", turned, sin))


def heads(which: int) -> Nodes:
    """Queries, keys or values of 4 heads of queries and 2 of the others, 8 wide."""
    begin, end, count = ((0, 32, 4), (32, 48, 2), (48, 64, 2))[which]

    def nodes(n: Net, x: str) -> Any:
        part = n("Reshape", n("Slice", x, ints(begin), ints(end), ints(2)), ints(2, 6, count, 8))
        return n("Transpose", part, perm=[0, 2, 1, 3])

    return nodes


def split_heads(which: int) -> Call:
    def call(t: Any, d: Any, x: Tensor) -> Any:
        return t.transformer.split_query_key_value_and_split_heads(x, num_heads=4, num_kv_heads=2, transpose_key=False)[
            which
        ]

    return call


COMPUTED: dict[str, tuple[Call, Nodes, list[Array]]] = {
    "matmul": (
        lambda t, d, x, y: t.matmul(x, y), lambda n, x, y: n("MatMul", x, y), [normal(2, 3, 5, 7), normal(7, 4)]
    ),
    "matmul transposed": (
        lambda t, d, x, y: t.matmul(x, y, transpose_a=True, transpose_b=True),
        lambda n, x, y: n("MatMul", n("Transpose", x, perm=[1, 0]), n("Transpose", y, perm=[1, 0])),
        [normal(7, 5), normal(4, 7)],
    ),
    "linear": (relu_of(transpose_b=False), lambda n, x, y, b: n("Relu", n("Gemm", x, y, b)),
               [normal(5, 7), normal(7, 4), normal(1, 4)]),
    "linear transposed": (relu_of(transpose_b=True), lambda n, x, y, b: n("Relu", n("Gemm", x, y, b, transB=1)),
                          [normal(5, 7), normal(4, 7), normal(1, 4)]),
    "softmax": (lambda t, d, x: t.softmax(x, dim=1), lambda n, x: n("Softmax", x, axis=1), [5 * normal(2, 5, 7)]),
    "layer_norm": (
        lambda t, d, x, w, b: t.layer_norm(x, epsilon=1e-2, weight=w, bias=b),
        lambda n, x, w, b: n("LayerNormalization", x, w, b, epsilon=1e-2), [normal(2, 5, 7), normal(7), positive(7)],
    ),
    "rms_norm": (lambda t, d, x, w: t.rms_norm(x, epsilon=1e-2, weight=w), rms, [normal(2, 5, 7), normal(7)]),
    "batch_norm": (
        lambda t, d, x, w, b, m, v: t.batch_norm(x, running_mean=m, running_var=v, weight=w, bias=b, eps=1e-2),
        lambda n, x, w, b, m, v: n("BatchNormalization", x, *(n("Reshape", p, ints(3)) for p in (w, b, m, v)),
                                   epsilon=1e-2),
        [normal(2, 3, 4, 5), normal(1, 3, 1, 1), positive(1, 3, 1, 1), normal(1, 3, 1, 1) / 2, positive(1, 3, 1, 1)],
    ),
    "sum": (lambda t, d, x: t.sum(x, dim=[1, -1], keepdim=True), lambda n, x: n("ReduceSum", x, ints(1, 2)),
            [normal(2, 5, 7)]),
    "mean": (lambda t, d, x: t.mean(x, dim=1), lambda n, x: n("ReduceMean", x, ints(1), keepdims=0), [normal(2, 5, 7)]),
    "max": (lambda t, d, x: t.max(x, dim=-1, keepdim=True), lambda n, x: n("ReduceMax", x, ints(2)), [normal(2, 5, 7)]),
    "min": (lambda t, d, x: t.min(x, dim=0, keepdim=True), lambda n, x: n("ReduceMin", x, ints(0)), [normal(2, 5, 7)]),
    "prod": (lambda t, d, x: t.prod(x, dim=1, keepdim=True), lambda n, x: n("ReduceProd", x, ints(1)),
             [normal(2, 5, 7)]),
    "argmax": (lambda t, d, x: t.argmax(x, dim=-1, keepdim=True), lambda n, x: n("ArgMax", x, axis=-1),
               [normal(2, 5, 7)]),
    "topk values": (lambda t, d, x: t.topk(x, 3, dim=-1)[0], lambda n, x: n("TopK", x, ints(3), count=2)[0],
                    [normal(2, 5, 7)]),
    "topk indices": (lambda t, d, x: t.topk(x, 3, dim=1, largest=False)[1],
                     lambda n, x: n("TopK", x, ints(3), count=2, axis=1, largest=0)[1], [normal(2, 5, 7)]),
    "cumsum": (lambda t, d, x: t.cumsum(x, 1, reverse_order=True),
               lambda n, x: n("CumSum", x, np.int64(1), reverse=1), [normal(2, 5, 7)]),
    "attention": (
        lambda t, d, q, k, v, m: t.transformer.scaled_dot_product_attention(
            q, k, v, attn_mask=t.fill_implicit_tile_padding(m, -1e9), is_causal=False, scale=0.3),
        attention, [normal(2, 3, 5, 8), normal(2, 3, 6, 8), normal(2, 3, 6, 8)[::-1].copy(), normal(2, 1, 5, 6)],
    ),
    "causal attention": (
        lambda t, d, q, k, v, m: t.transformer.scaled_dot_product_attention(q, k, v, scale=0.3),
        attention, [normal(1, 2, 5, 8), normal(1, 2, 5, 8)[..., ::-1].copy(), normal(1, 2, 5, 8)[:, ::-1].copy(),
                    np.triu(np.full((1, 1, 5, 5), -1e9, np.float32), 1)],
    ),
    "queries": (split_heads(0), heads(0), [normal(2, 6, 64)]),
    "keys": (split_heads(1), heads(1), [normal(2, 6, 64)]),
    "values": (split_heads(2), heads(2), [normal(2, 6, 64)]),
    "nlp_create_qkv_heads": (
        lambda t, d, x: t.experimental.nlp_create_qkv_heads(
            t.unsqueeze(x, 1), num_heads=4, num_kv_heads=2, transpose_k_heads=True)[1],
        lambda n, x: n("Transpose", heads(1)(n, x), perm=[0, 1, 3, 2]), [normal(2, 6, 64)],
    ),
    "concatenate_heads": (
        lambda t, d, x: t.transformer.concatenate_heads(x),
        lambda n, x: n("Reshape", n("Transpose", x, perm=[0, 2, 1, 3]), ints(2, 5, 24)), [normal(2, 3, 5, 8)],
    ),
    "nlp_concat_heads": (
        lambda t, d, x: t.experimental.nlp_concat_heads(x),
        lambda n, x: n("Reshape", n("Transpose", x, perm=[0, 2, 1, 3]), ints(2, 1, 5, 24)), [normal(2, 3, 5, 8)],
    ),
    "attention_softmax": (
        lambda t, d, x, m: t.transformer.attention_softmax(x, head_size=4, attention_mask=m),
        lambda n, x, m: n("Softmax", n("Add", n("Div", x, np.float32(2)), m), axis=-1),
        [normal(2, 3, 5, 6), normal(2, 1, 1, 6)],
    ),
    "rotary_embedding": (lambda t, d, x, c, s: t.experimental.rotary_embedding(x, c, s), rotated,
                         [normal(2, 3, 5, 8), normal(1, 1, 5, 8), normal(1, 1, 5, 8)[..., ::-1].copy()]),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPUTED)
def test_products_norms_reductions_and_attention(name: str) -> None:
    check(*COMPUTED[name])


@pytest.mark.parametrize("inplace", [None, False])
def test_group_norm(inplace: bool | None) -> None:
    def call(t: Any, d: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Any:
        rows = [t.reshape(p, (1, 1, 2, 32)) for p in (weight, bias)]
        named = {} if inplace is None else {"inplace": inplace}
        return t.group_norm(x, num_groups=4, epsilon=1e-2, weight=rows[0], bias=rows[1], **named)

    def nodes(n: Net, x: str, weight: str, bias: str) -> Any:
        image = n("Transpose", x, perm=[0, 3, 1, 2])
        grouped = n("InstanceNormalization", n("Reshape", image, ints(2, 4, -1)), np.ones(4, np.float32),
                    np.zeros(4, np.float32), epsilon=1e-2)  # fmt: skip
        made = n("Transpose", n("Reshape", grouped, ints(2, 64, 1, 9)), perm=[0, 2, 3, 1])
        return n("Add", n("Mul", made, weight), bias)

    check(call, nodes, [normal(2, 1, 9, 64), normal(64), positive(64)], row_major=True)


# -- images ------------------------------------------------------------------------------------------------
def to_rows(t: Any, x: Tensor) -> Any:
    """[N, C, H, W] to [1, 1, N H W, C]."""
    return t.reshape(t.permute(x, (0, 2, 3, 1)), (1, 1, -1, x.shape[1]))


def to_image(t: Any, x: Tensor, batch: int, height: int) -> Any:
    """[1, 1, N H W, C] to [N, C, H, W]."""
    return t.permute(t.reshape(x, (batch, height, -1, x.shape[-1])), (0, 3, 1, 2))


CONVS: dict[str, tuple[dict[str, Any], int, int, int]] = {
    "same": ({"kernel": (3, 3), "padding": (1, 1, 1, 1)}, 6, 4, 1),
    "uneven padding and strides": ({"kernel": (3, 2), "padding": (0, 2, 1, 0), "stride": (2, 1)}, 6, 4, 1),
    "dilated": ({"kernel": (3, 3), "padding": (2, 2, 2, 2), "dilation": (2, 2)}, 6, 4, 1),
    "grouped": ({"kernel": (3, 3), "padding": (1, 1, 1, 1)}, 6, 4, 2),
    "depthwise": ({"kernel": (3, 3), "padding": (1, 1, 1, 1), "stride": (2, 2)}, 6, 6, 6),
    "pointwise": ({"kernel": (1, 1), "padding": (0, 0, 0, 0)}, 6, 4, 1),
    "patches": ({"kernel": (4, 4), "padding": (0, 0, 0, 0), "stride": (4, 4)}, 3, 8, 1),
}
"""Geometry, channels in and out, groups."""


def conv_keywords(geometry: dict[str, Any], channels: tuple[int, int], groups: int) -> dict[str, Any]:
    return {
        "in_channels": channels[0], "out_channels": channels[1], "batch_size": 2, "input_height": 9,
        "input_width": 8, "kernel_size": geometry["kernel"], "stride": geometry.get("stride", (1, 1)),
        "padding": geometry["padding"], "dilation": geometry.get("dilation", (1, 1)), "groups": groups,
    }  # fmt: skip


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("name", CONVS)
def test_convolutions(name: str, prepared: bool) -> None:
    geometry, inputs, outputs, groups = CONVS[name]
    weight, bias = normal(outputs, inputs // groups, *geometry["kernel"]), normal(1, 1, 1, outputs)
    image = normal(2, inputs, 9, 8)

    def nodes(n: Net, x: str) -> Any:
        top, bottom, left, right = geometry["padding"]
        steps = {"strides": geometry.get("stride", (1, 1)), "dilations": geometry.get("dilation", (1, 1))}
        pads = [top, left, bottom, right]
        return n("Relu", n("Conv", x, weight, bias.reshape(-1), pads=pads, group=groups, **steps))

    want = reference(nodes, [image])

    def call(t: Any, device: Any, x: Tensor) -> Any:
        rows = to_rows(t, x)
        w, b = t.Tensor(weight, t.float32), t.Tensor(bias, t.float32)
        config = t.Conv2dConfig(weights_dtype=t.float32, activation=t.UnaryWithParam(t.UnaryOpType.RELU))
        named = conv_keywords(geometry, (inputs, outputs), groups)
        if prepared:
            told = {"input_memory_config": t.DRAM_MEMORY_CONFIG, "input_layout": t.TILE_LAYOUT, **named,
                    "device": device, "input_dtype": t.float32, "conv_config": config}  # fmt: skip
            w = t.prepare_conv_weights(weight_tensor=w, weights_format="OIHW", has_bias=True, **told)
            b = t.prepare_conv_bias(bias_tensor=b, **told)
        made = t.conv2d(input_tensor=rows, weight_tensor=w, bias_tensor=b, device=device, **named,
                        conv_config=config, memory_config=t.DRAM_MEMORY_CONFIG)  # fmt: skip
        return to_image(t, made, 2, want.shape[2])

    assert agreement(want, called(call, [image])).error < 2e-6


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("more", [0, 1])
def test_transposed_convolutions(more: int, groups: int) -> None:
    weight, bias, image = normal(6, 4 // groups, 3, 3), normal(1, 1, 1, 4), normal(2, 6, 9, 8)

    def nodes(n: Net, x: str) -> Any:
        return n("ConvTranspose", x, weight, bias.reshape(-1), pads=[1, 0, 1, 0], strides=[2, 2], group=groups,
                 output_padding=[more, more])  # fmt: skip

    want = reference(nodes, [image])

    def call(t: Any, device: Any, x: Tensor) -> Any:
        geometry = {"kernel": (3, 3), "padding": (1, 0), "stride": (2, 2)}
        made = t.conv_transpose2d(
            input_tensor=to_rows(t, x), weight_tensor=t.Tensor(weight, t.float32), device=device,
            bias_tensor=t.Tensor(bias, t.float32), **conv_keywords(geometry, (6, 4), groups),
            output_padding=(more, more), memory_config=t.DRAM_MEMORY_CONFIG,
        )  # fmt: skip
        return to_image(t, made, 2, want.shape[2])

    assert agreement(want, called(call, [image])).error < 2e-6


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize(("stride", "padding"), [((2, 2), (1, 1)), ((1, 2), (0, 1)), ((2, 3), (1, 0))])
@pytest.mark.parametrize("kind", ["max", "avg", "avg of what is there"])
def test_pools(kind: str, stride: tuple[int, int], padding: tuple[int, int], ceil: bool) -> None:
    image = normal(2, 3, 9, 8)
    high, wide = padding
    named: dict[str, Any] = {"kernel_shape": [3, 3], "strides": list(stride), "pads": [high, wide, high, wide]}
    if kind == "avg":
        named["count_include_pad"] = 1
    op = "MaxPool" if kind == "max" else "AveragePool"
    want = reference(lambda n, x: n(op, x, ceil_mode=int(ceil), **named), [image])

    def call(t: Any, d: Any, x: Tensor) -> Any:
        given: dict[str, Any] = {"dilation": [1, 1]} if kind == "max" else {"count_include_pad": kind == "avg"}
        made = getattr(t, "max_pool2d" if kind == "max" else "avg_pool2d")(
            input_tensor=to_rows(t, x), batch_size=2, input_h=9, input_w=8, channels=3, kernel_size=[3, 3],
            stride=list(stride), padding=list(padding), ceil_mode=ceil, memory_config=t.DRAM_MEMORY_CONFIG,
            dtype=t.float32, **given,
        )  # fmt: skip
        return to_image(t, made, 2, want.shape[2])

    assert agreement(want, called(call, [image])).error < 2e-6


@pytest.mark.parametrize(("mode", "theirs"), [("nearest", "nearest"), ("bilinear", "linear")])
def test_upsampling(mode: str, theirs: str) -> None:
    def nodes(n: Net, x: str) -> Any:
        named = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"} if mode == "nearest" else {}
        made = n("Resize", n("Transpose", x, perm=[0, 3, 1, 2]), "", np.float32([1, 1, 2, 3]), mode=theirs, **named)
        return n("Transpose", made, perm=[0, 2, 3, 1])

    check(lambda t, d, x: t.upsample(x, [2, 3], mode=mode), nodes, [normal(2, 4, 5, 3)], row_major=True)


def test_global_average() -> None:
    check(
        lambda t, d, x: t.global_avg_pool2d(x),
        lambda n, x: n("ReduceMean", x, ints(1, 2)),
        [normal(2, 4, 5, 3)],
    )


# -- movement and creation ---------------------------------------------------------------------------------
MOVED: dict[str, tuple[Call, Nodes, list[Array]]] = {
    "reshape": (lambda t, d, x: t.reshape(x, (5, -1)), lambda n, x: n("Reshape", x, ints(5, 14)), [normal(2, 5, 7)]),
    "unsqueeze": (lambda t, d, x: t.unsqueeze(x, -2), lambda n, x: n("Unsqueeze", x, ints(-2)), [normal(2, 5, 7)]),
    "permute": (lambda t, d, x: t.permute(x, (2, 0, 1)), lambda n, x: n("Transpose", x, perm=[2, 0, 1]),
                [normal(2, 5, 7)]),
    "transpose": (lambda t, d, x: t.transpose(x, 0, -1), lambda n, x: n("Transpose", x, perm=[2, 1, 0]),
                  [normal(2, 5, 7)]),
    "concat": (lambda t, d, x, y: t.concat([x, y], dim=1), lambda n, x, y: n("Concat", x, y, axis=1),
               [normal(2, 5, 7), normal(2, 3, 7)]),
    "slice": (
        lambda t, d, x: t.slice(x, [0, 1, 2], [2, 5, 7], [1, 2, 3]),
        lambda n, x: n("Slice", x, ints(0, 1, 2), ints(2, 5, 7), ints(0, 1, 2), ints(1, 2, 3)), [normal(2, 5, 7)],
    ),
    "split by a size": (lambda t, d, x: t.split(x, 3, 2)[2],
                        lambda n, x: n("Split", x, ints(3, 3, 1), axis=2, count=3)[2], [normal(2, 5, 7)]),
    "split by sizes": (lambda t, d, x: t.split(x, [1, 4], 1)[1],
                       lambda n, x: n("Split", x, ints(1, 4), axis=1, count=2)[1], [normal(2, 5, 7)]),
    "pad": (lambda t, d, x: t.pad(x, [(0, 1), (0, 2), (0, 3)], 0.5),
            lambda n, x: n("Pad", x, ints(0, 0, 0, 1, 2, 3), np.float32(0.5)), [normal(2, 5, 7)]),
    "repeat": (lambda t, d, x: t.repeat(x, (2, 1, 3)), lambda n, x: n("Tile", x, ints(2, 1, 3)), [normal(2, 5, 7)]),
    "repeat_interleave": (
        lambda t, d, x: t.repeat_interleave(x, 3, 1),
        lambda n, x: n("Reshape", n("Tile", n("Unsqueeze", x, ints(2)), ints(1, 1, 3, 1)), ints(2, 15, 7)),
        [normal(2, 5, 7)],
    ),
    "gather": (lambda t, d, x, i: t.gather(x, 1, i), lambda n, x, i: n("GatherElements", x, i, axis=1),
               [normal(2, 5, 7), whole(5, 2, 3, 7)]),
    "scatter": (
        lambda t, d, x, i, y: t.scatter(x, 1, i, y), lambda n, x, i, y: n("ScatterElements", x, i, y, axis=1),
        [normal(2, 5, 7), np.argsort(normal(2, 5, 7), axis=1)[:, :3], normal(2, 3, 7)],
    ),
    "scatter_add": (
        lambda t, d, x, i, y: t.scatter_add(x, 1, i, y),
        lambda n, x, i, y: n("ScatterElements", x, i, y, axis=1, reduction="add"),
        [normal(2, 5, 7), whole(5, 2, 3, 7), normal(2, 3, 7)],
    ),
    "arange": (lambda t, d, x: t.arange(2, 12, 3, dtype=t.int32, device=d),
               lambda n, x: n("Range", np.int64(2), np.int64(12), np.int64(3)), [normal(1, 1)]),
    "full": (lambda t, d, x: t.full((2, 3), 1.5, dtype=t.float32, device=d),
             lambda n, x: n("Expand", np.float32(1.5), ints(2, 3)), [normal(1, 1)]),
    "full_like": (lambda t, d, x: t.full_like(x, 1.5), lambda n, x: n("Expand", np.float32(1.5), ints(2, 3)),
                  [normal(2, 3)]),
    "zeros and ones": (
        lambda t, d, x: t.add(t.ones((2, 3), dtype=t.float32, device=d), t.zeros((3,), dtype=t.float32, device=d)),
        lambda n, x: n("Expand", np.float32(1), ints(2, 3)), [normal(1, 1)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_movement_and_creation(name: str) -> None:
    check(*MOVED[name])


def test_embedding() -> None:
    def call(t: Any, d: Any, i: Tensor, table: Tensor) -> Any:
        return t.embedding(i, table, layout=t.TILE_LAYOUT)

    check(call, lambda n, i, table: n("Gather", table, i), [whole(9, 2, 5), normal(9, 7)], row_major=True)


def test_places_and_page_layouts_keep_elements() -> None:
    def call(t: Any, d: Any, x: Tensor) -> Any:
        grid = t.CoreRangeSet([t.CoreRange(t.CoreCoord(0, 0), t.CoreCoord(1, 0))])
        spec = t.ShardSpec(grid, [32, 32], t.ShardOrientation.ROW_MAJOR)
        shards = t.MemoryConfig(t.TensorMemoryLayout.HEIGHT_SHARDED, t.BufferType.L1, spec)
        y = t.interleaved_to_sharded(x, shards)
        y = t.to_memory_config(t.reshard(y, shards), t.L1_MEMORY_CONFIG)
        y = t.untilize(t.clone(y), memory_config=t.DRAM_MEMORY_CONFIG)
        y = t.to_device(t.from_device(y), d, memory_config=t.DRAM_MEMORY_CONFIG)
        y = t.sharded_to_interleaved(t.to_memory_config(t.tilize(y), shards), t.DRAM_MEMORY_CONFIG)
        return t.to_layout(y, t.ROW_MAJOR_LAYOUT)

    check(call, lambda n, x: n("Identity", x), [normal(64, 32)])
