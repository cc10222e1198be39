"""Which tensors of the model the values of an import stand for. That they equal them is tested by `witness.compare`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from net import Net, f32, ints

from optimizer.device import DeviceSpec
from optimizer.errors import GraphError
from optimizer.export.reader import read_result
from optimizer.export.registry import emit
from optimizer.importers import load
from optimizer.ir.graph import ForeignTensor, Graph, Value
from optimizer.options import Options
from optimizer.pipeline import optimize
from tests import plans

Model = Callable[..., onnx.ModelProto]
FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "onnx"


def imported(net: Net, shape: tuple[int, ...], output: str, make_model: Model) -> Graph:
    return load(make_model(net.nodes, {"x": shape}, [output], net.weights).SerializeToString()).graph


def run_values(graph: Graph) -> list[Value]:
    return [graph.value(v) for op in graph.run_ops() for v in op.outputs]


def test_a_convolution_stands_for_its_tensor_channels_last(make_model: Model) -> None:
    net = Net()
    y = net("Relu", net("Conv", "x", f32(8, 4, 3, 3), pads=[1, 1, 1, 1], out="conv"), out="y")
    net("Sigmoid", y, out="z")

    graph = imported(net, (1, 4, 6, 5), "z", make_model)

    (conv,) = [op for op in graph.ops() if op.op == "ttnn.conv2d"]
    value = graph.value(conv.outputs[0])
    assert value.shape == (1, 1, 30, 8)
    assert value.stands_for == ForeignTensor("y", (1, 8, 6, 5), (0, 2, 3, 1))
    assert graph.value("z").stands_for == ForeignTensor.whole("z", (1, 8, 6, 5))
    assert all(v.stands_for is not None for v in run_values(graph))


def test_a_value_that_computes_something_else_has_another_name_and_stands_for_nothing(make_model: Model) -> None:
    net = Net()
    root = net("Sqrt", net("Abs", "x", out="abs"), out="root")
    net("Div", "x", root, out="y")

    graph = imported(net, (4, 32), "y", make_model)

    rsqrt = next(op for op in graph.ops() if op.op == "ttnn.rsqrt")
    assert "root" not in graph.values
    assert graph.value(rsqrt.outputs[0]).stands_for is None
    assert [graph.value(v).stands_for is not None for v in ("abs", "y")] == [True, True]


def test_heads_whose_scale_moved_into_the_attention_have_another_name(make_model: Model) -> None:
    net = Net()
    projected = net("Mul", net("MatMul", "x", f32(64, 64)), np.float32(0.125), out="scaled")
    heads = [net("Transpose", net("Reshape", v, ints(1, 32, 2, 32)), perm=[0, 2, 1, 3], out=out)
             for v, out in ((projected, "queries"), (net("MatMul", "x", f32(64, 64)), "values"))]  # fmt: skip
    keys = net("Transpose", heads[1], perm=[0, 1, 3, 2])
    scores = net("Softmax", net("MatMul", heads[0], keys), axis=-1)
    y = net("MatMul", scores, heads[1], out="y")

    graph = imported(net, (1, 32, 64), y, make_model)

    assert [op.op for op in graph.ops()].count("ttnn.scaled_dot_product_attention") == 1
    assert "queries" not in graph.values
    assert "scaled" not in graph.values


@pytest.mark.parametrize(
    ("name", "share"),
    [("resnet50_b1_legacy17", 1.0), ("mobilenetv2_legacy17", 1.0), ("dlrm_like_dynamo20", 1.0),
     ("mlp_mixer_b16_dynamo20", 1.0), ("yolov8n_like_legacy17", 0.95), ("whisper_tiny_encoder_dynamo20", 0.75)],
)  # fmt: skip
def test_most_values_of_real_models_stand_for_tensors(name: str, share: float) -> None:
    values = run_values(plans.imported(FOLDER / f"{name}.onnx").graph)

    assert sum(v.stands_for is not None for v in values) >= share * len(values)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.onnx")), ids=lambda path: path.stem)
def test_a_value_with_a_tensors_name_stands_for_it_whole(path: Path) -> None:
    proto = onnx.load(path, load_external_data=False)
    tensors = {name for node in proto.graph.node for name in node.output}

    values = [v for v in run_values(plans.imported(path).graph) if v.id in tensors]

    assert [v.id for v in values if v.stands_for is None or v.stands_for.dims != tuple(range(len(v.shape)))] == []


def test_the_document_says_what_values_stand_for_and_is_read_back(make_model: Model, tmp_path: Path) -> None:
    net = Net()
    net("Relu", net("Conv", "x", f32(32, 32, 3, 3), pads=[1, 1, 1, 1]), out="y")
    model = load(make_model(net.nodes, {"x": (1, 32, 8, 8)}, ["y"], net.weights).SerializeToString())
    result = optimize(model, DeviceSpec.preset("n150"), Options())
    text = emit(result, "json", tmp_path).read_bytes()

    again = read_result(tmp_path)

    assert {v.stands_for for v in again.graph.values.values()} == {v.stands_for for v in result.graph.values.values()}
    spilled = next(op for op in result.graph.ops() if op.op == "ttnn.conv2d").outputs[0]
    assert result.to_json()["values"][spilled]["stands_for"] == {
        "name": "y",
        "shape": [1, 32, 8, 8],
        "dims": [0, 2, 3, 1],
    }
    assert load(text).graph.value("y").stands_for == ForeignTensor.whole("y", (1, 32, 8, 8))
    document = json.loads(text)
    document["values"]["y"]["stands_for"]["dims"] = [0, 0, 1, 2]
    with pytest.raises(GraphError, match="is not held by") as caught:
        load(json.dumps(document).encode())
    assert caught.value.node == "stands_for of y"
