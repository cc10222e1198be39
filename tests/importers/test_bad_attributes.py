"""Attributes of the right type but outside of their range are errors of the node, not something else's value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from optimizer.errors import GraphError, InputError
from optimizer.importers import load

Model = Callable[..., onnx.ModelProto]
PLANE = {"x": (1, 3, 16, 16)}


def refused(model: onnx.ModelProto, *words: str) -> None:
    with pytest.raises(InputError) as caught:
        load(model.SerializeToString())
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "LpNormalization", "ArgMax"])
@pytest.mark.parametrize("axis", [7, -7, 1 << 62])
def test_axis_out_of_range(op: str, axis: int, make_model: Model) -> None:
    outputs = {"y": TensorProto.INT64 if op == "ArgMax" else TensorProto.FLOAT}
    model = make_model([helper.make_node(op, ["x"], ["y"], name="it", axis=axis)], {"x": (2, 4)}, outputs)

    refused(model, f"{op}", "it")


@pytest.mark.parametrize("axis", [2, -3])
def test_axis_of_layer_norm_out_of_range(axis: int, make_model: Model) -> None:
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y"], name="it", axis=axis)

    refused(make_model([node], {"x": (2, 4)}, ["y"], {"s": np.ones(4, "f")}), "it")


@pytest.mark.parametrize("axis", [2, -3])
def test_axis_of_gather_elements_out_of_range(axis: int, make_model: Model) -> None:
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], name="it", axis=axis)

    refused(make_model([node], {"x": (2, 4)}, ["y"], {"i": np.zeros((2, 4), np.int64)}), "it", "rank 2")


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("MaxPool", {"kernel_shape": [0, 2]}),
        ("MaxPool", {"kernel_shape": [2]}),
        ("AveragePool", {"kernel_shape": [2, 2], "strides": [0, 1]}),
        ("AveragePool", {"kernel_shape": [2, 2], "pads": [1, 1]}),
        ("LRN", {"size": 0}),
        ("LRN", {"size": -5}),
    ],
)
def test_window(op: str, attrs: dict[str, Any], make_model: Model) -> None:
    refused(make_model([helper.make_node(op, ["x"], ["y"], name="it", **attrs)], PLANE, ["y"]), "it")


def test_lrn_over_more_channels_than_there_are(make_model: Model) -> None:
    model = make_model([helper.make_node("LRN", ["x"], ["y"], size=20_000)], PLANE, ["y"])

    operators = [op.op for op in load(model.SerializeToString()).graph.ops()]

    assert operators.count("ttnn.slice") == 5  # each of 3 channels sees the two others


def test_lrn_over_very_many_channels_is_opaque(make_model: Model) -> None:
    model = make_model([helper.make_node("LRN", ["x"], ["y"], size=65)], {"x": (1, 128, 4, 4)}, ["y"])

    imported = load(model.SerializeToString())

    assert [op.op for op in imported.graph.ops()] == ["onnx.LRN"]
    assert "65 neighbouring channels" in imported.report.warnings[0]


def test_operand_that_must_be_known_but_has_no_data(make_model: Model) -> None:
    node = helper.make_node("CumSum", ["x", "axis"], ["y"], name="it")
    model = make_model([node], {"x": (2, 4)}, ["y"])
    model.graph.initializer.append(TensorProto(name="axis", data_type=TensorProto.INT64, dims=[]))

    refused(model, "it", "'axis'", "not in the file")


def test_op_of_a_later_opset_is_named(make_model: Model, capfd: pytest.CaptureFixture[str]) -> None:
    model = make_model([helper.make_node("Mish", ["x"], ["y"], name="it")], {"x": (2, 4)}, ["y"], opset=17)

    refused(model, "Mish 'it'", "not in opset 17")
    assert capfd.readouterr().err == ""


def test_mapping_that_stumbles_names_its_node(make_model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    from optimizer.importers.onnx_ops import TABLE

    def stumble(_: Any) -> str:
        raise OverflowError("too large")

    monkeypatch.setitem(TABLE, "Relu", stumble)
    model = make_model([helper.make_node("Relu", ["x"], ["y"], name="act")], {"x": (2, 4)}, ["y"])

    with pytest.raises(GraphError, match=r"Relu 'act'.*too large") as caught:
        load(model.SerializeToString())
    assert isinstance(caught.value.__cause__, OverflowError)
