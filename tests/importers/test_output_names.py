"""Outputs keep the model's names, whatever the graph calls their values."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from optimizer import Options, optimize
from optimizer.answers.checking import check_record
from optimizer.errors import GraphError
from optimizer.export.reader import read_result
from optimizer.export.registry import emit

RELU = helper.make_node("Relu", ["x"], ["y"])


def model(path: Path, *nodes: onnx.NodeProto, outputs: tuple[str, ...]) -> Path:
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [32, 32]) for name in ("x", *outputs)]
    weight = numpy_helper.from_array(np.ones((32, 32), np.float32), "c")
    graph = helper.make_graph([RELU, *nodes], "g", tensors[:1], tensors[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ([helper.make_node("Identity", ["y"], ["z"])], ("y", "z")),
        ([helper.make_node("Identity", ["c"], ["z"])], ("y", "z")),
        ([], ("y", "c")),
    ],
    ids=["equal another", "constant", "weight"],
)
def test_an_output_is_called_as_in_the_model(
    nodes: list[onnx.NodeProto], names: tuple[str, ...], tmp_path: Path
) -> None:
    path = model(tmp_path / "m.onnx", *nodes, outputs=names)

    result = optimize(path, "n150", Options(policy="dram"))
    emit(result, "json", tmp_path)
    program = emit(result, "ttnn-py", tmp_path)

    assert result.output_names == read_result(tmp_path).output_names == names
    assert f"OUTPUTS = {list(names)!r}" in program.read_text().replace("(", "[").replace(")", "]").replace('"', "'")
    assert check_record(read_result(tmp_path), None, path)["errors"] == []


def test_names_of_a_document_are_those_of_its_outputs(tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx", helper.make_node("Identity", ["y"], ["z"]), outputs=("y", "z"))
    emit(optimize(path, "n150", Options(policy="dram")), "json", tmp_path)
    document = json.loads((tmp_path / "graph.json").read_text())

    document["model"]["output_names"] = ["z", "z"]
    (tmp_path / "graph.json").write_text(json.dumps(document))

    with pytest.raises(GraphError, match="must name 2 outputs, each once"):
        read_result(tmp_path)
