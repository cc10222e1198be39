"""Two small models whose programs hold the ops that are easy to get wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from net import Net, ints
from onnx import TensorProto, helper, numpy_helper

GENERATOR_SEED = 5


def _random(*shape: int, fan: int = 1) -> np.ndarray[Any, Any]:
    """Weights that keep unit variance, the same for the same shape."""
    generator = np.random.default_rng([GENERATOR_SEED, *shape])
    return (generator.standard_normal(shape) / np.sqrt(fan)).astype(np.float32)


def _model(net: Net, inputs: dict[str, tuple[int, ...]], output: str, shape: tuple[int, ...]) -> onnx.ModelProto:
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in inputs.items()]
    made = [helper.make_tensor_value_info(output, TensorProto.FLOAT, list(shape))]
    weights = [numpy_helper.from_array(array, name) for name, array in net.weights.items()]
    graph = helper.make_graph(net.nodes, "witnessed", given, made, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def convnet() -> onnx.ModelProto:
    """Two convolutions, their concatenation, a slice of it, a difference, a pool, a fully connected layer."""
    net = Net()
    first = net("Conv", "x", _random(32, 32, 3, 3, fan=288), _random(32), pads=[1, 1, 1, 1], out="first")
    first = net("Relu", first)
    second = net("Conv", first, _random(32, 32, 3, 3, fan=144)[::-1].copy(), _random(32)[::-1].copy(),
                 pads=[1, 1, 1, 1], out="second")  # fmt: skip
    both = net("Concat", first, second, axis=1, out="both")
    part = net("Slice", both, ints(0, 16), ints(1, 48), ints(0, 1), out="part")
    difference = net("Sub", part, second, out="difference")
    pooled = net("MaxPool", difference, kernel_shape=[2, 2], strides=[2, 2], out="pooled")
    flat = net("Reshape", pooled, ints(1, 2048), out="flat")
    net("Gemm", flat, _random(2048, 64, fan=2048), _random(64), out="y")
    return _model(net, {"x": (1, 32, 16, 16)}, "y", (1, 64))


def encoder() -> onnx.ModelProto:
    """A layer norm, self-attention written out, a residual, a feed-forward net, a transposed result."""
    net, width, heads, rows = Net(), 128, 4, 64
    normed = net("LayerNormalization", "x", 1 + 0.1 * _random(width), 0.1 * _random(width, 1).reshape(-1), axis=-1,
                 epsilon=1e-5, out="normed")  # fmt: skip
    parts = []
    for k, name in enumerate("qkv"):
        weight = np.roll(_random(width, width, fan=width), 7 * k, axis=0)
        made = net("Add", net("MatMul", normed, weight, out=f"{name}_product"), 0.3 * _random(width, 2)[:, k % 2])
        cut = net("Reshape", made, ints(1, rows, heads, width // heads))
        parts.append(net("Transpose", cut, perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3], out=f"{name}_heads"))
    scores = net("Mul", net("MatMul", parts[0], parts[1]), np.float32(1 / np.sqrt(width // heads)), out="scores")
    mixed = net("MatMul", net("Softmax", scores, axis=-1), parts[2], out="mixed")
    joined = net("Reshape", net("Transpose", mixed, perm=[0, 2, 1, 3]), ints(1, rows, width))
    residual = net("Add", "x", net("MatMul", joined, _random(width, width, fan=width)[::-1].copy()), out="residual")
    wide = net("Add", net("MatMul", residual, _random(width, 256, fan=width)), 0.3 * _random(256), out="wide")
    gate = net("Sigmoid", net("MatMul", residual, _random(256, width, fan=width).T.copy()), out="gate")
    made = net("Mul", net("Relu", wide), gate)
    out = net("Sub", residual, net("MatMul", made, _random(256, width, fan=256)), out="out")
    net("Transpose", out, perm=[0, 2, 1], out="y")
    return _model(net, {"x": (1, rows, width)}, "y", (1, width, rows))


MODELS = {"convnet": convnet, "encoder": encoder}
"""Name -> what makes it."""
