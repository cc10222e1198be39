"""Sizes with names: given once, in expressions, contradictory, or left open and surveyed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from optimizer.cli import main
from optimizer.errors import InputError, LimitError, OptionError, ShapeError, UnknownNameError
from optimizer.importers import load
from optimizer.importers.model import OpenSizesError
from optimizer.importers.onnx_dims import resolved, symbols
from optimizer.options import Options, parse_option
from optimizer.pipeline import optimize, survey_model

Sizes = list[int | str | None] | None


def model(inputs: dict[str, Sizes], nodes: list[onnx.NodeProto], **stated: Sizes) -> onnx.ModelProto:
    """`stated`: value_info of values in the middle."""

    def info(name: str, sizes: Sizes) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)

    weights = [numpy_helper.from_array(np.ones((64, 32), np.float32), "w")]
    graph = helper.make_graph(
        nodes, "sizes", [info(*entry) for entry in inputs.items()], [info("y", None)], weights,
        value_info=[info(*entry) for entry in stated.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    return helper.make_model(graph, opset_imports=opsets)


ADD = [helper.make_node("Add", ["a", "b"], ["t"], name="add"), helper.make_node("MatMul", ["t", "w"], ["y"], name="mm")]
TWO = {"a": ["batch", "seq", 64], "b": ["batch", "seq", 64]}
CACHED: dict[str, Sizes] = {"p": [1, "past", 64], "x": [1, "seq", 64], "m": [1, "past + seq", 64]}
GROWING = [helper.make_node("Concat", ["p", "x"], ["t"], axis=1), helper.make_node("Add", ["t", "m"], ["y"])]


def test_a_name_is_given_once() -> None:
    graph = load(model(TWO, ADD), dims={"batch": 2, "seq": 96}).graph
    assert [graph.value(v).shape for v in (*graph.inputs, *graph.outputs)] == [(2, 96, 64), (2, 96, 64), (2, 96, 32)]


def test_an_expression_follows_from_its_names() -> None:
    graph = load(model(CACHED, GROWING), dims={"past": 61, "seq": 3}).graph
    assert graph.value("m").shape == (1, 64, 64)


def test_stated_shapes_of_custom_ops_get_the_numbers_too() -> None:
    nodes = [
        helper.make_node("Odd", ["a"], ["t"], domain="com.acme", name="odd"),
        helper.make_node("Relu", ["t"], ["y"]),
    ]
    graph = load(model({"a": ["n", 64]}, nodes, t=["n", 64]), dims={"n": 5}).graph
    assert graph.value("t").shape == (5, 64)


@pytest.mark.parametrize(
    ("dims", "shapes", "error", "message"),
    [
        ({"batch": 1}, {}, OpenSizesError, "'seq' of a, b; give one for each, such as --dim seq=1"),
        ({"batsh": 1}, {}, UnknownNameError, "unknown size of the model 'batsh', did you mean 'batch'?"),
        ({"batch": 1}, {"a": (2, 9, 64)}, ShapeError, "'dims' says batch=1, but in 'input_shapes' of 'a' it is 2"),
    ],
)
def test_numbers_that_do_not_fit(
    dims: dict[str, int], shapes: dict[str, Any], error: type[InputError], message: str
) -> None:
    with pytest.raises(error) as refused:
        load(model(TWO, ADD), dims=dims, input_shapes=shapes)
    assert message in str(refused.value)


def test_a_model_and_a_graph_without_names() -> None:
    relu = [helper.make_node("Relu", ["a"], ["y"])]
    with pytest.raises(OptionError, match="the model gives no size a name"):
        load(model({"a": [2, 3]}, relu), dims={"n": 1})
    document = {"model": {"name": "j", "inputs": ["x"], "outputs": ["y"]}, "ops": [
        {"id": "r", "op": "ttnn.relu", "inputs": ["x"], "outputs": ["y"]}],
        "values": {"x": {"shape": [32, 32], "kind": "input"}}}  # fmt: skip
    with pytest.raises(OptionError, match="a JSON graph has static shapes"):
        load(json.dumps(document).encode(), dims={"n": 1})


@pytest.mark.parametrize("dim", ["a - 5", "a * 99999999999999999999", "a // 9"])
def test_a_size_must_be_one(dim: str) -> None:
    with pytest.raises(ShapeError, match="of 'a' would be"):
        load(model({"a": ["a", dim]}, [helper.make_node("Relu", ["a"], ["y"])]), dims={"a": 3})


@pytest.mark.parametrize(
    ("dim", "names", "value"),
    [
        ("a + 2*b", ["a", "b"], 8),
        ("a/2", ["a"], 1),
        ("a // 0", ["a"], None),
        ("floor(a)", ["floor(a)"], None),
        ("a ** 9", ["a ** 9"], None),
        ("unk__0.1", ["unk__0.1"], None),
        ("past sequence", ["past sequence"], None),
        ("(" * 90 + "a" + ")" * 90, ["a"], 2),
        ("+".join(["a"] * 500), ["+".join(["a"] * 500)], None),
        ("a + 'x'", ["a + 'x'"], None),
    ],
)
def test_expressions(dim: str, names: list[str], value: int | None) -> None:
    assert symbols([dim]) == names
    assert resolved(dim, {"a": 2, "b": 3}) == value


def test_a_name_with_odd_characters_is_given_as_it_stands() -> None:
    relu = [helper.make_node("Relu", ["a"], ["y"])]
    assert load(model({"a": ["unk__0.1", 4]}, relu), dims={"unk__0.1": 7}).graph.value("a").shape == (7, 4)


@pytest.mark.parametrize("name", ["batch size", "a=b", "DynamicDimension.0"])
def test_names_that_are_no_expression_are_surveyed_and_given(name: str) -> None:
    data = model({"a": [name, "seq"]}, [helper.make_node("Relu", ["a"], ["y"])]).SerializeToString()

    found = survey_model(data, Options())

    assert (found.inputs[0].dims, found.outputs[0].dims) == ((name, "seq"), ("?", "seq"))
    assert list(found.open_dims) == [name, "seq"]
    assert load(data, dims={name: 4, "seq": 6}).graph.value("a").shape == (4, 6)


def test_a_remedy_can_be_pasted_into_a_shell() -> None:
    relu = [helper.make_node("Relu", ["a"], ["y"])]
    with pytest.raises(OpenSizesError, match="--dim 'batch size=1' --dim seq=1"):
        load(model({"a": ["batch size", "seq"]}, relu))


def test_open_sizes_are_surveyed() -> None:
    found = survey_model(model(CACHED, GROWING).SerializeToString(), Options())
    assert [(t.name, t.dims) for t in found.inputs] == [(name, tuple(dims or ())) for name, dims in CACHED.items()]
    assert found.outputs[0].dims == (1, "past + seq", 64)
    assert found.open_dims == {"past": ("p", "m"), "seq": ("x", "m")}
    assert found.foreign_ops == {"Add": 1, "Concat": 1}


def test_nameless_sizes_stay_nameless() -> None:
    found = survey_model(
        model({"a": [None, 3]}, [helper.make_node("Relu", ["a"], ["y"])]).SerializeToString(), Options()
    )
    assert (found.inputs[0].dims, found.outputs[0].dims, found.open_dims) == (("?", 3), ("?", 3), {})


def test_inspect_shows_open_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = helper.make_node("Odd", ["t"], ["u"], domain="com.acme")
    onnx.save(model(TWO, [ADD[0], odd, helper.make_node("MatMul", ["u", "w"], ["y"])]), tmp_path / "m.onnx")
    assert main(["inspect", str(tmp_path / "m.onnx"), "--dim", "batch=4"]) == 0
    shown = capsys.readouterr().out
    assert "input a      bf16 [4, seq, 64]" in shown
    assert "give each a number: --dim seq=N" in shown
    assert "bf16 unknown shape" in shown
    assert "onnx.com.acme.Odd x1" in shown
    assert main(["inspect", str(tmp_path / "m.onnx"), "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["open_dims"] == {"batch": ["a", "b"], "seq": ["a", "b"]}
    assert (record["ops"], record["schedule"], record["parameter_count"]) == (None, None, 2048)


def test_many_long_expressions_are_within_the_budget_of_their_bytes() -> None:
    sizes: Sizes = [f"n{i} + {i}" for i in range(2000)]
    with pytest.raises((OpenSizesError, LimitError)):
        load(model({"a": sizes}, [helper.make_node("Relu", ["a"], ["y"])]))


@pytest.mark.parametrize("text", ["batch", "=1", "batch=", "batch=x", "batch=-1", "batch=1.5", "b=²"])
def test_text_that_is_no_size(text: str) -> None:
    with pytest.raises(OptionError, match="'dims' takes NAME=SIZE such as batch=1"):
        parse_option("dims", [text])


def test_text_of_sizes() -> None:
    assert parse_option("dims", ["batch=1", "a=b=12", "batch=1"]) == {"batch": 1, "a=b": 12}
    with pytest.raises(OptionError, match="'dims' gives 'batch' twice, 1 and 2"):
        parse_option("dims", ["batch=1", "batch=2"])
    with pytest.raises(OptionError, match="'input_shapes' gives 'x' twice"):
        parse_option("input_shapes", ["x:1,2", "x:1,3"])
    with pytest.raises(OptionError, match="size 'n' must be a whole number from 1"):
        Options.from_mapping({"dims": {"n": 0}})
    with pytest.raises(OptionError, match="'dims' must map names to sizes"):
        Options.from_mapping({"dims": ["n"]})


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"dims": {"batch": 4, "seq": 96}}, "dims"),
        ({"activations_dtype": "f32"}, "activations_dtype"),
        ({"weights_dtype": "f32"}, "weights_dtype"),
    ],
)
def test_a_loaded_model_is_as_it_was_loaded(asked: dict[str, Any], named: str) -> None:
    loaded = load(model(TWO, ADD), dims={"batch": 2, "seq": 96})

    with pytest.raises(OptionError, match=rf"loaded with {named}"):
        optimize(loaded, "n150", Options(policy="dram", **asked))
    optimize(loaded, "n150", Options(policy="dram", dims={"batch": 2, "seq": 96}))
