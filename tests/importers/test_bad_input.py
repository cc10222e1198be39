"""Bad input ends in one clear error that names the place; nothing hangs, nothing is read that need not be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from optimizer.errors import DTypeError, FormatError, GraphError, InputError, LimitError, ShapeError, UnknownNameError
from optimizer.importers import ImportLimits, load
from optimizer.importers.model import OpenSizesError
from optimizer.ir.positions import ABSENT_OPERANDS, ABSENT_RESULTS, at_their_positions
from tests.samples import sampled

Model = Callable[..., onnx.ModelProto]


def relu(make_model: Model, shape: Any = (2, 4)) -> onnx.ModelProto:
    return make_model([helper.make_node("Relu", ["x"], ["y"], name="act")], {"x": shape}, ["y"])


def raises(data: bytes, error: type[InputError], *words: str, **options: Any) -> InputError:
    """Import must raise exactly this error; its text holds every word."""
    with pytest.raises(error) as caught:
        load(data, **options)
    assert type(caught.value) is error
    for word in words:
        assert word in str(caught.value)
    return caught.value


@pytest.mark.parametrize("data", [b"", b"\x00" * 40, b"hello, world", b"\x08\x08", b"[1, 2]", b"{"])
def test_not_a_model(data: bytes) -> None:
    raises(data, FormatError)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PK\x03\x04" + b"data", "a ZIP archive, such as PyTorch's checkpoints; torch.onnx.export"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a pointer of Git LFS; `git lfs pull`"),
        (b"\x1f\x8b\x08\x00", "compressed by gzip"),
        (b"<!DOCTYPE html>\n<html>", "it is text, which begins with '<!DOCTYPE html>'"),
        (b"", "there are no bytes in it"),
        (b"\xff\xff\xff", "the protobuf cannot be parsed"),
    ],
)
def test_what_is_no_model_is_told_apart(data: bytes, words: str) -> None:
    raises(data, FormatError, "not an ONNX model: ", words)


def test_a_graph_without_outputs(make_model: Model) -> None:
    model = relu(make_model)
    del model.graph.output[:]

    raises(model.SerializeToString(), GraphError, "the graph has no outputs")


def test_truncated_at_any_place(make_model: Model) -> None:
    whole = relu(make_model).SerializeToString()
    for length in range(len(whole)):
        with pytest.raises(InputError):
            load(whole[:length])


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="No such file"):
        load(tmp_path / "absent.onnx")


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(FormatError):
        load(tmp_path)


@pytest.mark.parametrize("opset", [6, 24])
def test_opset_out_of_range(opset: int, make_model: Model) -> None:
    model = relu(make_model)
    model.opset_import[0].version = opset

    raises(
        model.SerializeToString(), FormatError, str(opset), "7 to 23, or convert the model with onnx.version_converter"
    )


def test_cycle(make_model: Model) -> None:
    nodes = [helper.make_node("Add", ["x", "b"], ["a"], name="one"), helper.make_node("Relu", ["a"], ["b"], name="two")]

    raises(make_model(nodes, {"x": (2,)}, ["b"]).SerializeToString(), GraphError, "cycle", "one")


def test_nodes_out_of_order_are_sorted(make_model: Model) -> None:
    nodes = [helper.make_node("Relu", ["a"], ["b"], name="two"), helper.make_node("Neg", ["x"], ["a"], name="one")]

    graph = load(make_model(nodes, {"x": (2,)}, ["b"]).SerializeToString()).graph

    assert [op.name for op in graph.ops()] == ["one", "two"]


def test_missing_input(make_model: Model) -> None:
    nodes = [helper.make_node("Add", ["x", "nowhere"], ["y"], name="sum")]

    raises(make_model(nodes, {"x": (2,)}, ["y"]).SerializeToString(), GraphError, "sum", "nowhere")


def test_missing_output(make_model: Model) -> None:
    model = relu(make_model)
    model.graph.output[0].name = "z"

    raises(model.SerializeToString(), GraphError, "z")


def test_value_defined_twice(make_model: Model) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"], name="one"), helper.make_node("Neg", ["x"], ["y"], name="two")]

    raises(make_model(nodes, {"x": (2,)}, ["y"]).SerializeToString(), GraphError, "'y'", "twice", "two")


def test_input_named_twice(make_model: Model) -> None:
    model = relu(make_model)
    model.graph.input.append(model.graph.input[0])

    raises(model.SerializeToString(), GraphError, "x")


def test_equal_node_names_are_told_apart(make_model: Model) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"], name="act"), helper.make_node("Neg", ["a"], ["y"], name="act")]

    graph = load(make_model(nodes, {"x": (2,)}, ["y"]).SerializeToString()).graph

    assert [op.name for op in graph.ops()] == ["act", "act.1"]
    assert len({op.id for op in graph.ops()}) == 2


# -- shapes ----------------------------------------------------------------------------------------
def two_inputs(make_model: Model) -> bytes:
    node = helper.make_node("Add", ["x", "mask"], ["y"], name="sum")
    return make_model([node], {"x": ("batch", 3, "width"), "mask": ("batch", 3, "width")}, ["y"]).SerializeToString()


def test_dynamic_shapes_list_the_flags(make_model: Model) -> None:
    data = two_inputs(make_model)

    raises(data, OpenSizesError, "'batch' of x, mask; 'width' of x, mask", "--dim batch=1 --dim width=1")


def test_names_bound_by_one_input_hold_for_the_others(make_model: Model) -> None:
    graph = load(two_inputs(make_model), input_shapes={"x": (2, 3, 8)}).graph

    assert graph.value("mask").shape == (2, 3, 8)


def test_unknown_input_name_lists_the_inputs(make_model: Model) -> None:
    raises(two_inputs(make_model), ShapeError, "'z'", "x, mask", input_shapes={"z": (1,)})


def test_wrong_rank(make_model: Model) -> None:
    raises(two_inputs(make_model), ShapeError, "x", "rank 2", "rank 3", input_shapes={"x": (2, 3)})


@pytest.mark.parametrize("shape", [(2, 3, 0), (2, 3, -1)])
def test_given_dims_must_be_positive(shape: tuple[int, ...], make_model: Model) -> None:
    raises(two_inputs(make_model), ShapeError, "positive", input_shapes={"x": shape})


def test_contradictory_shapes(make_model: Model) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    model = make_model([node], {"x": (2, 4)}, ["y"], {"w": np.ones((5, 6), np.float32)})

    raises(model.SerializeToString(), ShapeError, "product")


def test_rank_zero_is_one_element(make_model: Model) -> None:
    nodes = [helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0), helper.make_node("Add", ["x", "s"], ["y"])]

    graph = load(make_model(nodes, {"x": ()}, ["y"], opset=18).SerializeToString()).graph

    assert graph.value("x").shape == (1,)
    assert graph.value("y").shape == (1,)


def test_zero_size_input(make_model: Model) -> None:
    raises(relu(make_model, (2, 0)).SerializeToString(), ShapeError, "x", "empty")


def test_zero_size_intermediate(make_model: Model) -> None:
    weights = {n: np.asarray([v], np.int64) for n, v in (("b", 2), ("e", 2))}
    node = helper.make_node("Slice", ["x", "b", "e"], ["y"], name="cut")
    model = make_model([node, helper.make_node("Relu", ["y"], ["z"])], {"x": (4, 4)}, ["z"], weights)

    raises(model.SerializeToString(), ShapeError, "empty")


@pytest.mark.parametrize("shape", [(1 << 60,), (1 << 40, 1 << 40), (1 << 20, 1 << 20)])
def test_absurd_dims(shape: tuple[int, ...], make_model: Model) -> None:
    raises(relu(make_model, shape).SerializeToString(), LimitError, "x", "elements")


def test_absurd_intermediate(make_model: Model) -> None:
    nodes = [helper.make_node("MatMul", ["x", "z"], ["y"], name="outer")]

    raises(make_model(nodes, {"x": (1 << 20, 1), "z": (1, 1 << 20)}, ["y"]).SerializeToString(), LimitError, "outer")


def test_absurd_constant_is_not_built(make_model: Model) -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["s"], ["c"], name="fill"),
        helper.make_node("Add", ["x", "c"], ["y"], name="sum"),
    ]
    model = make_model(nodes, {"x": (1,)}, ["y"], {"s": np.asarray([1 << 30, 1 << 10], np.int64)})

    raises(model.SerializeToString(), LimitError, "elements")


def test_rank_limit(make_model: Model) -> None:
    raises(relu(make_model, (1,) * 9).SerializeToString(), LimitError, "rank 9")


def test_shape_known_only_at_run_time(make_model: Model) -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["y"], name="where")]

    model = make_model(nodes, {"x": (4, 4)}, {"y": TensorProto.INT64})

    raises(model.SerializeToString(), ShapeError, "NonZero", "where", "depends on the data")


def test_loop_is_refused_by_name(make_model: Model) -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["more"]), helper.make_node("Relu", ["state"], ["next"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [2]),
        ],
        [
            helper.make_tensor_value_info("more", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [2]),
        ],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["y"], name="again", body=body)

    model = make_model([node], {"n": ((), TensorProto.INT64), "x": (2,)}, ["y"])

    raises(model.SerializeToString(), GraphError, "Loop", "again", "unrolled")


# -- element types ---------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [TensorProto.STRING, TensorProto.COMPLEX64, TensorProto.FLOAT8E4M3FN])
def test_element_type_without_counterpart(kind: int, make_model: Model) -> None:
    node = helper.make_node("Identity", ["x"], ["y"])

    model = make_model([node], {"x": ((2,), kind)}, {"y": kind}, opset=21)

    raises(model.SerializeToString(), DTypeError, "x", "bfloat16")


def test_sequence_input(make_model: Model) -> None:
    model = relu(make_model)
    info = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None)
    model.graph.input[0].CopyFrom(info)

    raises(model.SerializeToString(), GraphError, "x", "sequence")


def test_inputs_that_nothing_reads_refuse_no_model(make_model: Model) -> None:
    model = relu(make_model)
    text = helper.make_tensor_value_info("words", TensorProto.STRING, [3])
    dynamic = helper.make_tensor_value_info("mask", TensorProto.INT64, ["batch", 8])
    sequence = helper.make_tensor_sequence_value_info("list", TensorProto.FLOAT, None)
    plain = helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 8])
    model.graph.input.extend([text, dynamic, sequence, plain])

    imported = load(model.SerializeToString())

    assert imported.graph.inputs == ["x", "ids"]
    assert [w for w in imported.report.warnings if "nothing reads it" in w] == [
        f"input '{name}' is left out: nothing reads it" for name in ("words", "mask", "list")
    ]


def test_index_outside_of_the_tensor(make_model: Model) -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"], name="pick", axis=1)
    model = make_model([node], {"x": (2, 4)}, ["y"], {"i": np.asarray([1, 4])})
    raises(model.SerializeToString(), GraphError, "pick", "index 4 is outside of a dim of 4 elements")


def test_unknown_activations_dtype(make_model: Model) -> None:
    raises(relu(make_model).SerializeToString(), UnknownNameError, "bf17", "bf16", activations_dtype="bf17")


# -- ops -------------------------------------------------------------------------------------------
def test_op_that_ttnn_lacks_is_kept_and_reported(make_model: Model) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="act"),
        helper.make_node("Bernoulli", ["a"], ["b"], name="dice"),
        helper.make_node("Neg", ["b"], ["y"], name="neg"),
    ]

    model = load(make_model(nodes, {"x": (2, 4)}, ["y"]).SerializeToString())

    assert [op.op for op in model.graph.ops()] == ["ttnn.relu", "onnx.Bernoulli", "ttnn.neg"]
    assert model.report.unsupported == (("onnx.Bernoulli", ("dice",)),)


def test_op_that_onnx_lacks_names_what_comes_near(make_model: Model) -> None:
    model = make_model([helper.make_node("Reluu", ["x"], ["y"], name="slip")], {"x": (2, 3)}, ["y"])
    for size in (2, 3):
        model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = size

    (remark,) = load(model.SerializeToString()).report.warnings

    assert "ONNX has no op 'Reluu', did you mean 'Relu'" in remark


def test_variant_that_ttnn_lacks_is_kept_and_explained(make_model: Model) -> None:
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], name="pool", kernel_shape=[2, 2])
    outputs = {"y": TensorProto.FLOAT, "i": TensorProto.INT64}

    model = load(make_model([node], {"x": (1, 2, 4, 4)}, outputs).SerializeToString())

    assert model.report.unsupported == (("onnx.MaxPool", ("pool",)),)
    assert any("MaxPool 'pool': " in w and "indices" in w for w in model.report.warnings)


def test_recurrent_net_becomes_opaque(make_model: Model) -> None:
    node = helper.make_node("LSTM", ["x", "w", "r"], ["", "h"], name="lstm", hidden_size=8)
    weights = {"w": np.ones((1, 32, 4), np.float32), "r": np.ones((1, 32, 8), np.float32)}

    model = load(make_model([node], {"x": (5, 2, 4)}, ["h"], weights).SerializeToString())

    assert model.report.unsupported == (("onnx.LSTM", ("lstm",)),)
    assert model.graph.value("h").shape == (1, 2, 8)


def test_operands_that_are_absent_leave_a_gap(make_model: Model) -> None:
    node = helper.make_node("LSTM", ["x", "w", "r", "", "", "h0"], ["", "h"], name="lstm", hidden_size=8)
    weights = {n: np.ones(s, np.float32) for n, s in (("w", (1, 32, 4)), ("r", (1, 32, 8)), ("h0", (1, 2, 8)))}

    op = load(make_model([node], {"x": (5, 2, 4)}, ["h"], weights).SerializeToString()).graph.op("lstm")

    assert at_their_positions(op, ABSENT_OPERANDS, op.inputs) == ["x", "w", "r", None, None, "h0"]
    assert at_their_positions(op, ABSENT_RESULTS, op.outputs) == [None, "h"]


def test_op_of_an_unknown_domain_with_stated_shape(make_model: Model) -> None:
    node = helper.make_node("Magic", ["x"], ["y"], name="magic", domain="acme")
    model = make_model([node], {"x": (2, 4)}, ["y"], domains=["acme"])
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 7]))

    graph = load(model.SerializeToString()).graph

    assert [op.op for op in graph.ops()] == ["onnx.acme.Magic"]
    assert graph.value("y").shape == (2, 7)


def test_op_of_an_unknown_domain_without_shape(make_model: Model) -> None:
    node = helper.make_node("Magic", ["x"], ["y"], name="magic", domain="acme")
    model = make_model([node], {"x": (2, 4)}, ["y"], domains=["acme"])

    raises(model.SerializeToString(), ShapeError, "Magic", "magic")


# -- size ------------------------------------------------------------------------------------------
def chain(make_model: Model, length: int, op: str) -> bytes:
    nodes = [helper.make_node(op, [f"v{i}"], [f"v{i + 1}"], name=f"n{i}") for i in range(length)]
    return make_model(nodes, {"v0": (32, 32)}, [f"v{length}"]).SerializeToString()


@pytest.mark.parametrize("nodes", sampled([3_000, 30_000], kept=[3_000]))
@pytest.mark.slow
def test_long_chain(nodes: int, make_model: Model) -> None:
    assert len(load(chain(make_model, nodes, "Sin")).graph) == nodes


@pytest.mark.parametrize("readers", sampled([2_000, 20_000], kept=[2_000]))
def test_fan_out(readers: int, make_model: Model) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"], name="a")]
    nodes += [helper.make_node("Relu", ["a"], [f"v{i}"], name=f"n{i}") for i in range(readers)]
    nodes += [helper.make_node("Sum", [f"v{i}" for i in range(readers)], ["y"], name="sum")]

    graph = load(make_model(nodes, {"x": (32, 32)}, ["y"]).SerializeToString()).graph

    assert len(graph) > readers // 2


def test_node_limit(make_model: Model) -> None:
    raises(chain(make_model, 50, "Sin"), LimitError, "50", "10", limits=ImportLimits(max_nodes=10))


def test_byte_limit(make_model: Model, tmp_path: Path) -> None:
    data = chain(make_model, 50, "Sin")
    (tmp_path / "m.onnx").write_bytes(data)

    raises(data, LimitError, "bytes", limits=ImportLimits(max_bytes=100))
    with pytest.raises(LimitError):
        load(tmp_path / "m.onnx", limits=ImportLimits(max_bytes=100))


def test_element_limit(make_model: Model) -> None:
    raises(chain(make_model, 1, "Sin"), LimitError, "1000", limits=ImportLimits(max_elements=1000))


def test_missing_external_weights_are_parameters(make_model: Model) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    model = make_model([node], {"x": (2, 4)}, ["y"], {"w": np.ones((4, 6), np.float32)})
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/nowhere/weights.bin")

    graph = load(model.SerializeToString()).graph

    assert graph.value("w").kind == "parameter"
    assert graph.value("w").data is None
