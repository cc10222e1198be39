"""`overrides.txt`: given back to `ttopt optimize`, it gives the layouts that it was written of."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.cli import main
from optimizer.export.overrides import op_names, override_options, write
from optimizer.export.reader import read_result
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op, Value, ValueKind
from optimizer.options import Options
from optimizer.result import OptimizedGraph
from tests.export.placed_graphs import BLOCK, HEIGHT, placed, shards
from tests.plans import planned_file
from tests.samples import sampled

GRAPHS = Path(__file__).resolve().parents[2] / "fixtures" / "graphs"
LAYOUTS, CONVS, COPIES = "override-output-layout", "override-conv2d-config", "insert-memreconfig"
MODELS = ("resnet50_b1_legacy17", "llama32_1b_2l_dynamo20", "yolov8n_like_legacy17")


def flags(path: Path) -> list[str]:
    """The lines of a file as flags of the command."""
    return [f"--{line}" for line in path.read_text(encoding="utf-8").splitlines()]


def by_op(text: str) -> dict[str, str]:
    return dict(entry.split("=", 1) for entry in text.split(",") if entry)


def given_back(model: Path, result: OptimizedGraph, folder: Path, *more: str) -> OptimizedGraph:
    """What the command makes of a model with the overrides of a result."""
    told = flags(write(result, folder))
    assert main(["optimize", str(model), "-o", str(folder / "again"), *told, *more]) == 0
    return read_result(folder / "again")


@pytest.mark.parametrize("policy", ["dram", "dfsharding", "global"])
@pytest.mark.parametrize("name", ["attention", "concat", "conv2d_relu", "fork", "pool_then_eltwise"])
def test_the_overrides_of_a_plan_give_its_layouts(tmp_path: Path, name: str, policy: str) -> None:
    model = GRAPHS / f"{name}.json"
    first = planned_file(model, Options.from_mapping({"board": "n150", "policy": policy}))
    again = given_back(model, first, tmp_path)
    assert override_options(again) == override_options(first)


@pytest.mark.parametrize("policy", ["dram", "dfsharding", "dfsharding2"])
def test_whatever_policy_is_asked(tmp_path: Path, policy: str) -> None:
    model = GRAPHS / "conv2d_relu.json"
    first = planned_file(model, Options.from_mapping({"board": "n150", "policy": "global"}))
    again = given_back(model, first, tmp_path, "--policy", policy)
    assert override_options(again)[LAYOUTS] == override_options(first)[LAYOUTS]


@pytest.mark.parametrize("name", sampled(MODELS, [], MODELS[:2]))
def test_whole_models(fixtures: Path, tmp_path: Path, name: str) -> None:
    model = fixtures / f"{name}.onnx"
    first = planned_file(model, Options.from_mapping({"board": "n150"}))
    again = given_back(model, first, tmp_path)
    assert len(by_op(override_options(first)[LAYOUTS])) > 30
    for option in (LAYOUTS, CONVS):
        assert override_options(again)[option] == override_options(first)[option]


def relus(*names: str, dtype: DType = DType.BF16) -> OptimizedGraph:
    """A chain of relus called so, in blocks on 2x2 cores."""
    graph = GraphBuilder("net")
    value = graph.input("x", (64, 64), dtype)
    layouts = {}
    for name in names:
        value = graph.op("ttnn.relu", value, name=name)
        layouts[value] = shards((64, 64), (2, 2), BLOCK)
    return placed(graph.finish(value), layouts)


def test_layouts_are_spelled_as_tt_mlir_spells_them() -> None:
    assert override_options(relus("a")) == {LAYOUTS: "a=2x2:l1:block_sharded:tile:bf16", CONVS: "", COPIES: ""}


def test_element_types_are_spelled_as_tt_mlir_spells_them() -> None:
    assert by_op(override_options(relus("a", dtype=DType.BFP8_B))[LAYOUTS])["a"].endswith(":tile:bfp_bf8")


def called(op_id: str, name: str) -> OptimizedGraph:
    """One relu with this id and name."""
    graph = Graph("net", ["x"], ["y"])
    graph.add_value(Value("x", (64, 64), DType.BF16, ValueKind.INPUT))
    graph.add_value(Value("y", (64, 64), DType.BF16, ValueKind.ACTIVATION))
    graph.add_op(Op(op_id, "ttnn.relu", ("x",), ("y",), name=name))
    return placed(graph, {})


@pytest.mark.parametrize("name", ["with,comma", "a=b", "two words", 'a"b', ""])
def test_a_name_that_splits_an_option_gives_way_to_the_id(name: str) -> None:
    result = called("relu_0", name)
    assert op_names(result) == {"relu_0": "relu_0"}
    assert list(by_op(override_options(result)[LAYOUTS])) == ["relu_0"]


def test_an_op_that_no_option_can_name_is_left_out() -> None:
    assert set(override_options(called("a,b", "a=b")).values()) == {""}


def test_a_name_that_others_have_gives_way_to_the_id() -> None:
    graph = GraphBuilder("net")
    x = graph.input("x", (64, 64))
    first = graph.op("ttnn.relu", x, name="act")
    second = graph.op("ttnn.sigmoid", first, name="act")
    third = graph.op("ttnn.tanh", second, name="single")
    names = op_names(placed(graph.finish(third), {}))
    assert sorted(names.values()) == sorted({"single", *(op for op in names if op != "single")})
    assert len(set(names.values())) == 3


def test_the_options_that_say_nothing_have_no_line(tmp_path: Path) -> None:
    assert write(relus("a"), tmp_path).read_text(encoding="utf-8") == f"{LAYOUTS}=a=2x2:l1:block_sharded:tile:bf16\n"


def test_an_operand_in_a_copy_alike_is_told() -> None:
    graph = GraphBuilder("net")
    x = graph.input("x", (64, 64))
    moved = graph.op("ttnn.to_memory_config", x, name="copy")
    y = graph.op("ttnn.relu", moved, name="act")
    both = {moved: shards((64, 64), (2, 1), HEIGHT), y: shards((64, 64), (2, 1), HEIGHT)}
    assert override_options(placed(graph.finish(y), both))[COPIES] == "act=0"
    apart = {**both, y: shards((64, 64), (2, 2), BLOCK)}
    assert override_options(placed(graph.finish(y), apart))[COPIES] == ""
