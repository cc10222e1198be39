"""The library as a Python programmer meets it: names, boards by name, models in memory, what objects look like."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

import optimizer
from optimizer import DeviceSpec, Graph, GraphBuilder, Options, load, optimize
from optimizer.errors import FormatError, OptionError, UnknownNameError


@pytest.fixture
def graph() -> Graph:
    builder = GraphBuilder("pair")
    x, w = builder.input("x", (1, 1, 256, 512)), builder.parameter("w", (512, 512))
    return builder.finish(builder.op("ttnn.matmul", x, w, name="mm"))


def test_dir_lists_the_api() -> None:
    assert dir(optimizer) == sorted(["__version__", *optimizer.__all__])


def test_a_board_is_named_or_left_to_the_options(graph: Graph) -> None:
    options = Options(board="p150", policy="dram")
    plain = optimize(graph, DeviceSpec.preset("p150"), options).to_json()["ops"]
    assert optimize(graph, "p150", options).to_json()["ops"] == plain
    assert optimize(graph, options=options).to_json()["ops"] == plain
    assert optimize(graph, "n150", options).device.name == "n150"
    with pytest.raises(UnknownNameError, match="unknown board 'n15', did you mean 'n150'"):
        optimize(graph, "n15")


def test_a_path_is_optimized_and_emitted(mlp_onnx: Path, tmp_path: Path) -> None:
    result = optimize(mlp_onnx, "n150", Options(policy="dram"))
    assert result.emit("json", tmp_path).name == "graph.json"


def test_a_model_in_memory_is_the_same_as_its_file(mlp_onnx: Path) -> None:
    in_memory = load(onnx.load(mlp_onnx))
    assert [op.id for op in in_memory.graph.ops()] == [op.id for op in load(mlp_onnx).graph.ops()]


@pytest.mark.parametrize(
    ("call", "message"),
    [(lambda: load(3), r"load\(\) cannot take an object of int"),
     (lambda: optimize([1]), r"optimize\(\) cannot take an object of list .*what load\(\) gives")],
)  # fmt: skip
def test_what_is_no_model_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        call()


@pytest.mark.parametrize(
    ("given", "message"),
    [({"options": {"policy": "dram"}}, "takes its options as Options, not as dict"),
     ({"device": 150}, "a board cannot be of int .one of: a DeviceSpec, n150,")],
)  # fmt: skip
def test_what_is_no_board_and_no_options_is_refused(graph: Graph, given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        optimize(graph, **given)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [({"policy": "fast"}, UnknownNameError, "unknown policy 'fast'"),
     ({"policy": "globl"}, UnknownNameError, "did you mean 'global'"),
     ({"opmodel": "tt-metal"}, UnknownNameError, "did you mean 'ttmetal'"),
     ({"board": "n15"}, UnknownNameError, "did you mean 'n150'"),
     ({"seed": "3"}, OptionError, "'seed' must be int, got '3'"),
     ({"input_shapes": {"x": "1,3"}}, OptionError, "shape of 'x' must be a list of positive integers")],
)  # fmt: skip
def test_options_fail_at_once(wrong: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Options(**wrong)


def test_a_boards_file_need_not_be_there_yet() -> None:
    assert Options(board="mine.json").board == "mine.json"


def test_objects_are_shown_in_one_short_line(graph: Graph, mlp_onnx: Path) -> None:
    options = Options(policy="dram", input_shapes={"x": (1, 3)})
    assert repr(options) == "Options(policy='dram', input_shapes={'x': (1, 3)})"
    assert repr(Options()) == "Options()"
    assert repr(GraphBuilder("empty")) == "<GraphBuilder of <Graph 'empty': 0 ops, 0 inputs, 0 outputs>>"
    assert repr(graph) == "<Graph 'pair': 1 op, 1 input, 1 output>"
    assert repr(DeviceSpec.preset("n150")) == "<DeviceSpec n150: wormhole_b0, 8x8 cores>"
    result = optimize(graph, "n150", Options(policy="dram"))
    ns = result.summary.predicted_time_ns
    assert repr(result) == f"<OptimizedGraph 'pair' on n150: policy dram, status feasible, predicted_time_ns {ns}>"
    assert repr(load(mlp_onnx)).startswith("<ImportedModel 'mlp': ")


@pytest.mark.parametrize(
    ("op", "inputs", "message"),
    [("ttnn.sofmax", ["x"], "unknown op 'ttnn.sofmax', did you mean 'ttnn.softmax'"),
     ("softmax", ["x"], "did you mean 'ttnn.softmax'"),
     ("ttnn.relu", ["X"], "unknown value 'X'")],
)  # fmt: skip
def test_the_builder_knows_its_ops_and_values(op: str, inputs: list[str], message: str) -> None:
    builder = GraphBuilder("wrong")
    builder.input("x", (1, 1, 32, 32))
    with pytest.raises(UnknownNameError, match=message):
        builder.op(op, *inputs)
