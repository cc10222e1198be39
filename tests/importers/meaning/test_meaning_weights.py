"""Arithmetic on convolution weights: it means the same on rows, and no tensor in tiles is mostly padding."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
from net import Model, Net, f32, ints, run

from optimizer.ir.graph import Graph
from optimizer.layouts.weight_forms import swells


def frozen_batch_norm(net: Net, x: str, channels: int) -> str:
    """Statistics as parameters [1, C, 1, 1], scale and shift computed in the graph (detection models)."""
    weight, bias, mean = (f32(1, channels, 1, 1) for _ in range(3))
    variance = np.abs(f32(1, channels, 1, 1)) + np.float32(0.5)
    scale = net("Mul", weight, net("Div", np.float32(1), net("Sqrt", net("Add", variance, np.float32(1e-5)))))
    shift = net("Sub", bias, net("Mul", mean, scale))
    return net("Add", net("Mul", x, scale), shift)


def spelled_out(net: Net, x: str, channels: int) -> str:
    """Subtract the mean, divide by the deviation, scale, shift."""
    deviation = np.abs(f32(channels, 1, 1)) + np.float32(0.5)
    normal = net("Div", net("Sub", x, f32(channels, 1, 1)), deviation)
    return net("Add", net("Mul", normal, f32(1, channels, 1, 1)), f32(channels, 1, 1))


def constants(net: Net, x: str, channels: int) -> str:
    return net("Add", net("Mul", x, f32(channels, 1, 1)), f32(channels, 1, 1))


MANY = 512
"""Output channels of weights that are too large to be folded while the model is read."""
Norm = Callable[[Net, str, int], str]
NORMS = pytest.mark.parametrize("norm", [frozen_batch_norm, spelled_out, constants])


def padded_in_tiles(graph: Graph) -> list[str]:
    """Ops on weights, reshapes left out, with an operand or a result that is mostly padding in tiles."""
    return [
        op.id
        for op in graph.ops()
        if graph.is_const_eval(op) and op.op != "ttnn.reshape"
        if any(swells(graph.value(v).shape) for v in (*op.inputs, *op.outputs))
    ]


@NORMS
@pytest.mark.parametrize("kernel", [1, 3])
def test_a_norm_after_a_convolution_goes_into_rows_of_its_weights(
    norm: Norm, kernel: int, witness: ModuleType, make_model: Model
) -> None:
    net = Net()
    out = norm(net, net("Conv", "x", f32(40, 16, kernel, kernel), f32(40), pads=[kernel // 2] * 4), 40)

    ops, model = run(net, {"x": (1, 16, 6, 6)}, out, witness, make_model)

    assert set(ops) == {"conv2d", "permute", "reshape"}
    assert padded_in_tiles(model.graph) == []


@NORMS
def test_a_norm_after_a_transposed_convolution(norm: Norm, witness: ModuleType, make_model: Model) -> None:
    net = Net()
    out = norm(net, net("ConvTranspose", "x", f32(40, 48, 2, 2), strides=[2, 2]), 48)

    ops, model = run(net, {"x": (1, 40, 6, 6)}, out, witness, make_model)

    assert set(ops) == {"conv_transpose2d", "permute", "reshape"}
    factors = [op for op in model.graph.ops() if op.op == "ttnn.repeat"]
    assert padded_in_tiles(model.graph) == [op.id for op in factors]
    assert [model.graph.value(op.outputs[0]).shape for op in factors] == [(1, 48, 2, 2)] * len(factors)


def test_weights_normalised_by_their_own_norm(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    v = net("Identity", f32(MANY, 16, 3, 3))
    length = net("Sqrt", net("ReduceSum", net("Mul", v, v), ints(1, 2, 3), keepdims=1))
    out = net("Conv", "x", net("Div", net("Mul", v, f32(MANY, 1, 1, 1)), length))

    _, model = run(net, {"x": (1, 16, 6, 6)}, out, witness, make_model)

    assert padded_in_tiles(model.graph) == []


def test_standardised_weights(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    w = net("Identity", f32(MANY, 16, 3, 3))
    centred = net("Sub", w, net("ReduceMean", w, axes=[1, 2, 3], keepdims=1))
    variance = net("ReduceMean", net("Mul", centred, centred), axes=[1, 2, 3], keepdims=1)
    out = net("Conv", "x", net("Div", centred, net("Sqrt", net("Add", variance, np.float32(1e-5)))))

    _, model = run(net, {"x": (1, 16, 6, 6)}, out, witness, make_model)

    assert padded_in_tiles(model.graph) == []


def test_dequantised_weights(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    levels = np.random.default_rng(3).integers(-9, 9, (40, 16, 1, 1)).astype(np.int8)
    scale, zero = np.abs(f32(40)) + np.float32(0.1), np.zeros(40, np.int8)
    out = net("Conv", "x", net("DequantizeLinear", levels, scale, zero, axis=0))

    _, model = run(net, {"x": (1, 16, 6, 6)}, out, witness, make_model)

    assert padded_in_tiles(model.graph) == []


def test_weights_that_fill_their_tiles_stay_as_they_are(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    scaled = net("Mul", net("Identity", f32(2, 64, 64)), f32(2, 1, 1))
    out = net("MatMul", "x", scaled)

    _, model = run(net, {"x": (2, 4, 64)}, out, witness, make_model)

    assert "weight-rows" not in model.report.fused
