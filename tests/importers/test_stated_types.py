"""What a file states of its values is compared with what is computed; Resize has the shapes that runtimes give it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from optimizer.errors import DTypeError, GraphError, InputError, ShapeError
from optimizer.importers import ImportedModel, load
from optimizer.importers.onnx_shape_corrections import resized

Model = Callable[..., onnx.ModelProto]
F, F16, I64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64
Shape = Sequence[int | str] | None


def info(name: str, shape: Shape, kind: int = F) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    x: Shape = (2, 3), y: Shape = (2, 3), kind: int = F, between: Sequence[onnx.ValueInfoProto] = (),
    weight: onnx.ValueInfoProto | None = None,
) -> bytes:  # fmt: skip
    """y = exp(x + w), with what is stated of t = x + w, of the weight and of y."""
    nodes = [
        helper.make_node("Add", ["x", "w"], ["t"], name="sum"),
        helper.make_node("Exp", ["t"], ["y"], name="last"),
    ]
    inputs = [info("x", x), *([weight] if weight else [])]
    weights = [numpy_helper.from_array(np.ones(3, "f"), "w")]
    graph = helper.make_graph(nodes, "g", inputs, [info("y", y, kind)], weights, value_info=between)
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def remarks(imported: ImportedModel) -> list[str]:
    return [text for text in imported.report.warnings if "stated" in text]


# -- contradictions are refused -----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"y": (2, 4)}, ShapeError, ["output 'y'", "float [2, 4]", "Exp 'last' gives float [2, 3]", "export"]),
        ({"y": (6,)}, ShapeError, ["output 'y'", "float [6]", "float [2, 3]"]),
        ({"y": ("n", 4)}, ShapeError, ["float [n, 4]", "float [2, 3]"]),
        ({"kind": I64}, DTypeError, ["output 'y'", "int64 [2, 3]", "float [2, 3]"]),
        ({"kind": F16}, DTypeError, ["float16", "float"]),
        ({"between": [info("t", (2, 3), I64)]}, DTypeError, ["value 't'", "int64", "Add 'sum' gives float"]),
        ({"weight": info("w", (4,))}, ShapeError, ["weight 'w'", "float [4]", "it is float [3]"]),
        ({"weight": info("w", (3,), F16)}, DTypeError, ["weight 'w'", "float16"]),
        ({"between": [info("w", (1,))]}, ShapeError, ["weight 'w'"]),
    ],
)  # fmt: skip
def test_a_contradiction_is_refused(given: dict[str, Any], error: type[InputError], words: list[str]) -> None:
    with pytest.raises(error) as refused:
        load(model(**given))
    assert [word for word in words if word not in str(refused.value)] == []


def test_an_output_that_is_an_input_or_a_weight_is_compared_too() -> None:
    relu = [helper.make_node("Relu", ["x"], ["y"])]
    for outputs in ([info("y", None), info("x", (3, 2))], [info("y", None), info("w", (2,))]):
        graph = helper.make_graph(relu, "g", [info("x", (2, 3))], outputs,
                                  [numpy_helper.from_array(np.ones(3, "f"), "w")])  # fmt: skip
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        with pytest.raises(ShapeError, match="is stated as"):
            load(proto.SerializeToString())


def test_an_output_of_onnxruntimes_op_has_the_shape_that_the_op_gives(make_model: Model) -> None:
    proto = make_model(
        [helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")], {"x": (2, 4)}, ["y"],
        domains=["com.microsoft"],
    )  # fmt: skip
    proto.graph.output[0].CopyFrom(info("y", (4, 2)))
    with pytest.raises(ShapeError, match=r"shape \[2, 4\] found, \[4, 2\] stated in the file"):
        load(proto.SerializeToString())


# -- what is no contradiction -------------------------------------------------------------------------
@pytest.mark.parametrize(
    "given",
    [
        {"y": None},
        {"y": ("a", "b")},
        {"y": ("n", "n + 1")},
        {"kind": TensorProto.UNDEFINED},
        {"between": [info("t", None)]},
        {"between": [info("gone", (9, 9), I64)]},
    ],
)
def test_what_is_left_open_is_no_contradiction(given: dict[str, Any]) -> None:
    imported = load(model(**given))
    assert (imported.graph.value("y").shape, remarks(imported)) == ((2, 3), [])


def test_names_that_contradict_each_other_are_a_remark() -> None:
    (text,) = remarks(load(model(x=("n", 3), y=("n", "n")), dims={"n": 2}))
    assert text.startswith("names of sizes contradict each other in the file, and are not read: output 'y'")


def test_a_stale_shape_in_between_is_a_remark() -> None:
    (text,) = remarks(load(model(between=[info("t", (9, 9))])))
    assert text.startswith("the file states stale shapes, which are not read: value 't' is stated as float [9, 9]")


# -- sizes that the user gives ------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ({}, {"input_shapes": {"x": (5, 3)}}),  # the file is right for its own [2, 3]
        ({"x": ("n", 3)}, {"dims": {"n": 5}}),  # [2, 3] was left over from tracing
        ({"x": ("n", 3)}, {"input_shapes": {"x": (5, 3)}}),
    ],
)
def test_numbers_for_other_inputs_are_stale_then(given: dict[str, Any], sizes: dict[str, Any]) -> None:
    imported = load(model(**given), **sizes)
    assert imported.graph.value("y").shape == (5, 3)
    assert remarks(imported)[0].startswith("the file states stale shapes, which are not read: output 'y'")


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ({"y": (2, 4)}, {"input_shapes": {"x": (5, 3)}}),
        ({"x": ("n", 3), "y": ("n", 4)}, {"dims": {"n": 2}}),
        ({"x": ("n", 3), "y": (2, 3, 1)}, {"dims": {"n": 2}}),
        ({"y": (4, 3)}, {"input_shapes": {"x": (2, 3)}}),
    ],
)
def test_what_contradicts_the_file_itself_stays_wrong(given: dict[str, Any], sizes: dict[str, Any]) -> None:
    with pytest.raises(ShapeError, match="output 'y' is stated as"):
        load(model(**given), **sizes)


def test_sizes_of_inputs_that_did_not_even_fit_say_nothing() -> None:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [info("x", (2, 9))], [info("y", (2, 9))],
        [numpy_helper.from_array(np.ones((4, 4), "f"), "w")],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert load(proto.SerializeToString(), input_shapes={"x": (2, 4)}).graph.value("y").shape == (2, 4)


# -- a JSON graph -------------------------------------------------------------------------------------
def test_a_json_graph_is_held_to_what_it_states() -> None:
    for stated in ({"shape": [4, 2]}, {"shape": [2, 4], "dtype": "f32"}):
        document = {
            "model": {"name": "j", "inputs": ["x"], "outputs": ["y"]},
            "ops": [{"id": "r", "op": "ttnn.relu", "inputs": ["x"], "outputs": ["y"]}],
            "values": {"x": {"shape": [2, 4], "kind": "input"}, "y": stated},
        }
        with pytest.raises(InputError, match="'y'"):
            load(json.dumps(document).encode())


# -- the shape of Resize ------------------------------------------------------------------------------
IMAGE = (1, 2, 4, 5)


def resize(sizes: Sequence[int] = (), scales: Sequence[float] = (), **attrs: Any) -> onnx.ModelProto:
    node = helper.make_node("Resize", ["x", "", "scales" if scales else "", "sizes" if sizes else ""], ["y"], **attrs)
    weights = [numpy_helper.from_array(np.array(sizes, np.int64), "sizes")] if sizes else []
    weights += [numpy_helper.from_array(np.array(scales, np.float32), "scales")] if scales else []
    graph = helper.make_graph([node], "g", [info("x", IMAGE)], [info("y", None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize(
    ("attrs", "shape"),
    [
        ({"sizes": (1, 3), "axes": [2, 3], "keep_aspect_ratio_policy": "not_smaller"}, (1, 2, 2, 3)),
        ({"sizes": (7, 6), "axes": [2, 3], "keep_aspect_ratio_policy": "not_smaller"}, (1, 2, 7, 9)),
        ({"sizes": (7, 6), "axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"}, (1, 2, 5, 6)),
        ({"sizes": (6, 7), "axes": [3, 2], "keep_aspect_ratio_policy": "not_larger"}, (1, 2, 5, 6)),
        ({"sizes": (7, 6), "axes": [2, 3], "keep_aspect_ratio_policy": "stretch"}, (1, 2, 7, 6)),
        ({"sizes": (9,), "axes": [3], "keep_aspect_ratio_policy": "not_smaller"}, (1, 2, 4, 9)),
        ({"scales": (0.6,), "axes": [3]}, (1, 2, 4, 3)),
        ({"scales": (1.0, 1.0, 2.0, 1.5)}, (1, 2, 8, 7)),
    ],
)
def test_resize_is_as_in_onnxruntime(
    attrs: dict[str, Any], shape: tuple[int, ...], mode: str, witness: ModuleType
) -> None:
    result = witness.compare(resize(**attrs, mode=mode))
    assert result.expected[0].shape == shape
    assert result.model.graph.value("y").shape == shape
    assert result.error <= 2e-5


def test_axes_of_resize_count_from_the_back_too() -> None:
    proto = resize(sizes=(1, 3), axes=[-2, -1], keep_aspect_ratio_policy="not_smaller", mode="nearest")
    assert load(proto.SerializeToString()).graph.value("y").shape == (1, 2, 2, 3)


@pytest.mark.parametrize(("size", "scale", "found"), [(10, 0.9, 9), (10, 0.7, 7), (3, 1 / 3, 1), (7, 0.5, 3)])
def test_sizes_by_scale_are_computed_in_f32(size: int, scale: float, found: int) -> None:
    assert resized(size, scale) == found


@pytest.mark.parametrize(
    "attrs",
    [
        {"sizes": (7, 6), "scales": (2.0, 2.0), "axes": [2, 3]},
        {"scales": (2.0, -2.0), "axes": [2, 3]},
        {"scales": (2.0, 2.0, 2.0), "axes": [2, 3]},
        {"sizes": (0, 6), "axes": [2, 3]},
        {"sizes": (7, 6), "axes": [2, 4]},
        {"sizes": (7, 6), "axes": [2, -2]},
    ],
)
def test_numbers_that_fit_no_image_are_refused(attrs: dict[str, Any]) -> None:
    with pytest.raises((GraphError, ShapeError), match="Resize"):
        load(resize(**attrs).SerializeToString())


# -- other shapes that the library takes for known ----------------------------------------------------
@pytest.mark.parametrize(("op", "outputs"), [("Split", ["y", "z"]), ("Squeeze", ["y"])])
def test_a_shape_that_depends_on_an_input_is_not_guessed(op: str, outputs: list[str], make_model: Model) -> None:
    proto = make_model([helper.make_node(op, ["x", "n"], outputs)], {"x": (4, 1, 1), "n": ((1,), I64)}, outputs)
    with pytest.raises(ShapeError, match="depends on the elements of 'n', which is an input of the model"):
        load(proto.SerializeToString())


def test_a_pool_of_onnxruntime_is_not_like_its_operand(make_model: Model) -> None:
    scale, zero = np.float32(0.1), np.uint8(0)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("QLinearAveragePool", ["q", "s", "z", "s", "z"], ["p"], domain="com.microsoft",
                         kernel_shape=[2, 2]),
        helper.make_node("DequantizeLinear", ["p", "s", "z"], ["y"]),
    ]  # fmt: skip
    proto = make_model(nodes, {"x": (1, 2, 4, 4)}, ["y"], {"s": scale, "z": zero}, domains=["com.microsoft"])
    with pytest.raises(ShapeError, match="only the file can state the shape of its result 'p'"):
        load(proto.SerializeToString())
