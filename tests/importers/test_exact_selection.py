"""Scores that something is selected by are computed in f32 where little leads to them; emulated as a device does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from net import Net, ints

from optimizer.importers import load
from optimizer.importers.passes.exact_values import MOST_OPS
from optimizer.ir.dtype import DType
from optimizer.ir.numeric_risk import numeric_risks
from optimizer.values.emulation.graph import emulated_values

Model = Callable[..., onnx.ModelProto]


def rows_of_the_best(net: Net, rows: int, width: int, classes: int, k: int) -> None:
    """The rows with the largest score of any class, as detectors take them."""
    weight = np.random.default_rng(1).standard_normal((width, classes)).astype(np.float32) / np.sqrt(width)
    scores = net("MatMul", net("Softmax", "x", axis=-1), weight.astype(np.float32))
    best = net("ReduceMax", scores, axes=[2], keepdims=0)
    places = net("TopK", best, ints(k), axis=1, count=2)[1]
    places = net("Expand", net("Unsqueeze", places, ints(2)), ints(1, k, classes))
    net("GatherElements", scores, places, axis=1, out="y")


def saved(net: Net, make_model: Model, inputs: dict[str, Any]) -> bytes:
    outputs = [net.nodes[-1].output[0]]
    return bytes(make_model(net.nodes, inputs, outputs, net.weights, 17).SerializeToString())


@pytest.mark.parametrize(("rows", "width", "classes", "k"), [(48, 128, 80, 20), (300, 64, 10, 40), (100, 200, 33, 30)])
def test_the_same_rows_are_taken(rows: int, width: int, classes: int, k: int, make_model: Model) -> None:
    net = Net()
    rows_of_the_best(net, rows, width, classes, k)
    data = saved(net, make_model, {"x": (1, rows, width)})
    x = 2 * np.random.default_rng(rows).standard_normal((1, rows, width)).astype(np.float32)
    (exact,) = onnxruntime.InferenceSession(data).run(None, {"x": x})
    graph = load(data).graph

    (found,) = emulated_values(graph, {}, {**net.weights, "x": x})

    assert np.corrcoef(found.ravel(), exact.ravel())[0, 1] > 0.9999
    assert graph.value("x").dtype is DType.F32
    assert graph.value("y").dtype is DType.BF16, "an output stays as it is"
    (risk,) = numeric_risks(graph)
    assert "1/1024" in risk.because


def test_selections_behind_a_network_stay_in_bf16_and_are_a_risk(make_model: Model) -> None:
    net = Net()
    value = "x"
    for n in range(MOST_OPS + 1):
        value = net("Sigmoid" if n % 2 else "Tanh", value)
    net("TopK", value, ints(4), axis=1, count=2, out="y")
    graph = load(saved(net, make_model, {"x": (1, 64)})).graph

    assert graph.value("x").dtype is DType.BF16
    assert [risk.kind for risk in numeric_risks(graph)] == ["selection-of-rounded-scores"]
