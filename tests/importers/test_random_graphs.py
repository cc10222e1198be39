"""Random small networks keep their meaning through all passes."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

Array = np.ndarray[Any, Any]
UNARY = ["Relu", "Sigmoid", "Tanh", "Neg", "Softplus", "HardSwish"]
COUNT = 60


class Writer:
    """Writes random nodes whose inputs are earlier values; shapes are tracked so that every node fits."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Array] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}

    def pick(self, options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def weight(self, *shape: int, dtype: Any = np.float32) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = (self.rng.standard_normal(shape) / np.sqrt(max(shape[-1:] or (1,)))).astype(dtype)
        return name

    def ints(self, *values: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(values, dtype=np.int64)
        return name

    def node(self, op: str, inputs: list[str], shape: tuple[int, ...], **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"{op}_{len(self.nodes)}", **attrs))
        self.shapes[name] = shape
        return name

    def step(self) -> None:
        x = self.pick(list(self.shapes)[-4:])
        shape = self.shapes[x]
        options: list[Callable[[str, tuple[int, ...]], None]] = [
            self.unary, self.unary, self.per_channel, self.binary, self.permute, self.reshape, self.reduce, self.slice,
            self.concat, self.softmax, self.scalar, self.matmul, self.split, self.pad,
        ]  # fmt: skip
        if len(shape) == 4:
            options += [self.conv, self.conv, self.pool, self.norm, self.to_last, self.upsample, self.gate]
        if len(shape) >= 2:
            options += [self.layer_norm, self.linear]
        self.pick(options)(x, shape)

    def unary(self, x: str, shape: tuple[int, ...]) -> None:
        self.node(self.pick(UNARY), [x], shape)

    def scalar(self, x: str, shape: tuple[int, ...]) -> None:
        self.node(self.pick(["Add", "Mul", "Sub"]), [x, self.weight()], shape)

    def per_channel(self, x: str, shape: tuple[int, ...]) -> None:
        axis = int(self.rng.integers(len(shape)))
        size = [s if i == axis else 1 for i, s in enumerate(shape)]
        inputs = [x, self.weight(*size[axis:])]
        self.node(self.pick(["Add", "Mul", "Sub"]), inputs if self.rng.random() < 0.7 else inputs[::-1], shape)

    def binary(self, x: str, shape: tuple[int, ...]) -> None:
        others = [v for v, s in self.shapes.items() if s == shape]
        self.node(self.pick(["Add", "Mul", "Max"]), [x, self.pick(others)], shape)

    def permute(self, x: str, shape: tuple[int, ...]) -> None:
        dims = [int(d) for d in self.rng.permutation(len(shape))]
        self.node("Transpose", [x], tuple(shape[d] for d in dims), perm=dims)

    def to_last(self, x: str, shape: tuple[int, ...]) -> None:
        dims = self.pick([[0, 2, 3, 1], [0, 3, 1, 2]])
        self.node("Transpose", [x], tuple(shape[d] for d in dims), perm=dims)

    def reshape(self, x: str, shape: tuple[int, ...]) -> None:
        if len(shape) == 4:
            a, b, c, d = shape
            target = self.pick([(a, b, c * d), (a * b, c, d), (a, b * c, d), (a, 1, b, c * d), (a * b * c, d)])
        elif len(shape) == 3:
            a, b, c = shape
            target = self.pick(
                [(a, b, 1, c), (a * b, c), (a, 1, b, c), (a, b * c), (b, a, c) if a == b else (1, a, b, c)]
            )
        else:
            target = (1, *shape) if len(shape) < 4 else shape
        self.node("Reshape", [x, self.ints(*target)], target)

    def reduce(self, x: str, shape: tuple[int, ...]) -> None:
        axes = self.pick([[len(shape) - 1], [0], list(range(2, len(shape))) or [0], [1 % len(shape)]])
        kept = tuple(1 if i in axes else s for i, s in enumerate(shape))
        if self.rng.random() < 0.7:
            self.node(self.pick(["ReduceMean", "ReduceMax"]), [x], kept, axes=axes)
        elif len(axes) < len(shape):
            self.node("ReduceMean", [x], tuple(s for i, s in enumerate(shape) if i not in axes), axes=axes, keepdims=0)

    def slice(self, x: str, shape: tuple[int, ...]) -> None:
        axis = int(self.rng.integers(len(shape)))
        if shape[axis] >= 2:
            end = shape[axis] - int(self.rng.integers(2))
            new = tuple(len(range(1, end)) if i == axis else s for i, s in enumerate(shape))
            if min(new) > 0:
                self.node("Slice", [x, self.ints(1), self.ints(end), self.ints(axis)], new)

    def split(self, x: str, shape: tuple[int, ...]) -> None:
        axis = int(self.rng.integers(len(shape)))
        if shape[axis] % 2 == 0:
            names = [f"v{len(self.nodes)}_{i}" for i in range(2)]
            node = helper.make_node("Split", [x], names, name=f"Split_{len(self.nodes)}", axis=axis)
            self.nodes.append(node)
            half = tuple(s // 2 if i == axis else s for i, s in enumerate(shape))
            self.shapes.update(dict.fromkeys(names, half))

    def pad(self, x: str, shape: tuple[int, ...]) -> None:
        amounts = [[int(self.rng.integers(2)) for _ in shape] for _ in range(2)]
        new = tuple(s + lo + hi for s, lo, hi in zip(shape, *amounts, strict=True))
        if np.prod(new) < 4000:
            self.node("Pad", [x, self.ints(*amounts[0], *amounts[1])], new)

    def concat(self, x: str, shape: tuple[int, ...]) -> None:
        axis = int(self.rng.integers(len(shape)))
        fits = [v for v, s in self.shapes.items() if len(s) == len(shape)
                and all(i == axis or a == b for i, (a, b) in enumerate(zip(s, shape, strict=True)))]  # fmt: skip
        other = self.pick(fits)
        size = shape[axis] + self.shapes[other][axis]
        if size < 40:
            self.node("Concat", [x, other], tuple(size if i == axis else s for i, s in enumerate(shape)), axis=axis)

    def softmax(self, x: str, shape: tuple[int, ...]) -> None:
        self.node("Softmax", [x], shape, axis=int(self.rng.integers(len(shape))))

    def matmul(self, x: str, shape: tuple[int, ...]) -> None:
        if len(shape) >= 3:
            turned = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
            other = self.node("Transpose", [x], tuple(shape[d] for d in turned), perm=turned)
            scaled = self.node("Mul", [x, self.weight()], shape)
            self.node("MatMul", [scaled, other], (*shape[:-1], shape[-2]))

    def linear(self, x: str, shape: tuple[int, ...]) -> None:
        width = self.pick([4, 6])
        product = self.node("MatMul", [x, self.weight(shape[-1], width)], (*shape[:-1], width))
        if self.rng.random() < 0.7:
            self.node("Add", [product, self.weight(width)], (*shape[:-1], width))

    def layer_norm(self, x: str, shape: tuple[int, ...]) -> None:
        self.node("LayerNormalization", [x, self.weight(shape[-1]), self.weight(shape[-1])], shape, epsilon=1e-2)

    def conv(self, x: str, shape: tuple[int, ...]) -> None:
        n, c, h, w = shape
        out, k = self.pick([4, 6]), self.pick([1, 3])
        inputs = [x, self.weight(out, c, k, k)] + ([self.weight(out)] if self.rng.random() < 0.5 else [])
        self.node("Conv", inputs, (n, out, h, w), pads=[k // 2] * 4)

    def pool(self, x: str, shape: tuple[int, ...]) -> None:
        n, c, h, w = shape
        if h >= 2 and w >= 2:
            self.node(self.pick(["MaxPool", "AveragePool"]), [x], (n, c, h // 2, w // 2), kernel_shape=[2, 2],
                      strides=[2, 2])  # fmt: skip

    def upsample(self, x: str, shape: tuple[int, ...]) -> None:
        n, c, h, w = shape
        if h * w < 100:
            name = f"w{len(self.weights)}"
            self.weights[name] = np.float32([1, 1, 2, 2])
            self.node("Resize", [x, "", name], (n, c, 2 * h, 2 * w), coordinate_transformation_mode="asymmetric",
                      nearest_mode="floor")  # fmt: skip

    def norm(self, x: str, shape: tuple[int, ...]) -> None:
        c = shape[1]
        if self.rng.random() < 0.5:
            self.node("InstanceNormalization", [x, self.weight(c), self.weight(c)], shape, epsilon=1e-2)
        else:
            variance = self.weight(c)
            self.weights[variance] = np.abs(self.weights[variance]) + np.float32(0.5)
            inputs = [x, self.weight(c), self.weight(c), self.weight(c), variance]
            self.node("BatchNormalization", inputs, shape)

    def gate(self, x: str, shape: tuple[int, ...]) -> None:
        n, c, _, _ = shape
        pooled = self.node("GlobalAveragePool", [x], (n, c, 1, 1))
        gate = self.node("Sigmoid", [self.node("Conv", [pooled, self.weight(c, c, 1, 1)], (n, c, 1, 1))], (n, c, 1, 1))
        self.node("Mul", [x, gate], shape)


@pytest.mark.parametrize("seed", range(COUNT))
def test_random_network(seed: int, witness: ModuleType, make_model: Callable[..., onnx.ModelProto]) -> None:
    writer = Writer(seed)
    batch = 1 if seed % 3 else 2
    inputs = {"x": (batch, 4, 6, 5), "y": (batch, 5, 4)}
    writer.shapes.update(inputs)
    while len(writer.nodes) < 20:
        writer.step()
    consumed = {name for node in writer.nodes for name in node.input}
    outputs = [name for name in writer.shapes if name not in consumed and name not in inputs]

    result = witness.compare(make_model(writer.nodes, inputs, outputs, writer.weights), seed=seed)

    assert result.model.report.unsupported == ()
    assert result.error < 1e-4
