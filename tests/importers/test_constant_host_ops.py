"""Ops that TTNN lacks on constants only: refused by name, or run on the host, never a failed re-check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from optimizer.device import DeviceSpec
from optimizer.errors import UnsupportedOpError
from optimizer.importers import load
from optimizer.options import Options
from optimizer.pipeline import optimize
from optimizer.result import OptimizedGraph

Model = Callable[..., onnx.ModelProto]
CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("HannWindow", [np.int64(20_000)], {}),
    ("HammingWindow", [np.int64(20_000)], {}),
    ("BlackmanWindow", [np.int64(20_000)], {}),
    ("Col2Im", [np.ones((1, 12, 4), "f"), np.array([4, 4]), np.array([2, 2])], {"strides": [2, 2]}),
    ("RandomNormal", [], {"shape": [4, 8]}),
    ("RandomUniform", [], {"shape": [4, 8]}),
    ("Bernoulli", [np.ones((4, 8), "f")], {}),
    ("Multinomial", [np.ones((4, 8), "f")], {}),
    ("Det", [np.ones((2, 4, 4), "f")], {}),
    ("GridSample", [np.ones((1, 1, 4, 4), "f"), np.ones((1, 2, 2, 2), "f")], {"mode": "nearest"}),
]


def laid_out(op: str, operands: list[Any], attrs: dict[str, Any], make_model: Model, host: bool) -> OptimizedGraph:
    names = [f"c{i}" for i in range(len(operands))]
    nodes = [helper.make_node(op, names, ["t"], name="it", **attrs), helper.make_node("Relu", ["x"], ["z"])]
    outputs = {"t": TensorProto.INT32 if op == "Multinomial" else TensorProto.FLOAT, "z": TensorProto.FLOAT}
    model = make_model(nodes, {"x": (2, 8)}, outputs, dict(zip(names, operands, strict=True)), opset=20)
    return optimize(
        load(model.SerializeToString()), DeviceSpec.preset("n150"), Options(policy="dram", allow_host_ops=host)
    )


@pytest.mark.parametrize(("op", "operands", "attrs"), CASES, ids=[case[0] for case in CASES])
def test_allowed_on_the_host(op: str, operands: list[Any], attrs: dict[str, Any], make_model: Model) -> None:
    result = laid_out(op, operands, attrs, make_model, host=True)

    assert {o.op for o in result.graph.ops()} >= {"ttnn.relu"}


@pytest.mark.parametrize("op", ["HannWindow", "RandomNormal", "Bernoulli"])
def test_refused_by_name(op: str, make_model: Model) -> None:
    operands, attrs = next((o, a) for name, o, a in CASES if name == op)

    with pytest.raises(UnsupportedOpError, match=op):
        laid_out(op, operands, attrs, make_model, host=False)


@pytest.mark.parametrize(("op", "weights"), [("Conv", (6, 4, 3, 3)), ("ConvTranspose", (4, 6, 2, 2))])
def test_convolution_whose_weights_are_an_input(op: str, weights: tuple[int, ...], make_model: Model) -> None:
    model = make_model([helper.make_node(op, ["x", "w"], ["y"], name="it")], {"x": (1, 4, 8, 8), "w": weights}, ["y"])

    with pytest.raises(UnsupportedOpError, match="'it': weights that are computed at run time"):
        optimize(load(model.SerializeToString()), DeviceSpec.preset("n150"), Options(policy="dram"))
