"""`annotated.onnx`: still the user's model, with the plan's decisions at its nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from optimizer.errors import OptionError
from optimizer.export.onnx_annotated import MODEL_FILE, NODES_FILE, annotate, write
from optimizer.export.reader import read_result
from optimizer.options import Options
from optimizer.pipeline import optimize_file
from optimizer.result import OptimizedGraph
from tests.plans import planned_file
from tests.samples import sampled

OPTIONS = Options.from_mapping({"board": "n150"})
MODELS = ("resnet50_b1_legacy17", "llama32_1b_2l_dynamo20", "yolov8n_like_legacy17")
GRAPHS = Path(__file__).resolve().parents[2] / "fixtures" / "graphs"


def entries(holder: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in holder.metadata_props}


def annotated(model: Path, folder: Path, options: Options = OPTIONS) -> tuple[OptimizedGraph, onnx.ModelProto]:
    """The result of a model, and its annotated file."""
    result = planned_file(model, options)
    return result, onnx.load(write(result, folder), load_external_data=False)


def without_source(result: OptimizedGraph) -> dict[str, Any]:
    """A result without what tells of its file and of the run."""
    record = result.to_json()
    del record["timings"], record["model"]["sha256"]
    return record


def test_every_decision_stands_at_its_node(mlp_onnx: Path, tmp_path: Path) -> None:
    result, model = annotated(mlp_onnx, tmp_path)
    onnx.checker.check_model(model)
    told = {node.name: entries(node) for node in model.graph.node}
    assert set(told) == {"fc1", "act", "fc2"}
    for op in result.graph.run_ops():
        for name in {op.name, *op.origin} & set(told):
            assert op.id in json.loads(told[name]["ttopt.ids"])
            assert told[name]["ttopt.layout"]
    (last,) = (op for op in result.graph.run_ops() if op.name == "fc2")
    assert told["fc2"]["ttopt.layout"] == result.layouts[last.outputs[0]].describe()
    assert told["fc2"]["ttopt.op"] == "ttnn.matmul"
    assert told["fc2"]["ttopt.reason"]
    assert int(told["fc2"]["ttopt.predicted_ns"]) > 0
    assert json.loads(told["act"]["ttopt.shared_with"]) == ["fc1"]


def test_the_model_says_that_nothing_was_measured(mlp_onnx: Path, tmp_path: Path) -> None:
    result, model = annotated(mlp_onnx, tmp_path)
    told = entries(model)
    assert told["ttopt.predicted"] == "every figure is a prediction: nothing was measured"
    assert told["ttopt.board"] == "n150"
    assert int(told["ttopt.predicted_time_ns"]) == result.summary.predicted_time_ns
    assert told["ttopt.sha256"] == result.model["sha256"]


def test_the_json_beside_it_says_the_same(mlp_onnx: Path, tmp_path: Path) -> None:
    _, model = annotated(mlp_onnx, tmp_path)
    beside = json.loads((tmp_path / NODES_FILE).read_text(encoding="utf-8"))
    assert beside["not_in_file"] == {}
    for node in model.graph.node:
        assert entries(node)["ttopt.layout"] == beside["nodes"][node.name]["layout"]
    assert beside["model"]["board"] == "n150"


def test_what_the_model_computes_stays(mlp_onnx: Path, tmp_path: Path) -> None:
    annotated(mlp_onnx, tmp_path)
    x = np.linspace(-1, 1, 256 * 512, dtype=np.float32).reshape(256, 512)
    before, after = (
        onnxruntime.InferenceSession(str(path)).run(None, {"x": x}) for path in (mlp_onnx, tmp_path / MODEL_FILE)
    )
    np.testing.assert_array_equal(before[0], after[0])


def test_the_annotated_model_gives_the_same_plan(mlp_onnx: Path, tmp_path: Path) -> None:
    result, _ = annotated(mlp_onnx, tmp_path)
    assert without_source(optimize_file(tmp_path / MODEL_FILE, OPTIONS)) == without_source(result)


@pytest.mark.parametrize("name", sampled(MODELS, [], [MODELS[0]]))
def test_whole_models_give_the_same_plan(fixtures: Path, tmp_path: Path, name: str) -> None:
    result, model = annotated(fixtures / f"{name}.onnx", tmp_path)
    assert without_source(optimize_file(tmp_path / MODEL_FILE, OPTIONS)) == without_source(result)
    assert json.loads((tmp_path / NODES_FILE).read_text(encoding="utf-8"))["not_in_file"] == {}
    silent = [node.name for node in model.graph.node if not entries(node) and node.op_type != "Constant"]
    assert silent == []
    told = {i for node in model.graph.node for i in json.loads(entries(node).get("ttopt.ids", "[]"))}
    computed = {op.id for op in result.graph.run_ops() if result.records[op.id].role.value in ("compute", "view")}
    assert {i for i in computed if result.graph.op(i).origin} <= told


def test_annotating_again_replaces_our_own_entries_only(mlp_onnx: Path) -> None:
    result = planned_file(mlp_onnx, OPTIONS)
    model = onnx.load(mlp_onnx)
    model.graph.node[0].metadata_props.add(key="author", value="somebody")
    annotate(model, result)
    once = model.SerializeToString()
    annotate(model, result)
    assert model.SerializeToString() == once
    assert entries(model.graph.node[0])["author"] == "somebody"


def save(path: Path, nodes: list[onnx.NodeProto], weights: dict[str, list[int]], size: int = 64, **more: Any) -> Path:
    """A model from x to y, both of [size, size]."""
    path.parent.mkdir(parents=True, exist_ok=True)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [size, size]) for name in "xy")
    arrays = [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in weights.items()]
    graph = helper.make_graph(nodes, "net", [x], [y], arrays)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=more.pop("functions", ()))
    onnx.save(model, path, **more)
    return path


def test_weights_in_another_file_stay_there(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="fc"),
        helper.make_node("Relu", ["h"], ["y"], name="act"),
    ]
    external = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
    model = save(tmp_path / "own" / "model.onnx", nodes, {"w": [64, 64]}, **external)
    data = (model.parent / "weights.bin").read_bytes()
    result, there = annotated(model, model.parent)
    assert (model.parent / "weights.bin").read_bytes() == data
    assert json.loads(entries(there)["ttopt.external_data"]) == ["weights.bin"]
    onnx.checker.check_model(model.parent / MODEL_FILE)
    np.testing.assert_array_equal(
        numpy_helper.to_array(onnx.load(model.parent / MODEL_FILE).graph.initializer[0]), np.ones((64, 64))
    )
    assert without_source(optimize_file(model.parent / MODEL_FILE, OPTIONS)) == without_source(result)


def test_nodes_without_names_are_called_after_their_output(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    _, model = annotated(save(tmp_path / "model.onnx", nodes, {"w": [64, 64]}), tmp_path / "out")
    assert all("ttopt.layout" in entries(node) for node in model.graph.node)
    beside = json.loads((tmp_path / "out" / NODES_FILE).read_text(encoding="utf-8"))
    assert list(beside["nodes"]) == ["h", "y"]


def test_a_call_of_a_function_tells_of_all_that_is_in_it(tmp_path: Path) -> None:
    body = [
        helper.make_node("MatMul", ["a", "b"], ["c"], name="inner"),
        helper.make_node("Relu", ["c"], ["d"], name="act"),
    ]
    function = helper.make_function("own", "Layer", ["a", "b"], ["d"], body, [helper.make_opsetid("", 17)])
    nodes = [
        helper.make_node("Layer", ["x", "w"], ["h"], name="first", domain="own"),
        helper.make_node("Layer", ["h", "w"], ["y"], name="second", domain="own"),
    ]
    model = save(tmp_path / "model.onnx", nodes, {"w": [64, 64]}, functions=[function])
    result, found = annotated(model, tmp_path / "out")
    told = [json.loads(entries(node)["ttopt.ids"]) for node in found.graph.node]
    products = [op.id for op in result.graph.run_ops() if op.op in ("ttnn.matmul", "ttnn.linear")]
    assert [ids[0] for ids in told] == products
    beside = json.loads((tmp_path / "out" / NODES_FILE).read_text(encoding="utf-8"))
    assert (list(beside["nodes"]), beside["not_in_file"]) == (["first", "second"], {})


def test_a_node_that_is_not_needed_says_so(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["h"], name="same"),
        helper.make_node("Relu", ["h"], ["y"], name="act"),
    ]
    _, model = annotated(save(tmp_path / "model.onnx", nodes, {}), tmp_path / "out")
    told = {node.name: entries(node) for node in model.graph.node}
    assert "folded" in told["same"]["ttopt.absent"]
    assert "ttopt.absent" not in told["act"]


def test_a_json_graph_has_no_file_to_annotate(tmp_path: Path) -> None:
    result = planned_file(GRAPHS / "mlp.json", OPTIONS)
    with pytest.raises(OptionError, match=r"annotates ONNX files, and mlp\.json is a model of the format 'json'"):
        write(result, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_model_is_not_written_over(mlp_onnx: Path, tmp_path: Path) -> None:
    model = tmp_path / MODEL_FILE
    model.write_bytes(mlp_onnx.read_bytes())
    result = planned_file(model, OPTIONS)
    with pytest.raises(OptionError, match="is the model itself"):
        write(result, tmp_path)
    assert model.read_bytes() == mlp_onnx.read_bytes()


def test_a_result_without_its_model_or_with_another_one(mlp_onnx: Path, tmp_path: Path) -> None:
    result = planned_file(mlp_onnx, OPTIONS)
    (tmp_path / "graph.json").write_text(json.dumps(result.to_json()), encoding="utf-8")
    alone = read_result(tmp_path)
    with pytest.raises(OptionError, match="needs the file of the model") as raised:
        write(alone, tmp_path)
    assert "ttopt export RESULT --emit onnx --model MODEL.onnx" in raised.value.alternatives
    alone.source = save(tmp_path / "other.onnx", [helper.make_node("Relu", ["x"], ["y"], name="act")], {})
    with pytest.raises(OptionError, match=r"other.onnx is not the file .* the result names"):
        write(alone, tmp_path)
    alone.source = mlp_onnx
    assert write(alone, tmp_path).name == MODEL_FILE
