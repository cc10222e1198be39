"""Patterns that exporters spell out become one TTNN op, with the same results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from net import RNG, Model, Net, f32, ints, run
from onnx import TensorProto


# -- activations -----------------------------------------------------------------------------------
def gelu_divide(net: Net, x: str) -> str:
    inner = net("Add", net("Erf", net("Div", x, np.float32(np.sqrt(2)))), np.float32(1))
    return net("Mul", net("Mul", x, inner), np.float32(0.5))


def gelu_half_first(net: Net, x: str) -> str:
    inner = net("Add", np.float32(1), net("Erf", net("Mul", x, np.float32(1 / np.sqrt(2)))))
    return net("Mul", net("Mul", np.float32(0.5), x), inner)


def gelu_half_inside(net: Net, x: str) -> str:
    inner = net("Add", net("Erf", net("Div", x, np.float32(np.sqrt(2)))), np.float32(1))
    return net("Mul", x, net("Mul", inner, np.float32(0.5)))


def gelu_tanh(net: Net, x: str) -> str:
    cube = net("Mul", net("Pow", x, np.float32(3)), np.float32(0.044715))
    inner = net("Tanh", net("Mul", net("Add", x, cube), np.float32(np.sqrt(2 / np.pi))))
    return net("Mul", net("Mul", np.float32(0.5), x), net("Add", inner, np.float32(1)))


def gelu_tanh_products(net: Net, x: str) -> str:
    cube = net("Mul", net("Mul", net("Mul", x, x), x), np.float32(0.044715))
    inner = net("Tanh", net("Mul", net("Add", x, cube), np.float32(np.sqrt(2 / np.pi))))
    return net("Mul", net("Mul", x, net("Add", inner, np.float32(1))), np.float32(0.5))


def gelu_fast(net: Net, x: str) -> str:
    square = net("Mul", net("Mul", x, np.float32(0.044715)), x)
    inner = net("Mul", net("Mul", x, np.float32(0.7978845608)), net("Add", square, np.float32(1)))
    return net("Mul", net("Mul", x, np.float32(0.5)), net("Add", net("Tanh", inner), np.float32(1)))


def silu(net: Net, x: str) -> str:
    return net("Mul", x, net("Sigmoid", x))


def log_sigmoid(net: Net, x: str) -> str:
    return net("Log", net("Sigmoid", x))


def mish(net: Net, x: str) -> str:
    return net("Mul", x, net("Tanh", net("Softplus", x)))


def hardswish_divide_last(net: Net, x: str) -> str:
    clipped = net("Clip", net("Add", x, np.float32(3)), np.float32(0), np.float32(6))
    return net("Div", net("Mul", x, clipped), np.float32(6))


def hardswish_divide_first(net: Net, x: str) -> str:
    clipped = net("Clip", net("Add", x, np.float32(3)), np.float32(0), np.float32(6))
    return net("Mul", x, net("Div", clipped, np.float32(6)))


def hardswish_gate(net: Net, x: str) -> str:
    return net("Mul", x, net("HardSigmoid", x, alpha=1 / 6, beta=0.5))


def hardsigmoid(net: Net, x: str) -> str:
    return net("Div", net("Clip", net("Add", x, np.float32(3)), np.float32(0), np.float32(6)), np.float32(6))


ACTIVATIONS = {
    gelu_divide: ("gelu", 2e-5),
    gelu_half_first: ("gelu", 2e-5),
    gelu_half_inside: ("gelu", 2e-5),
    gelu_tanh: ("gelu_tanh", 2e-5),
    gelu_tanh_products: ("gelu_tanh", 2e-5),
    gelu_fast: ("gelu_tanh", 2e-5),
    silu: ("silu", 2e-5),
    mish: ("mish", 2e-5),
    log_sigmoid: ("log_sigmoid", 2e-5),
    hardswish_divide_last: ("hardswish", 2e-5),
    hardswish_divide_first: ("hardswish", 2e-5),
    hardswish_gate: ("hardswish", 2e-5),
    hardsigmoid: ("hardsigmoid", 2e-5),
}


@pytest.mark.parametrize("write", ACTIVATIONS, ids=lambda f: f.__name__)
def test_activation(write: Callable[[Net, str], str], witness: ModuleType, make_model: Model) -> None:
    net = Net()
    out = write(net, "x")

    ops, _ = run(net, {"x": (4, 8)}, out, witness, make_model, tolerance=ACTIVATIONS[write][1])

    assert ops == {ACTIVATIONS[write][0]: 1}


def test_a_sigmoid_that_something_else_reads_stays(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    gate = net("Sigmoid", "x")
    out = net("Mul", net("Log", gate), gate)

    ops, _ = run(net, {"x": (4, 8)}, out, witness, make_model)

    assert ops == {"sigmoid": 1, "log": 1, "multiply": 1}


def test_gelu_of_another_tensor_stays(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    inner = net("Add", net("Erf", net("Div", "x", np.float32(np.sqrt(2)))), np.float32(1))
    out = net("Mul", net("Mul", "y", inner), np.float32(0.5))

    ops, _ = run(net, {"x": (4, 8), "y": (4, 8)}, out, witness, make_model)

    assert "gelu" not in ops


# -- linear ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("activation", ["Relu", "Sigmoid", "Tanh", "Gelu"])
def test_linear_with_bias_and_activation(activation: str, witness: ModuleType, make_model: Model) -> None:
    net = Net()
    out = net(activation, net("Add", f32(6), net("MatMul", "x", f32(8, 6))))

    ops, model = run(net, {"x": (2, 4, 8)}, out, witness, make_model, opset=20)

    assert ops == {"linear": 1}
    op = next(model.graph.ops())
    assert op.attrs["activation"] == activation.lower()
    assert op.origin == ("MatMul_0", "Add_1", f"{activation}_2")
    assert op.name == "MatMul_0"


def test_linear_whose_value_is_used_twice_keeps_its_activation_apart(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    hidden = net("MatMul", "x", f32(8, 6))
    out = net("Add", net("Relu", hidden), hidden)

    ops, _ = run(net, {"x": (4, 8)}, out, witness, make_model)

    assert ops == {"matmul": 1, "relu": 1, "add": 1}


def test_residual_add_with_relu(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    out = net("Relu", net("Add", "x", "y"))

    ops, model = run(net, {"x": (4, 8), "y": (4, 8)}, out, witness, make_model)

    assert ops == {"add": 1}
    assert next(model.graph.ops()).attrs["activations"] == ("relu",)


def test_gemm_between_reshapes(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    flat = net("Gemm", net("Reshape", "x", ints(-1, 8)), f32(6, 8), f32(6), transB=1)
    out = net("Relu", net("Reshape", flat, ints(2, 4, 6)))

    ops, _ = run(net, {"x": (2, 4, 8)}, out, witness, make_model)

    assert ops == {"linear": 1}


# -- norms -----------------------------------------------------------------------------------------
def variance(net: Net, centred: str, product: bool) -> str:
    square = net("Mul", centred, centred) if product else net("Pow", centred, np.float32(2))
    return net("Add", net("ReduceMean", square, axes=[-1]), np.float32(1e-5))


@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("last", ["div", "reciprocal", "power"])
def test_layer_norm(product: bool, last: str, witness: ModuleType, make_model: Model) -> None:
    net = Net()
    centred = net("Sub", "x", net("ReduceMean", "x", axes=[-1]))
    shifted = variance(net, centred, product)
    if last == "div":
        normal = net("Div", centred, net("Sqrt", shifted))
    elif last == "power":
        normal = net("Mul", centred, net("Pow", shifted, np.float32(-0.5)))
    else:
        normal = net("Mul", centred, net("Reciprocal", net("Sqrt", shifted)))
    out = net("Add", net("Mul", normal, f32(8)), f32(8))

    ops, _ = run(net, {"x": (2, 4, 8)}, out, witness, make_model)

    assert ops == {"layer_norm": 1}


def test_rms_norm(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    scale = net("Reciprocal", net("Sqrt", variance(net, "x", product=False)))
    out = net("Mul", f32(8), net("Mul", "x", scale))

    ops, _ = run(net, {"x": (2, 4, 8)}, out, witness, make_model)

    assert ops == {"rms_norm": 1}


@pytest.mark.parametrize("affine", [False, True])
def test_group_norm(affine: bool, witness: ModuleType, make_model: Model) -> None:
    net = Net()
    grouped = net("Reshape", "x", ints(0, 4, -1))
    normal = net("InstanceNormalization", grouped, np.ones(4, np.float32), np.zeros(4, np.float32), epsilon=1e-5)
    out = net("Reshape", normal, ints(2, 32, 5, 5))
    if affine:
        out = net("Add", net("Mul", out, f32(32, 1, 1)), f32(32, 1, 1))

    ops, model = run(net, {"x": (2, 32, 5, 5)}, out, witness, make_model)

    assert ops["group_norm"] == 1
    assert set(ops) == {"group_norm", "permute", "reshape"}
    norm = next(op for op in model.graph.ops() if op.op == "ttnn.group_norm")
    assert norm.attrs["num_groups"] == 4
    assert len(norm.origin) == len(net.nodes)


def test_group_norm_of_few_channels_is_a_layer_norm(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    grouped = net("Reshape", "x", ints(0, 4, -1))
    normal = net("InstanceNormalization", grouped, np.ones(4, np.float32), np.zeros(4, np.float32), epsilon=1e-5)
    out = net("Add", net("Mul", net("Reshape", normal, ints(2, 8, 5, 5)), f32(8, 1, 1)), f32(8, 1, 1))

    ops, _ = run(net, {"x": (2, 8, 5, 5)}, out, witness, make_model)

    assert ops == {"layer_norm": 1, "reshape": 2, "multiply": 1, "add": 1}


# -- convolutions ----------------------------------------------------------------------------------
def batch_norm(net: Net, x: str, channels: int) -> str:
    statistics = [f32(channels), f32(channels), f32(channels), np.abs(f32(channels)) + np.float32(0.5)]
    return net("BatchNormalization", x, *statistics)


@pytest.mark.parametrize("bias", [False, True])
def test_conv_batch_norm_relu(bias: bool, witness: ModuleType, make_model: Model) -> None:
    net = Net()
    conv = net("Conv", "x", f32(6, 4, 3, 3), *([f32(6)] if bias else []), pads=[1, 1, 1, 1])
    out = net("Relu", batch_norm(net, conv, 6))

    ops, model = run(net, {"x": (2, 4, 8, 8)}, out, witness, make_model)

    assert ops["conv2d"] == 1
    assert set(ops) == {"conv2d", "permute", "reshape"}
    conv_op = next(op for op in model.graph.ops() if op.op == "ttnn.conv2d")
    assert conv_op.attrs["activation"] == "relu"
    assert conv_op.origin == ("Conv_0", "BatchNormalization_1", "Relu_2")


def test_caffe2_scale_after_batch_norm(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    conv = net("Conv", "x", f32(6, 4, 1, 1))
    out = net("Add", net("Mul", batch_norm(net, conv, 6), f32(6, 1, 1)), f32(6, 1, 1))

    ops, _ = run(net, {"x": (2, 4, 8, 8)}, out, witness, make_model)

    assert set(ops) == {"conv2d", "permute", "reshape"}


def test_transposed_conv_batch_norm(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    out = batch_norm(net, net("ConvTranspose", "x", f32(4, 6, 2, 2), strides=[2, 2]), 6)

    ops, _ = run(net, {"x": (2, 4, 8, 8)}, out, witness, make_model)

    assert set(ops) == {"conv_transpose2d", "permute", "reshape"}


@pytest.mark.parametrize("window", ["Conv", "AveragePool", "MaxPool"])
def test_padding_before_a_window(window: str, witness: ModuleType, make_model: Model) -> None:
    net = Net()
    value = np.float32(-3e38 if window == "MaxPool" else 0)
    padded = net("Pad", "x", ints(0, 0, 1, 0, 0, 0, 1, 1), value)
    out = net("Conv", padded, f32(6, 4, 3, 3)) if window == "Conv" else net(window, padded, kernel_shape=[3, 3])

    ops, _ = run(net, {"x": (2, 4, 8, 8)}, out, witness, make_model)

    assert "pad" not in ops


def test_residual_block_needs_one_permute_at_each_edge(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    stem = net("Relu", net("Conv", "x", f32(8, 4, 3, 3), pads=[1, 1, 1, 1]))
    branch = net("Conv", stem, f32(8, 8, 3, 3), pads=[1, 1, 1, 1])
    out = net("Relu", net("Add", stem, branch))

    ops, model = run(net, {"x": (2, 4, 8, 8)}, out, witness, make_model)

    assert ops == {"conv2d": 2, "add": 1, "permute": 2, "reshape": 2}
    add = next(op for op in model.graph.ops() if op.op == "ttnn.add")
    assert model.graph.value(add.outputs[0]).shape == (1, 1, 128, 8)


def test_dense_block_concatenates_channels_last(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    first = net("Conv", "x", f32(8, 4, 1, 1))
    second = net("Conv", net("Relu", batch_norm(net, first, 8)), f32(4, 8, 3, 3), pads=[1, 1, 1, 1])
    joined = net("Concat", first, second, axis=1)
    out = net("GlobalAveragePool", net("AveragePool", joined, kernel_shape=[2, 2], strides=[2, 2]))

    ops, model = run(net, {"x": (2, 4, 8, 8)}, net("Flatten", out), witness, make_model)

    assert ops["permute"] == 1
    concat = next(op for op in model.graph.ops() if op.op == "ttnn.concat")
    assert model.graph.value(concat.outputs[0]).shape == (1, 1, 128, 12)


def test_squeeze_and_excite_per_sample(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    x = net("Conv", "x", f32(8, 4, 1, 1))
    gate = net("Conv", net("GlobalAveragePool", x), f32(8, 8, 1, 1))
    out = net("Conv", net("Mul", x, net("Sigmoid", gate)), f32(4, 8, 1, 1))

    ops, _ = run(net, {"x": (3, 4, 6, 6)}, out, witness, make_model)

    assert ops["permute"] == 2


def test_channels_last_file_loses_its_transposes(witness: ModuleType, make_model: Model) -> None:
    """tf2onnx keeps activations in NHWC and writes a Transpose on either side of every convolution."""
    net = Net()
    x = "x"
    for _ in range(2):
        conv = net("Conv", net("Transpose", x, perm=[0, 3, 1, 2]), f32(4, 4, 3, 3), pads=[1, 1, 1, 1])
        x = net("Relu", net("Transpose", conv, perm=[0, 2, 3, 1]))

    ops, _ = run(net, {"x": (2, 8, 8, 4)}, x, witness, make_model)

    assert "permute" not in ops


def test_spatial_ops_stay_channels_last(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    x = net("Conv", "x", f32(8, 4, 1, 1))
    x = net("Slice", x, ints(1), ints(7), ints(2))
    x = net("Pad", x, ints(0, 0, 0, 1, 0, 0, 0, 1), np.float32(0.5))
    halves = net("Split", x, ints(2, 6), axis=1, count=2)
    low, high = halves
    x = net("Concat", net("Softmax", high, axis=1), low, axis=1)
    x = net("Concat", x, x, axis=3)
    x = net("Add", x, net("ReduceMean", x, axes=[1]))
    out = net("Conv", x, f32(4, 8, 1, 1))

    ops, _ = run(net, {"x": (2, 4, 8, 8)}, out, witness, make_model)

    assert ops["permute"] == 2


def test_conv_stem_of_a_transformer(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    patches = net("Conv", "x", f32(32, 3, 4, 4), strides=[4, 4])
    tokens = net("Transpose", net("Reshape", patches, ints(0, 32, -1)), perm=[0, 2, 1])
    normal = net("LayerNormalization", tokens, f32(32), f32(32))
    out = net("Add", tokens, net("Add", net("MatMul", normal, f32(32, 32)), f32(32)))

    ops, _ = run(net, {"x": (2, 3, 8, 8)}, out, witness, make_model)

    assert ops["permute"] == 1


# -- attention -------------------------------------------------------------------------------------
B, H, S, D = 2, 4, 6, 32


def heads(net: Net, x: str, count: int = H, turned: bool = False) -> str:
    projected = net("MatMul", x, f32(H * D, count * D, scale=0.1))
    spread = net("Reshape", projected, ints(B, S, count, D))
    return net("Transpose", spread, perm=[0, 2, 3, 1] if turned else [0, 2, 1, 3])


def joined(net: Net, x: str) -> str:
    return net("Reshape", net("Transpose", x, perm=[0, 2, 1, 3]), ints(B, S, H * D))


ATTENTION = {
    "split_query_key_value_and_split_heads": 1,
    "scaled_dot_product_attention": 1,
    "concatenate_heads": 1,
}
SHAPE = {"x": (B, S, H * D)}


def check_attention(ops: Counter[str]) -> None:
    assert {k: ops[k] for k in ATTENTION} == ATTENTION
    assert "softmax" not in ops
    assert ops["matmul"] == 1
    assert "permute" not in ops


@pytest.mark.parametrize("place", ["scores", "query", "both", "projection", "divide"])
def test_attention_scale_anywhere(place: str, witness: ModuleType, make_model: Model) -> None:
    net = Net()
    q, k, v = heads(net, "x"), heads(net, "x", turned=True), heads(net, "x")
    if place == "query":
        q = net("Mul", q, np.float32(0.2))
    if place == "both":
        q, k = net("Mul", q, np.float32(0.4)), net("Mul", k, np.float32(0.5))
    if place == "projection":
        projected = net("Mul", net("MatMul", "x", f32(H * D, H * D, scale=0.1)), np.float32(0.2))
        q = net("Transpose", net("Reshape", projected, ints(B, S, H, D)), perm=[0, 2, 1, 3])
    scores = net("MatMul", q, k)
    if place == "scores":
        scores = net("Mul", scores, np.float32(0.2))
    if place == "divide":
        scores = net("Div", scores, np.float32(5))
    out = joined(net, net("MatMul", net("Softmax", scores, axis=-1), v))

    ops, model = run(net, SHAPE, out, witness, make_model)

    check_attention(ops)
    attention = next(op for op in model.graph.ops() if op.op.endswith("attention"))
    assert attention.attrs["scale"] == pytest.approx(0.2)
    assert "multiply" not in ops


def softmax_guard(net: Net, scores: str) -> str:
    p = net("Softmax", scores, axis=-1)
    return net("Where", net("IsNaN", p), np.float32(0), p)


@pytest.mark.parametrize("form", ["input", "causal", "causal-where", "padding", "two", "fill"])
def test_attention_mask(form: str, witness: ModuleType, make_model: Model) -> None:
    net = Net()
    scores = net("Mul", net("MatMul", heads(net, "x"), heads(net, "x", turned=True)), np.float32(0.2))
    visible = np.tri(S, dtype=bool)
    inputs: dict[str, Any] = dict(SHAPE)
    if form == "input":
        inputs["bias"] = (1, 1, S, S)
        scores = net("Add", scores, "bias")
    if form == "causal":
        scores = net("Add", scores, np.where(visible, 0, -1e9).astype(np.float32))
    if form == "causal-where":
        inputs["ignored_mask"] = ((1, 1), TensorProto.BOOL)
        scores = net("Where", visible, scores, np.float32(-1e9))
    if form == "padding":
        inputs["key_mask"] = ((B, S), TensorProto.INT64)
        seen = net("Cast", net("Unsqueeze", "key_mask", ints(1, 2)), to=TensorProto.FLOAT)
        scores = net("Add", scores, net("Mul", net("Sub", np.float32(1), seen), np.float32(-1e9)))
    if form == "two":
        inputs["bias"] = (1, H, S, S)
        scores = net("Add", net("Add", scores, "bias"), np.where(visible, 0, -1e9).astype(np.float32))
    if form == "fill":
        inputs["key_mask"] = ((B, 1, 1, S), TensorProto.BOOL)
        scores = net("Where", "key_mask", scores, np.float32(-1e9))
    out = joined(net, net("MatMul", softmax_guard(net, scores), heads(net, "x")))

    ops, model = run(net, inputs, out, witness, make_model)

    check_attention(ops)
    attention = next(op for op in model.graph.ops() if op.op.endswith("attention"))
    causal = form.startswith("causal")
    assert attention.attrs["is_causal"] is causal
    assert len(attention.inputs) == (3 if causal else 4)
    if not causal:
        assert model.graph.value(attention.inputs[3]).shape[-2:] == (S, S)


def test_attention_of_merged_heads(witness: ModuleType, make_model: Model) -> None:
    """Older exporters multiply [B*H, S, D] and add the mask in four dims."""
    net = Net()
    q, k, v = (net("Reshape", heads(net, "x"), ints(B * H, S, D)) for _ in range(3))
    scores = net("MatMul", q, net("Transpose", k, perm=[0, 2, 1]))
    masked = net("Add", net("Reshape", scores, ints(B, H, S, S)), "bias")
    p = net("Softmax", net("Reshape", masked, ints(B * H, S, S)), axis=-1)
    out = joined(net, net("Reshape", net("MatMul", p, v), ints(B, H, S, D)))

    ops, _ = run(net, {**SHAPE, "bias": (B, 1, S, S)}, out, witness, make_model)

    check_attention(ops)


def test_grouped_query_attention_absorbs_the_repeat(witness: ModuleType, make_model: Model) -> None:
    net = Net()

    def repeated(x: str) -> str:
        spread = net("Expand", net("Unsqueeze", x, ints(2)), ints(B, 2, 2, S, D))
        return net("Reshape", spread, ints(B, H, S, D))

    q, k, v = heads(net, "x"), repeated(heads(net, "x", 2)), repeated(heads(net, "x", 2))
    scores = net("Mul", net("MatMul", q, net("Transpose", k, perm=[0, 1, 3, 2])), np.float32(0.2))
    out = joined(net, net("MatMul", net("Softmax", scores, axis=-1), v))

    ops, model = run(net, SHAPE, out, witness, make_model)

    check_attention(ops)
    assert not {"repeat", "repeat_interleave"} & set(ops)
    attention = next(op for op in model.graph.ops() if op.op.endswith("attention"))
    assert model.graph.value(attention.inputs[1]).shape == (B, 2, S, D)


def test_fused_projection_is_split_by_one_op(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    qkv = net("Add", net("MatMul", "x", f32(H * D, 3 * H * D, scale=0.1)), f32(3 * H * D))
    parts = net("Split", qkv, axis=2, count=3, num_outputs=3)
    q, k, v = (net("Transpose", net("Reshape", p, ints(B, S, H, D)), perm=[0, 2, 1, 3]) for p in parts)
    scores = net("Mul", net("MatMul", q, net("Transpose", k, perm=[0, 1, 3, 2])), np.float32(0.2))
    out = joined(net, net("MatMul", net("Softmax", scores, axis=-1), v))

    ops, _ = run(net, SHAPE, out, witness, make_model, opset=18)

    assert ops == {"linear": 1, **ATTENTION}


@pytest.mark.parametrize("cut", ["gather", "split"])
def test_fused_projection_unbound_along_a_dim_of_three(cut: str, witness: ModuleType, make_model: Model) -> None:
    net = Net()
    qkv = net("Add", net("MatMul", "x", f32(H * D, 3 * H * D, scale=0.1)), f32(3 * H * D))
    turned = net("Transpose", net("Reshape", qkv, ints(B, S, 3, H, D)), perm=[2, 0, 3, 1, 4])
    if cut == "gather":
        q, k, v = (net("Gather", turned, np.int64(i), axis=0) for i in range(3))
    else:
        q, k, v = (net("Squeeze", p, ints(0)) for p in net("Split", turned, axis=0, count=3, num_outputs=3))
    scores = net("MatMul", net("Mul", q, np.float32(0.2)), net("Transpose", k, perm=[0, 1, 3, 2]))
    out = joined(net, net("MatMul", net("Softmax", scores, axis=-1), v))

    ops, _ = run(net, SHAPE, out, witness, make_model, opset=18)

    assert ops == {"linear": 1, **ATTENTION}


@pytest.mark.parametrize("length", [32, 6])
def test_rotary_embedding(length: int, witness: ModuleType, make_model: Model) -> None:
    net = Net()
    low = net("Slice", "x", ints(0), ints(32), ints(3))
    high = net("Slice", "x", ints(32), ints(1 << 40), ints(3))
    turned = net("Concat", net("Neg", high), low, axis=-1)
    out = net("Add", net("Mul", "x", f32(1, 1, length, 64)), net("Mul", turned, f32(length, 64)))

    ops, _ = run(net, {"x": (2, 4, length, 64)}, out, witness, make_model)

    # TTNN's op gives whole tiles of the sequence, so others are spelled out
    assert ("rotary_embedding" in ops) == (length == 32)
    assert length == 6 or ops == {"rotary_embedding": 1}


# -- clean-up --------------------------------------------------------------------------------------
def test_movement_that_cancels_vanishes(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    x = net("Relu", "x")
    x = net("Unsqueeze", x, ints(0))
    x = net("Transpose", x, perm=[0, 1, 3, 2])
    x = net("Squeeze", x, ints(0))
    x = net("Transpose", x, perm=[0, 2, 1])
    out = net("Neg", net("Reshape", x, ints(2, 3, 4)))

    ops, _ = run(net, {"x": (2, 3, 4)}, out, witness, make_model)

    assert ops == {"relu": 1, "neg": 1}


def test_equal_ops_are_computed_once(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    left, right = (net("Exp", net("Transpose", "x", perm=[1, 0])) for _ in range(2))
    out = net("Add", left, right)

    ops, model = run(net, {"x": (3, 4)}, out, witness, make_model)

    assert ops == {"permute": 1, "exp": 1, "add": 1}
    permute = next(op for op in model.graph.ops() if op.op == "ttnn.permute")
    assert permute.origin == ("Transpose_0", "Transpose_2")


def test_expand_before_an_elementwise_op_vanishes(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    out = net("Add", "x", net("Expand", net("Relu", "y"), ints(2, 3, 4)))

    ops, _ = run(net, {"x": (2, 3, 4), "y": (3, 1)}, out, witness, make_model)

    assert ops == {"relu": 1, "reshape": 1, "add": 1}


def test_large_constants_are_described_not_stored(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    filled = net("ConstantOfShape", ints(100, 200), value=onnx.numpy_helper.from_array(np.float32([3])))
    steps = net("Range", np.float32(0), np.float32(20000), np.float32(1))
    out = net("Add", net("Add", "x", filled), net("Reshape", steps, ints(100, 200)))

    ops, model = run(net, {"x": (100, 200)}, out, witness, make_model)

    assert ops == {"add": 2}
    assert all(v.data is None for v in model.graph.values.values())


def test_index_input_becomes_unsigned(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    ids = net("Gather", "ids", np.int64(1), axis=1)
    out = net("Gather", f32(9, 4), ids)

    feeds = {"ids": RNG.integers(0, 9, (3, 2))}

    ops, model = run(net, {"ids": ((3, 2), TensorProto.INT64)}, out, witness, make_model, feeds=feeds)

    assert model.graph.value("ids").dtype == "u32"
    assert "typecast" not in ops
