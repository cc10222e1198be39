"""A model that cannot be taken: the message names the real cause, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from optimizer.errors import InputError
from optimizer.importers import load

F, I = TensorProto.FLOAT, TensorProto.INT64  # noqa: E741 - as ONNX's types are called
IMAGE = helper.make_tensor_value_info("x", F, [1, 3, 32, 32])


def model(nodes: Sequence[onnx.NodeProto], inputs: Sequence[onnx.ValueInfoProto] = (IMAGE,), opset: int = 17,
          domain: str = "com.acme", output: onnx.ValueInfoProto | None = None,
          stated: Sequence[onnx.ValueInfoProto] = ()) -> onnx.ModelProto:  # fmt: skip
    output = output or helper.make_tensor_value_info("y", F, None)
    graph = helper.make_graph(nodes, "refused", inputs, [output], value_info=stated)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(domain, 1)])


def node(op: str, inputs: str, outputs: str, domain: str = "", **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), name=f"the_{op}", domain=domain, **attributes)


FANCY = [node("Fancy", "x", "t", "com.acme"), node("Relu", "t", "y")]
SEQUENCE = helper.make_tensor_sequence_value_info("s", F, [1, 3])
OPTIONAL = helper.make_value_info("o", helper.make_optional_type_proto(helper.make_tensor_type_proto(F, [1, 3])))
SHAPE = helper.make_tensor_value_info("s", I, [4])
AXES = helper.make_tensor_value_info("a", I, [1])
ONE = node("Constant", "", "one", value_ints=[1])

CASES = {
    "custom op without value_info": (
        model(FANCY),
        ["'the_Fancy'", "custom op of the domain 'com.acme'", "add value_info for 't'", "Relu 'the_Relu'"],
    ),
    "custom op of a domain without opset": (model(FANCY, domain="org"), ["does not import 'com.acme' either"]),
    "custom op with open value_info": (
        model(FANCY, stated=[helper.make_tensor_value_info("t", F, ["n", 3])]),
        ["states the shape [n,3] for its result 't'", "--dim n=1"],
    ),
    "op that does not exist": (model([node("Rellu", "x", "y")]), ["ONNX has no op 'Rellu'", "did you mean 'Relu'"]),
    "op of a later opset": (
        model([node("Gelu", "x", "y")]),
        ["Gelu is not in opset 17", "export with a newer opset", "onnx.version_converter"],
    ),
    "op of an earlier opset": (
        model([node("Upsample", "x", "y", scales=[1.0, 1.0, 2.0, 2.0])]),
        ["attribute 'scales' is none of the op's in this opset", "state the opset that has it"],
    ),
    "opset too old": (model([node("Relu", "x", "y")], opset=6), ["opset 6", "export with opset 7 to 23"]),
    "opset too new": (model([node("Relu", "x", "y")], opset=24), ["opset 24", "export with opset 7 to 23"]),
    "sequence input": (
        model([node("ConcatFromSequence", "s", "y", axis=0)], [SEQUENCE]),
        ["input 's' is of the ONNX type 'sequence'", "an input for each tensor"],
    ),
    "optional input": (
        model([node("OptionalGetElement", "o", "y")], [OPTIONAL], opset=18),
        ["input 'o' is of the ONNX type 'optional'"],
    ),
    "sequence on the way": (
        model([node("SplitToSequence", "x", "t", axis=1), node("ConcatFromSequence", "t", "y", axis=1)]),
        ["use Split, Concat and Slice instead of sequences"],
    ),
    "elements decide": (
        model([node("NonZero", "x", "t"), node("Cast", "t", "y", to=F)]),
        ["NonZero 'the_NonZero'", "how many elements it gives depends on the data"],
    ),
    "axes from an input": (
        model([ONE, node("Slice", "x one one a", "y")], [IMAGE, AXES]),
        ["depends on the elements of 'a', which is an input of the model", "with 'a' as a constant"],
    ),
    "bounds from inputs": (
        model([node("Slice", "x a b", "y")], [IMAGE, AXES, helper.make_tensor_value_info("b", I, [1])]),
        ["which is an input of the model, and 'b'", "with 'a' and 'b' as constants"],
    ),
    "shape from an input": (
        model([node("Reshape", "x s", "y")], [IMAGE, SHAPE]),
        ["depends on the elements of 's', which is an input of the model", "with 's' as a constant"],
    ),
    "shape computed at run time": (
        model([node("Add", "s s", "u"), node("Reshape", "x u", "y")], [IMAGE, SHAPE]),
        ["depends on the elements of 'u', which is computed at run time by Add 'the_Add'"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_cause_is_named(case: str) -> None:
    refused, words = CASES[case]
    with pytest.raises(InputError) as error:
        load(refused)
    assert [word for word in words if word not in str(error.value)] == []


def external(tmp_path: Path) -> Path:
    """A Reshape whose shape lies beside the model."""
    made = model([node("Reshape", "x s", "y")])
    made.graph.initializer.append(numpy_helper.from_array(np.asarray([3, 1024]), "s"))
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, location="m.data")
    return tmp_path / "m.onnx"


def test_elements_beside_the_model_give_a_shape(tmp_path: Path) -> None:
    graph = load(external(tmp_path)).graph
    assert graph.value(graph.outputs[0]).shape == (3, 1024)


def test_why_elements_beside_the_model_are_not_there(tmp_path: Path) -> None:
    path = external(tmp_path)
    with pytest.raises(InputError, match=r"the elements of 's': they are external data, .* never for an upload"):
        load(path.read_bytes())
    with pytest.raises(InputError, match=r"never for an upload"):
        load(onnx.load(path, load_external_data=False))
    (tmp_path / "m.data").rename(tmp_path / "other")
    with pytest.raises(InputError, match=r"the elements of 's': the file 'm.data' is not there"):
        load(path)
    (tmp_path / "m.data").symlink_to(tmp_path / "other")
    with pytest.raises(InputError, match=r"a link, .* put the file itself into the model's folder"):
        load(path)
