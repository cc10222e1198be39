"""A convolution that no config runs is computed in another way, and the result says so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from optimizer.errors import InfeasibleError
from optimizer.options import Options
from optimizer.pipeline import optimize_file
from optimizer.recheck import check_record
from optimizer.result import OptimizedGraph


def spectrum(group: int = 1, count: int = 1, length: int = 640) -> bytes:
    """Convolutions of a long signal with windows of 256 in steps of 128."""
    weight = numpy_helper.from_array(np.zeros((258, 1, 256), np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], [f"y{k}"], name=f"conv{k}", strides=[128], group=group)
        for k in range(count)
    ]
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, group, length])]
    out = [1, 258, (length - 256) // 128 + 1]
    results = [helper.make_tensor_value_info(f"y{k}", TensorProto.FLOAT, out) for k in range(count)]
    graph = helper.make_graph(nodes, "spectrum", ends, results, [weight])
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())


def placed(source: bytes, board: str = "n150", **options: object) -> OptimizedGraph:
    return optimize_file(source, Options.from_mapping({"board": board, "policy": "dfsharding", **options}))


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_a_long_convolution_becomes_a_product(board: str) -> None:
    result = placed(spectrum(), board)

    ops = [op.op for op in result.graph.run_ops()]
    assert "ttnn.conv2d" not in ops
    assert ops.count("ttnn.linear") == 1
    (note,) = result.summary["rewritten"]
    assert (note["op"], note["pass"]) == ("conv0", "unfold-convolution")
    assert "DRAM Auto slice" in note["because"]
    assert any("runs in another way (unfold-convolution)" in line for line in result.summary["warnings"])


@pytest.mark.usefixtures("needs_ttnn")
@pytest.mark.parametrize("board", ["n150", "p150"])
def test_tt_metal_runs_what_it_becomes(board: str) -> None:
    check = placed(spectrum(), board, check="ttmetal").summary["check"]

    assert (check["ok"], check["rounds"]) == (True, 1)


def test_such_a_result_is_that_of_its_model(tmp_path: Path) -> None:
    source = spectrum()
    result = placed(source)

    record = check_record(result, model=source)

    assert (record["ok"], record["errors"]) == (True, [])
    json.dumps(result.to_json())


def test_a_result_that_denies_it_is_found_out() -> None:
    source = spectrum()
    result = placed(source)
    result.summary["rewritten"] = []

    assert not check_record(result, model=source)["ok"]


def test_equal_convolutions_are_rewritten_alike() -> None:
    result = placed(spectrum(count=2))

    assert [note["op"] for note in result.summary["rewritten"]] in (["conv0"], ["conv0", "conv1"])
    assert "ttnn.conv2d" not in [op.op for op in result.graph.run_ops()]


def test_what_no_way_helps_is_refused_by_name() -> None:
    with pytest.raises(InfeasibleError, match=r"conv0: ttnn\.conv2d cannot run"):
        placed(spectrum(group=2))
