"""Layer norms as JAX, Keras and others write them become `layer_norm`, with the values of onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
import onnx
import pytest
from net import Net, f32, run

Model = Callable[..., onnx.ModelProto]
WIDTH = 64
SHAPE = {"x": (2, 8, WIDTH)}
EPSILON = np.float32(1e-5)


def mean(net: Net, x: str, spelled: str, keep: int = 1) -> str:
    if spelled == "mean":
        return net("ReduceMean", x, axes=[-1], keepdims=keep)
    total = net("ReduceSum", x, np.array([-1]), keepdims=keep)
    return net("Div", total, np.float32(WIDTH)) if spelled == "sum / n" else net("Mul", total, np.float32(1 / WIDTH))


def jax(net: Net, spelled: str) -> str:
    """Flax: reduced dims put back by a reshape, a variance kept above zero, the weight multiplied with the rsqrt."""
    kept = np.array([2, 8, 1])
    centre, squares = mean(net, "x", spelled, 0), mean(net, net("Mul", "x", "x"), spelled, 0)
    spread = net("Max", net("Sub", squares, net("Mul", centre, centre)), np.float32(0))
    inverse = net("Reciprocal", net("Sqrt", net("Add", net("Reshape", spread, kept), EPSILON)))
    scale = net("Mul", net("Expand", inverse, np.array([2, 8, WIDTH])), f32(1, 1, WIDTH))
    return net("Add", net("Mul", net("Sub", "x", net("Reshape", centre, kept)), scale), f32(1, 1, WIDTH))


def keras(net: Net, spelled: str) -> str:
    """`tf.nn.batch_normalization`: the mean is taken off after the scale."""
    centre = mean(net, "x", spelled)
    away = net("Sub", "x", centre)
    inverse = net("Reciprocal", net("Sqrt", net("Add", mean(net, net("Mul", away, away), spelled), EPSILON)))
    scale = net("Mul", inverse, f32(WIDTH))
    return net("Add", net("Mul", "x", scale), net("Sub", f32(WIDTH), net("Mul", centre, scale)))


def powers(net: Net, spelled: str) -> str:
    centre, two = mean(net, "x", spelled), np.float32(2)
    spread = net("Sub", mean(net, net("Pow", "x", two), spelled), net("Pow", centre, two))
    y = net("Div", net("Sub", "x", centre), net("Sqrt", net("Add", spread, EPSILON)))
    return net("Add", net("Mul", y, f32(WIDTH)), f32(WIDTH))


@pytest.mark.parametrize("spelled", ["mean", "sum / n", "sum * (1/n)"])
@pytest.mark.parametrize("write", [jax, keras, powers])
def test_a_layer_norm_is_found(
    write: Callable[[Net, str], str], spelled: str, witness: ModuleType, make_model: Model
) -> None:
    net = Net()

    ops, _ = run(net, SHAPE, write(net, spelled), witness, make_model)

    assert ops == {"layer_norm": 1}


def test_a_sum_by_another_number_stays(witness: ModuleType, make_model: Model) -> None:
    """The unbiased variance divides by n - 1."""
    net = Net()
    total = net("ReduceSum", net("Mul", "x", "x"), np.array([-1]), keepdims=1)

    ops, _ = run(net, SHAPE, net("Div", total, np.float32(WIDTH - 1)), witness, make_model)

    assert ops == {"square": 1, "sum": 1, "multiply": 1}


def test_a_scale_that_is_constant_stays(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    scale = f32(WIDTH)
    out = net("Add", net("Mul", "x", scale), net("Sub", f32(WIDTH), net("Mul", "m", scale)))

    ops, _ = run(net, {**SHAPE, "m": (2, 8, 1)}, out, witness, make_model)

    assert ops["multiply"] == 2
