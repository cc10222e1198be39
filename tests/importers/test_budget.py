"""Sizes that a tiny model names: what the import computes is counted before it is allocated, and so is its work."""

from __future__ import annotations

import ast
from collections.abc import Callable
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import optimizer.importers
from optimizer.errors import GraphError, LimitError, TimeLimitError
from optimizer.importers import ImportLimits, load
from optimizer.importers.model import Budget
from optimizer.options import Options
from optimizer.pipeline import optimize_file

Model = Callable[..., onnx.ModelProto]
BIG = 1 << 33
node = helper.make_node

BOMBS: dict[str, tuple[onnx.NodeProto, dict[str, Any], dict[str, Any]]] = {
    "OneHot": (node("OneHot", ["x", "d", "v"], ["y"]), {"x": (1,)},
               {"d": np.int64(10**11), "v": np.array([0, 1], "f")}),
    "ReverseSequence": (node("ReverseSequence", ["x", "l"], ["y"]), {"x": (BIG // 4, 2, 2)}, {"l": np.array([5, 5])}),
    "Resize": (node("Resize", ["x", "", "s"], ["y"], mode="linear"), {"x": (1, 1, BIG // 4, 1)},
               {"s": np.array([1, 1, 1.5, 1], "f")}),
    "Einsum": (node("Einsum", ["x"], ["y"], equation="ii->i"), {"x": (10**5, 10**5)}, {}),
    "Hardmax": (node("Hardmax", ["x"], ["y"]), {"x": (1, BIG)}, {}),
    "ArgMax": (node("ArgMax", ["x"], ["y"], axis=1, select_last_index=1), {"x": (1, BIG)}, {}),
    "Slice": (node("Slice", ["x", "s", "e", "a", "t"], ["y"]), {"x": (1, BIG)},
              {"s": np.array([-1]), "e": np.array([-(1 << 62)]), "a": np.array([1]), "t": np.array([-1])}),
    "Pad": (node("Pad", ["x", "p"], ["y"], mode="reflect"), {"x": (1, BIG)}, {"p": np.array([0, 2, 0, 2])}),
    "ScatterND": (node("ScatterND", ["x", "i", "u"], ["y"]), {"x": (BIG, 1), "u": (1, 1)}, {"i": np.array([[0]])}),
    "GatherND": (node("GatherND", ["x", "i"], ["y"], batch_dims=1), {"x": (BIG // 2, 2)}, {"i": None}),
    "AveragePool": (node("AveragePool", ["x"], ["y"], kernel_shape=[2, 1, 1], pads=[1, 0, 0, 1, 0, 0]),
                    {"x": (1, 1, BIG // 2, 1, 1)}, {}),
}  # fmt: skip


@pytest.mark.parametrize("op", [op for op in BOMBS if op != "GatherND"])
def test_size_that_the_model_names(op: str, make_model: Model) -> None:
    it, inputs, weights = BOMBS[op]
    model = make_model([it], inputs, ["y"], weights, opset=17)
    if op == "ArgMax":
        model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    if op == "OneHot":
        model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64

    with pytest.raises(LimitError, match=rf"{op} .* the limit is 16777216") as caught:
        load(model.SerializeToString())

    assert caught.value.limit == ImportLimits().max_computed_elements


def test_cubic_matrix_is_refused_before_it_is_made(make_model: Model) -> None:
    resize = node("Resize", ["x", "", "s"], ["y"], mode="cubic")
    model = make_model([resize], {"x": (1, 1, 1 << 20, 32)}, ["y"], {"s": np.array([1, 1, 1.5, 1], "f")})

    assert load(model.SerializeToString()).report.unsupported == (("onnx.Resize", ("Resize_y",)),)


def test_arrays_are_only_made_where_they_are_counted() -> None:
    makers = {"arange", "empty", "eye", "full", "identity", "indices", "linspace", "ones", "pad", "repeat", "tile",
              "tri", "zeros"}  # fmt: skip
    root = Path(optimizer.importers.__file__).parent
    found = [
        f"{path.name}:{call.lineno}"
        for path in sorted(root.rglob("*.py"))
        if path.name not in ("computed.py", "json_graph.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in makers
        if isinstance(call.func.value, ast.Name) and call.func.value.id == "np"
    ]

    # masks of the file itself are compared with a triangle of their own size
    assert {place.split(":")[0] for place in found} <= {"onnx_weights.py", "attention_pattern.py"}


def test_value_that_doubles(make_model: Model) -> None:
    nodes = [node("Concat", [f"c{i}", f"c{i}"], [f"c{i + 1}"], axis=0) for i in range(40)]
    nodes.append(node("Cast", ["c40"], ["y"], to=TensorProto.FLOAT))

    with pytest.raises(LimitError, match="the limit is"):
        load(make_model(nodes, {"x": (2,)}, ["y"], {"c0": np.array([1, 2])}).SerializeToString())


def test_shape_of_unknown_length(make_model: Model) -> None:
    model = make_model([node("Reshape", ["x", "s"], ["y"])], {"x": (2,), "s": (1 << 30,)}, ["y"])
    model.graph.input[1].type.tensor_type.elem_type = TensorProto.INT64

    with pytest.raises(LimitError):
        load(model.SerializeToString())


def test_chain_of_folded_constants_is_linear_in_memory(make_model: Model) -> None:
    nodes = [node("Add", [f"c{i}", "one"], [f"c{i + 1}"]) for i in range(3000)]
    nodes.append(node("Add", ["x", "c3000"], ["y"]))
    data = make_model(nodes, {"x": (2,)}, ["y"], {"c0": np.ones(2, "f"), "one": np.ones(2, "f")}).SerializeToString()

    graph = load(data).graph

    assert [op.op for op in graph.ops()] == ["ttnn.add"]


@pytest.mark.parametrize(
    ("op", "weights", "attrs"),
    [
        ("Einsum", {k: np.ones(512, "f") for k in "abcd"}, {"equation": "i,j,k,l->"}),
        ("MatMul", {"a": np.ones((8192, 1), "f"), "b": np.ones((1, 8192), "f")}, {}),
        ("Tile", {"a": np.ones(1, "f"), "b": np.array([1 << 30])}, {}),
        ("Expand", {"a": np.ones(1, "f"), "b": np.array([1 << 30])}, {}),
    ],
)
def test_evaluation_that_takes_long_is_left_in_the_graph(
    op: str, weights: dict[str, Any], attrs: dict[str, Any], make_model: Model
) -> None:
    nodes = [node(op, list(weights), ["t"], **attrs), node("ReduceSum", ["t"], ["s"]), node("Add", ["x", "s"], ["y"])]

    graph = load(make_model(nodes, {"x": (2,)}, ["y"], weights).SerializeToString()).graph

    assert len(list(graph.ops())) > 1


@pytest.mark.slow
def test_sequence_that_is_repeated(make_model: Model) -> None:
    nodes = [node("SequenceConstruct", ["x"] * 3000, ["s"])]
    nodes += [node("ConcatFromSequence", ["s"], [f"t{i}"], axis=0) for i in range(300)]
    model = make_model(nodes, {"x": (1, 2)}, [f"t{i}" for i in range(300)])

    with pytest.raises(LimitError, match="steps of work"):
        load(model.SerializeToString())


def test_sequence_of_very_many_pieces(make_model: Model) -> None:
    nodes = [node("SplitToSequence", ["x", "n"], ["s"]), node("ConcatFromSequence", ["s"], ["y"], axis=0)]

    with pytest.raises(LimitError, match="SplitToSequence"):
        load(make_model(nodes, {"x": (BIG, 1)}, ["y"], {"n": np.int64(1)}).SerializeToString())


@pytest.mark.parametrize("count", [32_769, 100_000])
def test_operands_of_one_node(count: int, make_model: Model) -> None:
    with pytest.raises(LimitError, match=f"{count} inputs and 1 outputs, the limit is 32768"):
        load(make_model([node("Sum", ["x"] * count, ["y"])], {"x": (2, 2)}, ["y"]).SerializeToString())


def test_split_into_very_many(make_model: Model) -> None:
    split = node("Split", ["x"], ["y"], num_outputs=10**12)

    with pytest.raises(GraphError, match="'num_outputs' 1000000000000 for 1 outputs"):
        load(make_model([split], {"x": (4, 4)}, ["y"], opset=18).SerializeToString())


def test_results_of_one_node_keep_their_names(make_model: Model) -> None:
    names = [f"y{i}" for i in range(5000)]

    graph = load(make_model([node("Split", ["x"], names, axis=0)], {"x": (5000, 2)}, names).SerializeToString()).graph

    assert list(graph.outputs) == names


def test_function_whose_copies_are_large(make_model: Model) -> None:
    body = [node("Constant", [], ["k"], value_floats=[1.0] * 5000), node("Add", ["a", "k"], ["b"])]
    calls = [node("G", ["x"], [f"t{i}"], domain="my") for i in range(20_000)]
    model = make_model(calls, {"x": (5000,)}, ["t0"], domains=["my"])
    model.functions.append(helper.make_function("my", "G", ["a"], ["b"], body, [helper.make_opsetid("", 17)]))

    with pytest.raises(LimitError, match="bytes with all functions inlined"):
        load(model.SerializeToString())


def test_checkpoint_ends_an_import(make_model: Model) -> None:
    calls = 0

    def checkpoint() -> None:
        nonlocal calls
        calls += 1
        if calls > 20:
            raise TimeLimitError("late")

    model = make_model([node("Relu", [f"t{i}" if i else "x"], [f"t{i + 1}"]) for i in range(40)], {"x": (2,)}, ["t40"])

    with pytest.raises(TimeLimitError, match="late"):
        load(model.SerializeToString(), checkpoint=checkpoint)


def test_time_limit_holds_during_the_import(make_model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    now = count(int(monotonic()))
    monkeypatch.setattr("optimizer.pipeline.clock.time.monotonic", lambda: float(next(now)))
    model = make_model([node("Relu", [f"t{i}" if i else "x"], [f"t{i + 1}"]) for i in range(40)], {"x": (2,)}, ["t40"])

    with pytest.raises(TimeLimitError, match="time limit of 30 s reached in stage 'import'"):
        optimize_file(model.SerializeToString(), Options(time_limit=30.0))


def test_work_beyond_the_limit_is_named() -> None:
    budget = Budget(ImportLimits(max_work=10), file_bytes=1)
    budget.work("here", 26)

    with pytest.raises(LimitError, match="more than 26 steps of work, at there"):
        budget.work("there", 1)
