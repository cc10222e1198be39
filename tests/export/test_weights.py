"""weights.safetensors: what the program takes, readable by the format's own library and by the script beside it."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
import safetensors
from onnx import TensorProto, helper, numpy_helper

from optimizer.errors import FormatError, OptionError
from optimizer.export.registry import emit, emitter_names
from optimizer.export.ttnn_py import run_model
from optimizer.options import Options
from optimizer.pipeline import optimize_file

SIZE = 128
RANDOM = np.random.default_rng(5)
MATRIX = RANDOM.standard_normal((SIZE, SIZE)).astype(np.float32)
TABLE = RANDOM.integers(0, 100, (SIZE, SIZE))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = (x w + b) * float(table)"""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["t"]),
        helper.make_node("Add", ["t", "b"], ["u"]),
        helper.make_node("Cast", ["table"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["u", "wide"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [SIZE, SIZE]) for n in "xy"]
    tensors = [numpy_helper.from_array(a, n) for n, a in {"w": MATRIX, "b": MATRIX[0], "table": TABLE}.items()]
    path = tmp_path / "model.onnx"
    graph = helper.make_graph(nodes, "m", ends[:1], ends[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_the_emitter_is_registered() -> None:
    assert "weights" in emitter_names()


def test_the_library_of_the_format_reads_what_is_written(model: Path, tmp_path: Path) -> None:
    path = emit(optimize_file(model, Options(policy="dram")), "weights", tmp_path / "out")

    found = dict(safetensors.deserialize(path.read_bytes()))
    assert {name: (entry["dtype"], entry["shape"]) for name, entry in found.items()} == {
        "w": ("BF16", [SIZE, SIZE]),
        "b": ("BF16", [SIZE]),
        "table": ("I32", [SIZE, SIZE]),
    }
    nearest = MATRIX.astype(ml_dtypes.bfloat16)
    assert bytes(found["w"]["data"]) == nearest.tobytes()
    assert bytes(found["table"]["data"]) == TABLE.astype("<i4").tobytes()


def test_f32_and_block_formats_are_held_in_f32(model: Path, tmp_path: Path) -> None:
    for weights in ("f32", "bfp8_b"):
        result = optimize_file(model, Options(policy="dram", weights_dtype=weights))
        arrays = run_model.read_arrays(emit(result, "weights", tmp_path / weights))
        np.testing.assert_array_equal(arrays["w"], MATRIX)


def test_the_script_reads_what_the_emitter_writes(model: Path, tmp_path: Path) -> None:
    arrays = run_model.read_arrays(emit(optimize_file(model, Options(policy="dram")), "weights", tmp_path / "out"))

    np.testing.assert_array_equal(arrays["b"], MATRIX[0].astype(ml_dtypes.bfloat16).astype(np.float32))
    np.testing.assert_array_equal(arrays["table"], TABLE)


def test_the_same_model_gives_the_same_bytes(model: Path, tmp_path: Path) -> None:
    first, second = (emit(optimize_file(model, Options(policy="dram")), "weights", tmp_path / n) for n in "ab")

    assert first.read_bytes() == second.read_bytes()


def test_a_result_without_its_model_has_no_weights(model: Path, tmp_path: Path) -> None:
    result = optimize_file(model.read_bytes(), Options(policy="dram"))

    with pytest.raises(OptionError, match="needs the file of the model"):
        emit(result, "weights", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_missing_elements_leave_no_file(model: Path, tmp_path: Path) -> None:
    proto = onnx.load(model)
    proto.graph.initializer[0].ClearField("raw_data")
    model.write_bytes(proto.SerializeToString())
    result = optimize_file(model, Options(policy="dram"))

    with pytest.raises(FormatError, match="weight 'w' has no elements"):
        emit(result, "weights", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
