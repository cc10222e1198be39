"""What an ONNX file states is checked before any library trusts it: functions, attributes, operands, data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from optimizer.errors import FormatError, GraphError, InputError, LimitError, ShapeError
from optimizer.importers import load

Model = Callable[..., onnx.ModelProto]


def refused(model: onnx.ModelProto, error: type[InputError], *words: str) -> None:
    with pytest.raises(error) as caught:
        load(model.SerializeToString())
    assert type(caught.value) is error
    for word in words:
        assert word in str(caught.value)


def with_functions(model: onnx.ModelProto, *bodies: tuple[str, list[str]]) -> onnx.ModelProto:
    """Local functions of one input and one output; a body is a chain of op types (capitalised `F` names a function)."""
    for name, chain in bodies:
        values = ["a", *(f"t{i}" for i in range(len(chain) - 1)), "b"]
        nodes = [
            helper.make_node(op, [values[i]], [values[i + 1]], domain="my" if op.startswith("F") else "")
            for i, op in enumerate(chain)
        ]
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
        model.functions.append(helper.make_function("my", name, ["a"], ["b"], nodes, imports))
    return model


def calling(make_model: Model) -> onnx.ModelProto:
    return make_model([helper.make_node("F0", ["x"], ["y"], domain="my")], {"x": (2, 4)}, ["y"], domains=["my"])


def test_functions_are_inlined(make_model: Model) -> None:
    model = with_functions(calling(make_model), ("F0", ["F1", "F1"]), ("F1", ["Relu", "Exp"]))

    assert [op.op for op in load(model.SerializeToString()).graph.ops()] == ["ttnn.relu", "ttnn.exp"] * 2


def test_function_bomb(make_model: Model) -> None:
    doubling = [(f"F{i}", [f"F{i + 1}"] * 2) for i in range(60)]

    refused(with_functions(calling(make_model), *doubling, ("F60", ["Relu"])), LimitError, str(2**60))


def test_deep_chain_of_functions(make_model: Model) -> None:
    chain = [(f"F{i}", [f"F{i + 1}"]) for i in range(3000)]

    refused(with_functions(calling(make_model), *chain, ("F3000", ["Relu"])), LimitError, "chain of more than")


@pytest.mark.parametrize("bodies", [(("F0", ["F0"]),), (("F0", ["F1"]), ("F1", ["Relu", "F0"]))])
def test_recursive_function(bodies: tuple[tuple[str, list[str]], ...], make_model: Model) -> None:
    refused(with_functions(calling(make_model), *bodies), GraphError, "calls itself")


@pytest.mark.parametrize(
    ("op", "attrs", "words"),
    [
        ("Softmax", {"axis": "foo"}, ("axis", "of type int, not string")),
        ("LeakyRelu", {"alpha": float("nan")}, ("alpha", "finite")),
        ("Elu", {"alpha": float("inf")}, ("alpha", "finite")),
        ("Transpose", {"perm": 1.5}, ("perm", "of type ints, not float")),
        ("Cast", {}, ("to", "missing")),
        ("Transpose", {"perm": [0, 0]}, ("perm", "no permutation")),
    ],
)
def test_attributes(op: str, attrs: dict[str, Any], words: tuple[str, ...], make_model: Model) -> None:
    model = make_model([helper.make_node(op, ["x"], ["y"], name="it", **attrs)], {"x": (2, 4)}, ["y"])

    refused(model, GraphError, f"{op} 'it'", *words)


def test_infinite_bound_of_clip_is_allowed(make_model: Model) -> None:
    node = helper.make_node("Clip", ["x"], ["y"], min=0.0, max=float("inf"))

    graph = load(make_model([node], {"x": (2, 4)}, ["y"], opset=10).SerializeToString()).graph

    assert [op.op for op in graph.ops()] == ["ttnn.relu"]


@pytest.mark.parametrize(("op", "inputs"), [("Relu", ["x", "x", "x"]), ("Add", ["x"]), ("Relu", [])])
def test_operand_count(op: str, inputs: list[str], make_model: Model) -> None:
    model = make_model([helper.make_node(op, inputs, ["y"], name="it")], {"x": (2, 4)}, ["y"])

    refused(model, GraphError, f"{op} 'it' has {len(inputs)} inputs")


@pytest.mark.parametrize("size", [0, 3, 31, 33])
def test_data_of_another_length_than_the_dims(size: int, make_model: Model) -> None:
    model = make_model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": (2, 4)}, ["y"], {"w": np.ones((2, 4), "f")})
    model.graph.initializer[0].raw_data = b"\x00" * size

    refused(model, FormatError, "'w'", f"{size} bytes", "not 32")


def test_typed_data_of_another_length_than_the_dims(make_model: Model) -> None:
    model = make_model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": (2, 4)}, ["y"])
    model.graph.initializer.append(TensorProto(name="w", data_type=1, dims=[4], float_data=[1, 2, 3]))

    refused(model, FormatError, "'w'", "3 elements")


def test_small_tensor_without_data_is_a_weight(make_model: Model) -> None:
    model = make_model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": (2, 4)}, ["y"])
    model.graph.initializer.append(TensorProto(name="w", data_type=1, dims=[4]))

    graph = load(model.SerializeToString()).graph

    assert graph.value("w").kind.value == "parameter"
    assert graph.value("w").data is None


def test_shape_operand_without_data(make_model: Model) -> None:
    model = make_model([helper.make_node("Reshape", ["x", "s"], ["y"], name="view")], {"x": (2, 4)}, ["y"])
    model.graph.initializer.append(TensorProto(name="s", data_type=TensorProto.INT64, dims=[2]))

    refused(model, ShapeError, "view", "'s'", "elements")


def test_input_that_is_an_output(make_model: Model) -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 4), "k": (1, 8)}, ["y", "k"])

    graph = load(model.SerializeToString()).graph

    assert [graph.value(v).shape for v in graph.outputs] == [(2, 4), (1, 8)]


def test_initializer_that_is_an_output(make_model: Model) -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 4)}, ["y", "w"], {"w": np.ones(3, "f")})

    graph = load(model.SerializeToString()).graph

    assert [graph.value(v).shape for v in graph.outputs] == [(2, 4), (3,)]
