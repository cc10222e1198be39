"""Angles that come from inputs, and grids, are computed in f32; emulated as the device computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from net import Array, Net, ints

from optimizer.importers import load
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph
from optimizer.values.emulation.graph import emulated_values

Model = Callable[..., onnx.ModelProto]
ROWS, HALF = 64, 32
FREQUENCIES = (10000.0 ** -(np.arange(HALF) / HALF)).astype(np.float32)


def rotary(net: Net) -> str:
    """Hugging Face: positions by frequencies as a product of matrices, the angles twice side by side."""
    column = net("Unsqueeze", net("Cast", "positions", to=onnx.TensorProto.FLOAT), ints(2))
    angles = net("MatMul", column, FREQUENCIES.reshape(1, 1, HALF))
    twice = net("Concat", angles, angles, axis=2)
    return str(net("Mul", net("Mul", net("Cos", twice), net("Sin", twice)), "x", out="y"))


def imported(net: Net, make_model: Model, inputs: Mapping[str, Any]) -> Graph:
    return load(make_model(net.nodes, inputs, ["y"], net.weights, 17).SerializeToString()).graph


def correlation(graph: Graph, net: Net, given: Mapping[str, Array], exact: Array) -> float:
    weights = {name: net.weights[name] for name in graph.values if name in net.weights}
    (found,) = emulated_values(graph, {}, {**weights, **given})
    return float(np.corrcoef(found.ravel(), exact.ravel())[0, 1])


@pytest.mark.parametrize("first", [0, 960, 4032, 8128, 131008])
def test_rotary_angles_are_right_at_any_position(first: int, make_model: Model) -> None:
    net = Net()
    rotary(net)
    graph = imported(net, make_model, {"positions": ((1, ROWS), onnx.TensorProto.INT64), "x": (1, ROWS, 2 * HALF)})
    positions, x = np.arange(first, first + ROWS)[None], np.random.default_rng(0).standard_normal((1, ROWS, 2 * HALF))
    angles = np.tile(positions[..., None].astype(np.float32) * FREQUENCIES, 2).astype(np.float64)

    found = correlation(graph, net, {"positions": positions, "x": x}, np.cos(angles) * np.sin(angles) * x)

    assert found > 0.9999
    assert graph.value("x").dtype is graph.value("y").dtype is DType.BF16


def test_a_logarithm_that_becomes_an_index_is_not_rounded_before(make_model: Model) -> None:
    """T5's buckets of relative positions."""
    net = Net()
    grown = net("Mul", net("Log", net("Cast", "distance", to=onnx.TensorProto.FLOAT)), np.float32(7.7))
    net("Cast", net("Cast", grown, to=onnx.TensorProto.INT32), to=onnx.TensorProto.FLOAT, out="y")
    graph = imported(net, make_model, {"distance": ((1, 512), onnx.TensorProto.INT64)})
    distance = np.arange(1, 513)[None]

    (found,) = emulated_values(graph, {}, {"distance": distance})

    assert np.count_nonzero(found - np.trunc(np.log(distance) * 7.7)) <= 1


@pytest.mark.parametrize("step", [1.0, 501.0, 999.0])
def test_a_timestep_is_read_as_it_is(step: float, make_model: Model) -> None:
    """Diffusion models: one number up to 1,000, of which bf16 holds even ones only above 256."""
    net = Net()
    net("Sin", net("Mul", net("Unsqueeze", "time", ints(1)), FREQUENCIES.reshape(1, HALF)), out="y")
    graph = imported(net, make_model, {"time": (1,)})
    exact = np.sin((np.float32(step) * FREQUENCIES).astype(np.float64))

    assert correlation(graph, net, {"time": np.array([step])}, exact) > 0.99999
    assert graph.value("time").dtype is DType.F32


def test_the_points_of_a_grid_are_f32_and_its_image_bf16(make_model: Model) -> None:
    net = Net()
    points = net("Sub", net("Mul", "at", np.float32(2)), np.float32(1))
    net("GridSample", "image", points, out="y", align_corners=0, mode="linear", padding_mode="zeros")
    model = make_model(net.nodes, {"image": (1, 8, 160, 160), "at": (1, 20, 4, 2)}, ["y"], net.weights, 20)

    graph = load(model.SerializeToString()).graph

    (sampled,) = (op for op in graph.ops() if op.op == "ttnn.grid_sample")
    assert [graph.value(v).dtype for v in sampled.inputs] == [DType.BF16, DType.F32]
    assert graph.value("at").dtype is DType.F32


def test_offsets_that_a_layer_computes_come_out_in_f32(make_model: Model) -> None:
    net = Net()
    offsets = net("Reshape", net("MatMul", "query", np.ones((16, 8), np.float32)), ints(1, 20, 4, 2))
    points = net("Add", offsets, "at")
    net("GridSample", "image", points, out="y", align_corners=0, mode="linear", padding_mode="zeros")
    inputs = {"image": (1, 8, 32, 32), "at": (1, 20, 4, 2), "query": (1, 20, 16)}

    graph = load(make_model(net.nodes, inputs, ["y"], net.weights, 20).SerializeToString()).graph

    (product,) = (op for op in graph.ops() if op.op == "ttnn.matmul")
    assert graph.value(product.outputs[0]).dtype is DType.F32
    assert graph.value("query").dtype is DType.BF16


def test_waves_of_what_a_layer_learned_stay_bf16(make_model: Model) -> None:
    net = Net()
    net("Sin", net("MatMul", "x", np.ones((16, 16), np.float32)), out="y")

    graph = imported(net, make_model, {"x": (1, 32, 16)})

    assert {value.dtype for value in graph.values.values()} == {DType.BF16}


def test_others_read_an_angle_in_bf16(make_model: Model) -> None:
    net = Net()
    angles = net("Mul", "time", np.float32(2))
    net("Add", net("Sin", angles), net("MatMul", angles, np.ones((16, 16), np.float32)), out="y")

    graph = imported(net, make_model, {"time": (1, 32, 16)})

    (product,) = (op for op in graph.ops() if op.op in ("ttnn.matmul", "ttnn.linear"))
    assert {graph.value(v).dtype for v in product.inputs} == {DType.BF16}
    assert graph.value("y").dtype is DType.BF16


def test_a_grid_that_is_cut_into_parts_is_f32_before_and_after(make_model: Model) -> None:
    """Deformable attention: points of several levels are computed at once."""
    net = Net()
    scaled = net("Mul", net("Add", net("MatMul", "query", np.ones((16, 16), np.float32)), "at"), np.float32(2))
    parts = net("Split", scaled, count=2, axis=2, num_outputs=2)
    images = [
        net("GridSample", f"image{k}", net("Reshape", part, ints(1, 20, 4, 2)), align_corners=0, mode="linear")
        for k, part in enumerate(parts)
    ]
    net("Add", *images, out="y")
    inputs = {"image0": (1, 8, 32, 32), "image1": (1, 8, 16, 16), "at": (1, 20, 16), "query": (1, 20, 16)}

    graph = load(make_model(net.nodes, inputs, ["y"], net.weights, 20).SerializeToString()).graph

    grids = {graph.value(op.inputs[1]).dtype for op in graph.ops() if op.op == "ttnn.grid_sample"}
    (cut,) = (op for op in graph.ops() if op.op == "ttnn.split")
    assert {graph.value(v).dtype for v in (*cut.inputs, *cut.outputs)} | grids == {DType.F32}
