"""`load`: formats, laziness, element types, names, the report."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from optimizer.errors import LimitError
from optimizer.importers import ImportLimits, load
from optimizer.importers.loading import FORMATS
from optimizer.ir.dtype import DType

Model = Callable[..., onnx.ModelProto]


def test_importing_the_package_loads_no_onnx() -> None:
    code = "import sys, optimizer.importers; print([m for m in sys.modules if m.split('.')[0] in ('onnx', 'onnx_ir')])"

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "[]"


@pytest.fixture
def small(make_model: Model) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], name="embed"),
        helper.make_node("Cast", ["rows"], ["wide"], name="widen", to=TensorProto.FLOAT),
        helper.make_node("Add", ["wide", "bias"], ["y"], name="shift"),
    ]
    weights = {"table": np.ones((9, 4), np.float16), "bias": np.ones(4, np.float32)}
    return make_model(nodes, {"ids": ((2, 3), TensorProto.INT64)}, ["y"], weights)


def test_content_gives_name_and_hash(small: onnx.ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "tiny.onnx"
    path.write_bytes(small.SerializeToString())

    model = load(path)

    assert model.graph.name == "small"  # the graph's own name, not the file's
    assert model.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert load(path, name="other").graph.name == "other"


def test_content_decides_without_a_known_suffix(small: onnx.ModelProto, tmp_path: Path) -> None:
    for suffix in ("", ".bin"):
        path = tmp_path / f"model{suffix}"
        path.write_bytes(small.SerializeToString())
        assert len(load(path).graph) == 2
        path.write_text(
            json.dumps(
                {
                    "model": {"inputs": ["x"], "outputs": ["y"]},
                    "values": {"x": {"shape": [32, 32]}},
                    "ops": [{"id": "r", "op": "ttnn.relu", "inputs": ["x"], "outputs": ["y"]}],
                }
            )
        )
        assert len(load(path).graph) == 1
    assert sorted(FORMATS) == ["json", "onnx"]


def test_floats_become_bf16_and_say_so(small: onnx.ModelProto) -> None:
    model = load(small.SerializeToString())

    assert {v.dtype for v in model.graph.values.values()} == {DType.BF16, DType.U32}
    assert [op.op for op in model.graph.ops()] == ["ttnn.embedding", "ttnn.add"]
    assert model.report.dtype_conversions == {"f32 -> bf16": 1, "float16 -> bf16": 1}
    assert sum("converted" in w for w in model.report.warnings) == 1


def test_chosen_types(small: onnx.ModelProto) -> None:
    graph = load(small.SerializeToString(), activations_dtype="bf16", weights_dtype=DType.BFP8_B).graph

    assert graph.value("table").dtype is DType.BFP8_B
    assert graph.value("bias").dtype is DType.BF16  # a block format needs rows


def test_kept_types_keep_their_casts(small: onnx.ModelProto) -> None:
    graph = load(small.SerializeToString(), activations_dtype="keep").graph

    assert graph.value("table").dtype is DType.BF16
    assert graph.value("y").dtype is DType.F32
    assert [op.op for op in graph.ops()] == ["ttnn.embedding", "ttnn.typecast", "ttnn.add"]


def test_small_weights_are_parameters_and_folded_numbers_constants(make_model: Model) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["a"], name="scale"),
        helper.make_node("Constant", [], ["k"], value=onnx.numpy_helper.from_array(np.arange(4, dtype=np.float32))),
        helper.make_node("Neg", ["k"], ["n"], name="fold"),
        helper.make_node("Add", ["a", "n"], ["y"], name="shift"),
    ]

    graph = load(make_model(nodes, {"x": (2, 4)}, ["y"], {"w": np.ones(4, np.float32)}).SerializeToString()).graph

    assert (graph.value("w").kind, graph.value("w").data) == ("parameter", None)
    assert (graph.value("n").kind, graph.value("n").data) == ("constant", (0.0, -1.0, -2.0, -3.0))


def test_outputs_keep_their_names_and_order(make_model: Model) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="act"),
        helper.make_node("Reshape", ["h", "s"], ["second"], name="shape"),
        helper.make_node("Transpose", ["x"], ["t"], name="turn", perm=[1, 0]),
        helper.make_node("Transpose", ["t"], ["first"], name="back", perm=[1, 0]),
    ]
    model = make_model(nodes, {"x": (2, 4)}, ["first", "second", "h"], {"s": np.asarray([8], np.int64)})

    graph = load(model.SerializeToString()).graph

    assert list(graph.outputs) == ["first", "second", "h"]
    assert all(graph.producer(v) is not None for v in graph.outputs)


def test_returned_input_is_copied(make_model: Model) -> None:
    node = helper.make_node("Identity", ["x"], ["y"], name="copy")

    graph = load(make_model([node], {"x": (2, 4)}, ["y"]).SerializeToString()).graph

    assert [(op.op, op.inputs, op.outputs) for op in graph.ops()] == [("ttnn.identity", ("x",), ("y",))]


def test_initializers_among_the_inputs_are_weights(make_model: Model) -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"])
    model = make_model([node], {"x": (2, 4), "w": (4,)}, ["y"], {"w": np.ones(4, np.float32)}, opset=8)
    model.ir_version = 3

    graph = load(model.SerializeToString()).graph

    assert graph.inputs == ["x"]
    assert graph.value("w").kind == "parameter"


def test_unused_inputs_stay(make_model: Model) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])

    graph = load(make_model([node], {"x": (2,), "unused": (3,)}, ["y"]).SerializeToString()).graph

    assert graph.inputs == ["x", "unused"]
    assert graph.value("unused").shape == (3,)


def test_local_functions_are_inlined(make_model: Model) -> None:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    body = [
        helper.make_node("Sigmoid", ["a"], ["s"], name="gate"),
        helper.make_node("Mul", ["a", "s"], ["b"], name="mul"),
    ]
    function = helper.make_function("local", "Swish", ["a"], ["b"], body, imports)
    node = helper.make_node("Swish", ["x"], ["y"], name="call", domain="local")
    model = make_model([node], {"x": (2, 4)}, ["y"], domains=["local"])
    model.functions.append(function)

    graph = load(model.SerializeToString()).graph

    assert [op.op for op in graph.ops()] == ["ttnn.silu"]


def test_decided_branch_is_inlined(make_model: Model) -> None:
    def branch(op: str) -> onnx.GraphProto:
        result = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(op, ["x"], ["r"], name=op)], op, [], [result])

    nodes = [
        helper.make_node("Size", ["x"], ["n"]),
        helper.make_node("Equal", ["n", "eight"], ["c"]),
        helper.make_node("If", ["c"], ["y"], name="choice", then_branch=branch("Relu"), else_branch=branch("Neg")),
    ]

    graph = load(make_model(nodes, {"x": (2, 4)}, ["y"], {"eight": np.asarray(8)}).SerializeToString()).graph

    assert [op.op for op in graph.ops()] == ["ttnn.relu"]
    assert list(graph.outputs) == ["y"]


def test_infinite_constants_become_finite(make_model: Model) -> None:
    node = helper.make_node("Where", ["c", "low", "x"], ["y"])
    model = make_model([node], {"x": (2, 4), "c": ((2, 4), TensorProto.BOOL)}, ["y"], {"low": np.float32(-np.inf)})

    graph = load(model.SerializeToString()).graph

    assert next(graph.ops()).attrs["x"] == pytest.approx(-3.39e38, rel=1e-2)


def test_report_counts(small: onnx.ModelProto) -> None:
    report = load(small.SerializeToString()).report

    assert report.foreign_ops == {"Add": 1, "Cast": 1, "Gather": 1}
    assert report.parameter_count == 40
    assert report.parameter_bytes == 80


def test_file_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.onnx"
    with path.open("wb") as file:
        file.truncate(5 << 30)  # sparse

    with pytest.raises(LimitError, match="bytes"):
        load(path, limits=ImportLimits())


def test_device_is_read_no_further_than_the_limit() -> None:
    with pytest.raises(LimitError, match="/dev/zero has more than 1000 bytes"):
        load("/dev/zero", limits=ImportLimits(max_bytes=1000))
