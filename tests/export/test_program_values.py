"""Programs of real models compute what onnxruntime computes, with every tensor where its plan says.

A sample that is quick to plan; `benchmarks/program_values.py` runs every fixture, policy and board.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from net import Net, ints
from onnx import TensorProto, helper, numpy_helper
from program_witness import Agreement, agreement, case, executed
from ttnn_standin import Refused
from witnessed_models import MODELS

from optimizer.export.ttnn_py import render, ttnn_program
from optimizer.options import Options
from tests.plans import planned_file
from tests.samples import sampled

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "onnx"


@pytest.mark.parametrize("aliasing", [True, False])
@pytest.mark.parametrize("board", ["n150", "p150"])
@pytest.mark.parametrize("policy", ["dram", "dfsharding", "global"])
@pytest.mark.parametrize("model", MODELS)
def test_small_models(model: str, policy: str, board: str, aliasing: bool) -> None:
    """Whether TTNN hands back operands or copies them, nothing leaks and nothing is read after it was freed."""
    proto = MODELS[model]()
    result = planned_file(proto.SerializeToString(), Options(policy=policy, board=board), name=model)
    found = executed(result, case(proto), aliasing=aliasing)
    assert found.good, str(found)


@pytest.mark.parametrize("model", MODELS)
def test_bfloat16_after_every_op_stays_close(model: str) -> None:
    proto = MODELS[model]()
    result = planned_file(proto.SerializeToString(), Options(policy="dram", board="n150"), name=model)
    found = executed(result, case(proto), rounding=True)
    assert all(1e-4 < output.error < 2e-2 and output.pcc > 0.999 for output in found.outputs), str(found)


@pytest.mark.parametrize(
    ("model", "policy"),
    sampled(
        [("mobilenetv2_legacy17", "global"), ("resnet50_b1_legacy17", "global"),
         ("yolov8n_like_legacy17", "dram"), ("sd_unet_small_dynamo20", "dram"),
         ("whisper_tiny_encoder_dynamo20", "global"), ("dlrm_like_dynamo20", "dram")],
        kept=[("yolov8n_like_legacy17", "dram")],
        slow=[("mobilenetv2_legacy17", "global"), ("dlrm_like_dynamo20", "dram")],
    ),
)  # fmt: skip
@pytest.mark.slow
def test_fixtures(model: str, policy: str) -> None:
    path = FIXTURES / f"{model}.onnx"
    given = case(onnx.load(path, load_external_data=False))
    found = executed(planned_file(path, Options(policy=policy, board="n150")), given)
    assert found.good, str(found)


def model_of(net: Net, inputs: dict[str, tuple[int, ...]], output: str) -> onnx.ModelProto:
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in inputs.items()]
    weights = [numpy_helper.from_array(array, name) for name, array in net.weights.items()]
    made = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    graph = helper.make_graph(net.nodes, "one", given, made, weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(proto)


def test_an_upsampled_image_outlives_the_view_that_a_convolution_reads() -> None:
    """Row-major rows are reshaped without a copy: freeing the source would free what the next op reads."""
    net, weight = Net(), np.random.default_rng(0).standard_normal((32, 32, 3, 3)).astype(np.float32) / 17
    up = net("Resize", "x", "", np.float32([1, 1, 2, 2]), mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric")  # fmt: skip
    net("Conv", up, weight, pads=[1, 1, 1, 1], out="y")
    proto = model_of(net, {"x": (1, 32, 10, 10)}, "y")
    for policy in ("dram", "global"):
        result = planned_file(proto.SerializeToString(), Options(policy=policy, board="n150"), name="up")
        found = executed(result, case(proto))
        assert found.good, str(found)


def test_weights_in_constant_nodes_reach_the_program() -> None:
    """A constant above 8,192 elements is one of PARAMETERS, and the model's file has it in no initializer."""
    net, weight = Net(), np.random.default_rng(0).standard_normal((128, 96)).astype(np.float32) / 11
    constant = net("Constant", out="table", value=numpy_helper.from_array(weight))
    net("MatMul", "x", constant, out="y")
    proto = model_of(net, {"x": (32, 128)}, "y")
    result = planned_file(proto.SerializeToString(), Options(policy="dram", board="n150"), name="constant")
    assert "table" in {entry.name for entry in ttnn_program(result).parameters}
    found = executed(result, case(proto))
    assert found.good, str(found)


def test_missing_weights_are_an_error() -> None:
    net = Net()
    net("Gemm", "x", np.ones((64, 32), np.float32), np.ones(32, np.float32), out="y")
    proto = model_of(net, {"x": (32, 64)}, "y")
    given = case(proto)
    result = planned_file(proto.SerializeToString(), Options(policy="dram", board="n150"), name="missing")
    name = next(iter(given.weights))
    without = {key: array for key, array in given.weights.items() if key != name}
    with pytest.raises(Refused, match=f"no arrays for {name}"):
        executed(result, replace(given, weights=without))


def test_a_tensor_elsewhere_than_planned_is_refused() -> None:
    proto = MODELS["encoder"]()
    result = planned_file(proto.SerializeToString(), Options(policy="dram", board="n150"), name="encoder")

    def moved(text: str) -> str:
        assert text == render(ttnn_program(result))
        start = text.index("ttnn.subtract(")
        return text[:start] + text[start:].replace("ttnn.DRAM_MEMORY_CONFIG", "ttnn.L1_MEMORY_CONFIG", 1)

    with pytest.raises(Refused, match="planned"):
        executed(result, case(proto), moved)


@pytest.mark.parametrize(
    ("change", "good"),
    [(lambda y: y, True), (lambda y: 1.01 * y, False), (lambda y: y + 0.1, False), (lambda y: y[::-1], False),
     (lambda y: y * np.nan, False), (lambda y: y[1:], False)],
)  # fmt: skip
def test_agreement_sees_gain_offset_order_and_shape(change: Any, good: bool) -> None:
    want = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    assert agreement(want, change(want)).good == good


def test_agreement_of_outputs_of_one_value() -> None:
    ones = np.ones(5, np.float32)
    assert agreement(ones, ones) == Agreement(1.0, 0.0, 1.0)
    assert not agreement(ones, 2 * ones).good


def turned_square(net: Net) -> tuple[int, ...]:
    """Its result has the operand's shape, and is a copy all the same: to be freed."""
    net("Relu", net("Transpose", net("Exp", net("Transpose", "x", perm=[0, 2, 1])), perm=[0, 2, 1]), out="y")
    return (2, 40, 40)


def sum_of_all(net: Net) -> tuple[int, ...]:
    """A number becomes [1] without a copy."""
    net("Reshape", net("ReduceSum", "x", keepdims=0), ints(1), out="y")
    return (2, 12, 40)


def rows_padded_in_front(net: Net) -> tuple[int, ...]:
    """Padding in front is of row-major tensors; within a tile's width it is a copy there."""
    part = net("Slice", "x", ints(1), ints(6), ints(2))
    net("Pad", part, ints(0, 0, 0, 1, 0, 0, 0, 2), out="y")
    return (2, 3, 8, 6)


def tiles_padded(net: Net) -> tuple[int, ...]:
    """Padding within the tiles is in place; the source goes with the result."""
    net("Exp", net("Pad", net("Relu", "x"), ints(0, 0, 0, 0, 0, 3)), out="y")
    return (2, 5, 6)


def transposed_convolution(net: Net) -> tuple[int, ...]:
    weight = np.random.default_rng(0).standard_normal((32, 32, 2, 2)).astype(np.float32) / 11
    net("ConvTranspose", net("Relu", "x"), weight, strides=[2, 2], out="y")
    return (1, 32, 8, 8)


SHARED = (turned_square, sum_of_all, rows_padded_in_front, tiles_padded, transposed_convolution)


@pytest.mark.parametrize("policy", ["dram", "global"])
@pytest.mark.parametrize("build", SHARED, ids=lambda build: build.__name__)
def test_what_shares_memory_is_freed_once_and_in_time(build: Callable[[Net], tuple[int, ...]], policy: str) -> None:
    net = Net()
    proto = model_of(net, {"x": build(net)}, "y")
    result = planned_file(proto.SerializeToString(), Options(policy=policy, board="n150"), name="shared")
    found = executed(result, case(proto))
    assert found.good, str(found)


def test_slices_of_one_row_keep_their_rows() -> None:
    """A slice, its transposition and a sum over what is left."""
    net = Net()
    part = net("Slice", "x", ints(3), ints(9), ints(1))
    turned = net("Transpose", part, perm=[0, 2, 1])
    net("ReduceSum", turned, ints(2), keepdims=0, out="y")
    proto = model_of(net, {"x": (2, 12, 40)}, "y")
    result = planned_file(proto.SerializeToString(), Options(policy="global", board="n150"), name="slices")
    found = executed(result, case(proto))
    assert found.good, str(found)
