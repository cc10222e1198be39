"""The values that a model's errors are measured with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from optimizer import load
from optimizer.errors import GraphError, ShapeError
from optimizer.importers.model import ImportOptions
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.values.given import GivenValues, ModelValues, model_values

WEIGHT = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)


def model(path: Path, *, weights: bool = True) -> Path:
    """A product with a weight, whose elements are in the file or not."""
    tensor = numpy_helper.from_array(WEIGHT, "w")
    if not weights:
        tensor.ClearField("raw_data")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in
               (("x", [32, 64]), ("y", [32, 32]))]  # fmt: skip
    graph = helper.make_graph([node], "product", tensors[:1], tensors[1:], [tensor])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def values(path: Path | None, graph: Graph, given: GivenValues | None = None) -> ModelValues:
    return model_values(graph, given or GivenValues(), path, ImportOptions(), 0)


def test_a_file_that_holds_weights_gives_its_own(tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx")

    found = values(path, load(path).graph)

    assert found.weights == "model"
    assert np.array_equal(found.arrays["w"], WEIGHT)
    assert not [warning for warning in found.warnings if "RANDOM" in warning]


def test_a_file_without_elements_gives_random_ones_and_says_why(tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx", weights=False)

    found = values(path, load(path).graph)

    assert found.weights == "random"
    assert "'w' has no elements" in found.warnings[0]


def test_a_model_without_its_file_gives_random_ones_and_says_why(tmp_path: Path) -> None:
    found = values(None, load(model(tmp_path / "m.onnx")).graph)

    assert "handed over without its file" in found.warnings[0]


def test_given_arrays_are_what_is_measured_with(tmp_path: Path) -> None:
    graph = load(model(tmp_path / "m.onnx")).graph

    found = values(None, graph, GivenValues({"w": WEIGHT + 1}, {"x": np.ones((32, 64))}))

    assert (found.weights, found.inputs, found.warnings) == ("given", "given", ())
    assert np.array_equal(found.arrays["w"], WEIGHT + 1)


@pytest.mark.parametrize("given", [GivenValues({"w": np.ones((3, 3))}), GivenValues(None, {"x": np.ones(5)})])
def test_an_array_of_another_size_is_named(tmp_path: Path, given: GivenValues) -> None:
    with pytest.raises(ShapeError, match=r"has the shape .*, not \["):
        values(None, load(model(tmp_path / "m.onnx")).graph, given)


def test_a_missing_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="1 of 1 inputs are missing: 'x'"):
        values(None, load(model(tmp_path / "m.onnx")).graph, GivenValues(None, {"z": np.ones(5)}))


def test_several_samples_lie_in_front_or_along_the_first_dim(tmp_path: Path) -> None:
    graph = load(model(tmp_path / "m.onnx")).graph
    x = np.arange(3 * 32 * 64, dtype=np.float32)

    for shape in ((3, 32, 64), (96, 64)):
        found = values(None, graph, GivenValues({"w": WEIGHT}, {"x": x.reshape(shape)}))

        assert len(found.samples) == 3
        assert [sample["x"].shape for sample in found.samples] == [(32, 64)] * 3
        assert np.array_equal(np.stack([sample["x"] for sample in found.samples]).ravel(), x)
        assert all(np.array_equal(sample["w"], WEIGHT) for sample in found.samples)


@pytest.mark.parametrize("shape", [(33, 64), (2, 64, 32), (0, 32, 64), (0, 64)])
def test_no_whole_samples_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"not \[32, 64\], nor samples of that"):
        values(None, load(model(tmp_path / "m.onnx")).graph, GivenValues(None, {"x": np.ones(shape)}))


def test_inputs_have_as_many_samples_or_one_for_all() -> None:
    b = GraphBuilder("two")
    graph = b.finish(b.op("ttnn.add", b.input("x", (1, 1, 32, 32)), b.input("y", (1, 1, 32, 32))))
    x, y = np.ones((4, 1, 32, 32)), np.ones((2, 1, 32, 32))

    found = values(None, graph, GivenValues({}, {"x": x, "y": y[:1]}))
    assert [sorted(sample) for sample in found.samples] == [["x", "y"]] * 4

    with pytest.raises(ShapeError, match="'y' has 2 samples, 'x' 4"):
        values(None, graph, GivenValues({}, {"x": x, "y": y}))


def test_weights_that_are_given_stand_before_those_of_the_file(tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx")

    found = values(path, load(path).graph, GivenValues({"w": WEIGHT + 1}))

    assert found.weights == "given"
    assert np.array_equal(found.arrays["w"], WEIGHT + 1)


def test_bytes_of_a_model_hold_its_weights(tmp_path: Path) -> None:
    data = model(tmp_path / "m.onnx").read_bytes()

    found = model_values(load(data).graph, GivenValues(), data, ImportOptions(), 0)

    assert np.array_equal(found.arrays["w"], WEIGHT)


def test_random_inputs_are_several_samples(tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx")

    found = values(path, load(path).graph)

    assert len(found.samples) == 8
    assert not np.array_equal(found.samples[0]["x"], found.samples[1]["x"])
