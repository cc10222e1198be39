"""Weights of a model by the names of the imported graph, wherever and however the file holds them."""

from __future__ import annotations

import os
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from optimizer.errors import FormatError, GraphError
from optimizer.importers import load
from optimizer.importers.onnx_arrays import open_weights, weights_of
from optimizer.ir.graph import Graph

F = TensorProto.FLOAT
SIZE = 96  # 96 * 96 elements are more than a constant of the graph may have
RANDOM = np.random.default_rng(7)
MATRIX = RANDOM.standard_normal((SIZE, SIZE)).astype(np.float32)


def saved(folder: Path, nodes: list[onnx.NodeProto], tensors: list[TensorProto], **parts: object) -> Path:
    x = helper.make_tensor_value_info("x", F, [SIZE, SIZE])
    y = helper.make_tensor_value_info("y", F, [SIZE, SIZE])
    graph = helper.make_graph(nodes, "m", [x], [y], tensors)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    path = folder / "model.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9, **parts).SerializeToString())
    return path


def read(path: Path) -> tuple[Graph, dict[str, np.ndarray]]:
    graph = load(path).graph
    return graph, dict(weights_of(path, graph))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_every_float_type_keeps_its_values(tmp_path: Path, dtype: type) -> None:
    tensor = numpy_helper.from_array(MATRIX.astype(dtype), "w")
    cast = helper.make_node("Cast", ["w"], ["wide"], to=F)
    path = saved(tmp_path, [cast, helper.make_node("MatMul", ["x", "wide"], ["y"])], [tensor])

    _, weights = read(path)

    assert weights["w"].dtype == dtype
    np.testing.assert_array_equal(weights["w"].astype(np.float64), MATRIX.astype(dtype).astype(np.float64))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8, np.uint8, np.bool_])
def test_every_integer_type_keeps_its_values(tmp_path: Path, dtype: type) -> None:
    array = RANDOM.integers(0, 2, (SIZE, SIZE)).astype(dtype)
    cast = helper.make_node("Cast", ["w"], ["wide"], to=F)
    path = saved(tmp_path, [cast, helper.make_node("Mul", ["x", "wide"], ["y"])], [numpy_helper.from_array(array, "w")])

    _, weights = read(path)

    np.testing.assert_array_equal(weights["w"], array)


def test_integers_and_floats_that_the_device_lacks_are_those_of_constants(tmp_path: Path) -> None:
    far = np.zeros((SIZE, SIZE), np.int64)
    far[0, :2] = [-(1 << 62), 1 << 62]
    holes = MATRIX.copy()
    holes[0, :3] = [np.inf, -np.inf, np.nan]
    nodes = [
        helper.make_node("Cast", ["far"], ["wide"], to=F),
        helper.make_node("Add", ["x", "wide"], ["t"]),
        helper.make_node("Add", ["t", "holes"], ["y"]),
    ]
    path = saved(tmp_path, nodes, [numpy_helper.from_array(far, "far"), numpy_helper.from_array(holes, "holes")])

    _, weights = read(path)

    assert weights["far"][0, :3].tolist() == [-(1 << 31), (1 << 31) - 1, 0]
    largest = float(np.float32(3.3895313892515355e38))
    assert weights["holes"][0, :3].tolist() == [largest, -largest, 0]


def test_large_constants_are_weights_with_elements(tmp_path: Path) -> None:
    held = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(MATRIX))
    path = saved(tmp_path, [held, helper.make_node("MatMul", ["x", "w"], ["y"])], [])

    graph, weights = read(path)

    assert [*open_weights(graph)] == ["w"]
    np.testing.assert_array_equal(weights["w"], MATRIX)


def test_constants_of_functions_are_called_as_inlining_calls_them(tmp_path: Path) -> None:
    held = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(MATRIX))
    body = [held, helper.make_node("MatMul", ["a", "w"], ["b"])]
    function = helper.make_function("local", "Layer", ["a"], ["b"], body, [helper.make_opsetid("", 18)])
    calls = [
        helper.make_node("Layer", ["x"], ["t"], domain="local", name="one"),
        helper.make_node("Layer", ["t"], ["y"], domain="local", name="two"),
    ]
    path = saved(tmp_path, calls, [], functions=[function])

    graph, weights = read(path)

    assert len(open_weights(graph)) == 2
    for array in weights.values():
        np.testing.assert_array_equal(array, MATRIX)


def test_weights_of_branches_keep_their_elements(tmp_path: Path) -> None:
    def branch(factor: float) -> onnx.GraphProto:
        node = helper.make_node("MatMul", ["x", "w"], ["z"])
        output = helper.make_tensor_value_info("z", F, None)
        return helper.make_graph([node], "b", [], [output], [numpy_helper.from_array(factor * MATRIX, "w")])

    node = helper.make_node("If", ["yes"], ["y"], then_branch=branch(2.0), else_branch=branch(3.0))
    path = saved(tmp_path, [node], [numpy_helper.from_array(np.array(True), "yes")])

    _, weights = read(path)

    assert len(weights) == 1
    np.testing.assert_array_equal(next(iter(weights.values())), 2 * MATRIX)


def test_small_initializers_are_weights_too(tmp_path: Path) -> None:
    bias = numpy_helper.from_array(MATRIX[0], "bias")
    path = saved(tmp_path, [helper.make_node("Add", ["x", "bias"], ["y"])], [bias])

    graph, weights = read(path)

    assert [*open_weights(graph)] == ["bias"]
    np.testing.assert_array_equal(weights["bias"], MATRIX[0])


def external(location: str, offset: int = 0, constant: bool = False) -> tuple[list[onnx.NodeProto], list[TensorProto]]:
    tensor = TensorProto(name="w", data_type=F, dims=(SIZE, SIZE), data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", str(offset))):
        tensor.external_data.add(key=key, value=value)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    if constant:
        return [helper.make_node("Constant", [], ["w"], value=tensor), *nodes], []
    return nodes, [tensor]


@pytest.mark.parametrize("constant", [False, True])
def test_external_data_are_read_from_the_models_folder(tmp_path: Path, constant: bool) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"\0" * 16 + MATRIX.tobytes())
    path = saved(tmp_path, *external("sub/w.bin", 16, constant))

    _, weights = read(path)

    np.testing.assert_array_equal(weights["w"], MATRIX)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("../w.bin", "only a file in the model's folder or below is read"),
        ("gone.bin", "is not there"),
        ("link.bin", "a link"),
        ("short.bin", "the file has only 12 of the 36864 bytes"),
    ],
)
def test_external_data_from_elsewhere_are_refused(tmp_path: Path, location: str, message: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(MATRIX.tobytes())
    (folder / "short.bin").write_bytes(b"\0" * 12)
    os.symlink(tmp_path / "w.bin", folder / "link.bin")
    path = saved(folder, *external("gone.bin"))
    graph = load(path).graph
    path = saved(folder, *external(location))

    with pytest.raises(FormatError, match=message):
        weights_of(path, graph)["w"]


def test_what_a_model_lacks_is_named(tmp_path: Path) -> None:
    tensors = [numpy_helper.from_array(MATRIX, "w")]
    graph = load(saved(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], tensors)).graph
    other = saved(tmp_path, [helper.make_node("Relu", ["x"], ["y"])], [])

    with pytest.raises(GraphError, match=r"model.onnx lacks 1 of 1 weights of the result: 'w'"):
        weights_of(other, graph)


def test_another_shape_is_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = load(saved(tmp_path, nodes, [numpy_helper.from_array(MATRIX, "w")])).graph
    other = saved(tmp_path, nodes, [numpy_helper.from_array(MATRIX.repeat(2, 1), "w")])

    with pytest.raises(GraphError, match=r"weight has the shape \[96, 192\], the graph says \[96, 96\]"):
        weights_of(other, graph)["w"]


def test_stripped_weights_are_an_error_when_they_are_read(tmp_path: Path) -> None:
    bare = TensorProto(name="w", data_type=F, dims=(SIZE, SIZE))
    path = saved(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], [bare])

    with pytest.raises(FormatError, match="'w' has no elements: they were left out"):
        read(path)
