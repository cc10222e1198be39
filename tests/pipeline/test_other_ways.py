"""A convolution that no config runs is computed in another way, and the result says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from optimizer.answers.checking import check_record
from optimizer.device import DeviceSpec
from optimizer.errors import InfeasibleError
from optimizer.importers.passes.convolution_ways import UnfoldConvolution
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.options import Options
from optimizer.pipeline import optimize, optimize_file
from optimizer.result import OptimizedGraph
from optimizer.values.graph_values import graph_values


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
    (note,) = result.summary.rewritten
    assert (note.op, note.way) == ("conv0", "unfold-convolution")
    assert "DRAM Auto slice" in note.because
    assert any("runs in another way (unfold-convolution)" in line for line in result.summary.warnings)


@pytest.mark.usefixtures("needs_ttnn")
@pytest.mark.parametrize("board", ["n150", "p150"])
def test_tt_metal_runs_what_it_becomes(board: str) -> None:
    check = placed(spectrum(), board, check="ttmetal").summary.check

    assert (check.ok, check.rounds) == (True, 1)


def test_such_a_result_is_that_of_its_model(tmp_path: Path) -> None:
    source = spectrum()
    result = placed(source)

    record = check_record(result, model=source)

    assert (record["ok"], record["errors"]) == (True, [])
    json.dumps(result.to_json())


def test_a_result_that_denies_it_is_found_out() -> None:
    source = spectrum()
    result = placed(source)
    result.priced = result.summary.model_copy(update={"rewritten": ()})

    assert not check_record(result, model=source)["ok"]


def test_equal_convolutions_are_rewritten_alike() -> None:
    result = placed(spectrum(count=2))

    assert [note.op for note in result.summary.rewritten] in (["conv0"], ["conv0", "conv1"])
    assert "ttnn.conv2d" not in [op.op for op in result.graph.run_ops()]


# size (N, H, W), kernel, stride, padding, dilation, input and output channels, groups
REFUSED: dict[str, tuple[Any, ...]] = {
    "split-kernel-width": ((1, 1, 64), (1, 256), (1, 1), (0, 0, 128, 128), (1, 1), 3, 3, 1),
    "split-kernel-height": ((1, 32, 32), (31, 31), (2, 2), (180,) * 4, (12, 12), 12, 8, 4),
    "split-groups": ((1, 112, 14), (11, 11), (2, 2), (0,) * 4, (1, 1), 16, 128, 8),
    "split-groups, unfold-convolution": ((1, 1, 64), (1, 512), (1, 1024), (0, 0, 511, 0), (1, 1), 8, 64, 4),
    "split-batch": ((2, 14, 7), (7, 7), (1, 1), (0,) * 4, (1, 1), 256, 512, 256),
    "split-height": ((1, 224, 7), (3, 3), (4, 4), (0,) * 4, (2, 2), 32, 128, 8),
    "split-width": ((1, 32, 1024), (16, 16), (4, 4), (0,) * 4, (1, 1), 3, 3, 3),
}
"""Convolutions that an n150 refuses, by what is done."""


def convolution(
    size: tuple[int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, ...],
    dilation: tuple[int, int],
    channels: int,
    results: int,
    groups: int,
) -> Graph:
    batch, height, width = size
    b = GraphBuilder("conv")
    x = b.input("x", (1, 1, batch * height * width, channels))
    weights = b.parameter("w", (results, channels // groups, *kernel)), b.parameter("b", (1, 1, 1, results))
    attrs = {"batch_size": batch, "input_height": height, "input_width": width, "kernel_size": kernel}
    attrs |= {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "activation": "silu"}
    attrs |= {"in_channels": channels, "out_channels": results}
    return b.finish(b.op("ttnn.conv2d", x, *weights, name="conv", **attrs))  # type: ignore[arg-type]


def optimised(graph: Graph, **options: object) -> OptimizedGraph:
    given = Options.from_mapping({"board": "n150", "policy": "dram", "rewrites": False, **options})
    return optimize(graph, DeviceSpec.preset("n150"), given)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_convolutions_are_split(name: str) -> None:
    graph = convolution(*REFUSED[name])
    rng = np.random.default_rng(3)
    given = {v.id: rng.standard_normal(v.shape) for v in graph.values.values() if graph.producer(v.id) is None}

    result = optimised(graph)

    assert [note.way for note in result.summary.rewritten] == [name]
    (wanted,), (got,) = graph_values(graph, given), graph_values(result.graph, given)
    np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.usefixtures("needs_ttnn")
@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.slow
def test_tt_metal_runs_the_parts(name: str) -> None:
    check = optimised(convolution(*REFUSED[name]), policy="dfsharding", check="ttmetal").summary.check

    assert (check.ok, check.rounds) == (True, 1)


def depthwise_row(dilation: int) -> Graph:
    b = GraphBuilder("conv")
    x, w = b.input("x", (1, 1, 100, 64)), b.parameter("w", (64, 1, 1, 7))
    attrs = {"batch_size": 1, "input_height": 1, "input_width": 100, "kernel_size": (1, 7), "groups": 64}
    attrs |= {"dilation": (1, dilation), "in_channels": 64, "out_channels": 64}
    return b.finish(b.op("ttnn.conv2d", x, w, name="conv", **attrs))  # type: ignore[arg-type]


@pytest.mark.usefixtures("needs_ttnn")
@pytest.mark.parametrize(("dilation", "passes"), [(1, []), (2, ["zero-bias"])])
def test_depthwise_rows_that_are_wrong_without_a_bias_get_one(dilation: int, passes: list[str]) -> None:
    summary = optimised(depthwise_row(dilation), policy="dfsharding", check="ttmetal").summary

    assert [note.way for note in summary.rewritten] == passes
    assert (summary.check.ok, summary.check.rounds) == (True, 1)


def test_many_slices_give_way_to_parts_of_the_kernel_where_those_are_faster() -> None:
    graph = convolution(*REFUSED["split-kernel-width"])
    unfolded = graph.copy()
    UnfoldConvolution("conv").apply(unfolded)

    fast, slow = optimised(graph), optimised(unfolded)

    assert fast.summary.predicted_time_ns < slow.summary.predicted_time_ns


def test_grouped_convolutions_of_a_model_are_split_too() -> None:
    result = placed(spectrum(group=2))

    assert [note.op for note in result.summary.rewritten] == ["conv0"]


def test_what_no_way_helps_is_refused_by_name() -> None:
    graph = convolution((2, 1024, 512), (31, 31), (62, 62), (180,) * 4, (12, 12), 16, 1, 1)

    with pytest.raises(InfeasibleError, match=r"conv: ttnn\.conv2d cannot run.* DRAM Auto slice"):
        optimised(graph)
