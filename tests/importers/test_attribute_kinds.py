"""Attributes of JSON graphs have the kind that their op expects; texts can be written in UTF-8."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optimizer.errors import DTypeError, FormatError, GraphError, ShapeError, UnknownNameError
from optimizer.importers import load
from optimizer.ir.attribute_kinds import check_kinds, kind_of
from optimizer.ir.vocabulary import op_names, opdef


def one_op(op: str, attrs: dict[str, Any], name: str = "net") -> bytes:
    return json.dumps(
        {
            "model": {"name": name, "inputs": ["x"], "outputs": ["y"]},
            "values": {"x": {"shape": [32, 64]}},
            "ops": [{"id": "it", "op": f"ttnn.{op}", "inputs": ["x"], "outputs": ["y"], "attrs": attrs}],
        }
    ).encode()


@pytest.mark.parametrize(
    ("op", "attrs", "wanted"),
    [
        ("repeat", {"repeats": [[1]]}, "a list of integers"),
        ("repeat", {"repeats": 2}, "a list of integers"),
        ("to_layout", {"layout": "foo"}, "'tile' or 'row_major'"),
        ("softmax", {"dim": "foo"}, "an integer"),
        ("softmax", {"dim": True}, "an integer"),
        ("softmax", {"numeric_stable": 1}, "true or false"),
        ("sum", {"dim": "foo"}, "an integer or a list of integers"),
        ("leaky_relu", {"negative_slope": "steep"}, "a number"),
        ("pow_scalar", {"exponent": None}, "a number"),
        ("reshape", {"shape": [2.0, 1024]}, "a list of integers"),
        ("pad", {"padding": [1, 1]}, "pairs"),
        ("typecast", {"dtype": "f8"}, "one of f32"),
        ("upsample", {"scale_factor": "big"}, "a list of numbers"),
        ("softmax", {"compute": [["fid", "HiFi5"]]}, "pairs of fid"),
        ("softmax", {"compute": [["fp32", 1]]}, "pairs of fid"),
        ("softmax", {"compute": [["fp32", True], ["fp32", False]]}, "pairs of fid"),
    ],
)
def test_wrong_kind(op: str, attrs: dict[str, Any], wanted: str) -> None:
    with pytest.raises(GraphError) as caught:
        load(one_op(op, attrs))
    for word in ("it", f"'{next(iter(attrs))}'", f"ttnn.{op}", wanted):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("sum", {"dim": [0]}),
        ("sum", {"dim": None}),
        ("clamp", {"min": 0}),
        ("softmax", {"compute": [["fid", "HiFi4"], ["fp32", True]]}),
    ],
)
def test_right_kind(op: str, attrs: dict[str, Any]) -> None:
    assert [o.op for o in load(one_op(op, attrs)).graph.ops()] == [f"ttnn.{op}"]


def test_every_attribute_of_the_vocabulary_has_a_kind() -> None:
    assert [(op, name) for op in op_names() for name in opdef(op).attrs if kind_of(opdef(op), name) is None] == []


@pytest.mark.parametrize("model", ["yolov8n_like_legacy17", "gpt2_s128_dynamo20"])
def test_what_the_onnx_importer_emits_is_of_the_right_kind(model: str, fixtures: Path) -> None:
    for op in load(fixtures / f"{model}.onnx").graph.ops():
        check_kinds(opdef(op.op), op)


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(FormatError, match="surrogates not allowed"):
        load(one_op("relu", {}, name="\ud83d"))


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert load(one_op("relu", {}, name="\U0001f600")).graph.name == "\U0001f600"


@pytest.mark.parametrize(
    ("op", "attrs"),
    [("multiply", {"scalar": 2.0, "activations": ["rm"]}), ("add", {"scalar": 1, "activations": [1]})],
)
def test_activations_are_those_that_the_op_applies(op: str, attrs: dict[str, Any]) -> None:
    with pytest.raises((GraphError, UnknownNameError), match=r"activations'? of ttnn"):
        load(one_op(op, attrs))


@pytest.mark.parametrize("op", ["eq", "bitwise_and", "add", "where"])
def test_one_operand_needs_a_number_beside_it(op: str) -> None:
    with pytest.raises(ShapeError, match=r"takes (either a second operand|a condition and two)"):
        load(one_op(op, {}))


def test_a_result_states_the_element_type_that_its_op_gives() -> None:
    document = json.loads(one_op("relu", {}))
    document["values"]["y"] = {"dtype": "i32"}

    with pytest.raises(DTypeError, match=r"'y' states i32, ttnn.relu gives bf16; ttnn.typecast"):
        load(json.dumps(document).encode())
