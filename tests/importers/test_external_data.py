"""External data: no file that a model names is opened for an upload; small tensors come from a model's own folder."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from optimizer.errors import FormatError, GraphError, InputError, LimitError, ShapeError
from optimizer.importers import ImportLimits, load
from optimizer.ir.graph import ValueKind

Model = Callable[..., onnx.ModelProto]
SECRET = 1234.5625
F = TensorProto.FLOAT


def external(shape: tuple[int, ...], location: str, kind: int = F, name: str = "w", **more: str) -> TensorProto:
    """A tensor whose data are said to lie elsewhere."""
    tensor = TensorProto(name=name, data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def adding(make_model: Model, tensor: TensorProto) -> onnx.ModelProto:
    model = make_model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": (2, 4)}, ["y"])
    model.graph.initializer.append(tensor)
    return model


def reshaping(make_model: Model, **where: str) -> onnx.ModelProto:
    """A Reshape to [4, 2] whose shape operand is external."""
    model = make_model([helper.make_node("Reshape", ["x", "w"], ["y"], name="view")], {"x": (2, 4)}, ["y"])
    model.graph.initializer.append(external((2,), kind=TensorProto.INT64, **where))
    return model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder with a file beside it and one that it must not see."""
    inside = tmp_path / "model"
    (inside / "sub").mkdir(parents=True)
    (inside / "shape.bin").write_bytes(np.array([9, 4, 2], "<i8").tobytes())
    (inside / "sub" / "shape.bin").write_bytes(np.array([4, 2], "<i8").tobytes())
    (tmp_path / "secret.bin").write_bytes(np.full(64, SECRET, "<f4").tobytes())
    (inside / "link.bin").symlink_to(tmp_path / "secret.bin")
    os.mkfifo(inside / "pipe")
    return inside


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def everywhere(make_model: Model, location: str) -> Iterator[tuple[str, onnx.ModelProto]]:
    """A model for each place that a tensor can stand in."""

    def attribute(**values: object) -> onnx.ModelProto:
        node = helper.make_node("Odd", ["x"], ["y"], domain="my", **values)
        return make_model([node], {"x": (2, 4)}, ["y"], domains=["my"])

    def branch(tensor: TensorProto, constant: bool) -> onnx.GraphProto:
        nodes = [helper.make_node("Constant", [], ["w"], value=tensor)] if constant else []
        nodes.append(helper.make_node("Add", ["x", "w"], ["t"]))
        output = helper.make_tensor_value_info("t", F, None)
        return helper.make_graph(nodes, "branch", [], [output], [] if constant else [tensor])

    tensor = external((4,), location)
    yield "initializer", adding(make_model, tensor)
    yield "scalar", adding(make_model, external((), location))
    nodes = [helper.make_node("Constant", [], ["w"], value=tensor), helper.make_node("Add", ["x", "w"], ["y"])]
    yield "Constant", make_model(nodes, {"x": (2, 4)}, ["y"])
    nodes = [
        helper.make_node("ConstantOfShape", ["s"], ["w"], value=external((1,), location)),
        helper.make_node("Add", ["x", "w"], ["y"]),
    ]
    yield "ConstantOfShape", make_model(nodes, {"x": (2, 4)}, ["y"], {"s": np.array([4])})
    yield "t", attribute(t=tensor)
    yield "tensors", attribute(tensors=[tensor, tensor])
    sparse = helper.make_sparse_tensor(tensor, numpy_helper.from_array(np.arange(4), "i"), [8])
    yield "sparse_tensor", attribute(sparse_value=sparse)
    yield "sparse_tensors", attribute(sparse=[sparse])
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 4)}, ["y"])
    model.graph.sparse_initializer.append(sparse)
    yield "sparse_initializer", model
    for constant in (False, True):
        then, other = branch(tensor, constant), branch(tensor, constant)
        choice = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
        yield f"If {constant}", make_model([choice], {"x": (2, 4)}, ["y"], {"c": np.array(True)})
    outer = helper.make_graph([choice], "outer", [], [helper.make_tensor_value_info("y", F, None)])
    nested = helper.make_node("If", ["c"], ["z"], then_branch=outer, else_branch=outer)
    yield "nested If", make_model([nested], {"x": (2, 4)}, ["z"], {"c": np.array(True)})
    yield "graphs", attribute(graphs=[outer])
    scan = helper.make_node("Scan", ["x"], ["y"], body=branch(tensor, False), num_scan_inputs=1)
    yield "Scan", make_model([scan], {"x": (2, 4)}, ["y"])
    body = [helper.make_node("Constant", [], ["w"], value=tensor), helper.make_node("Add", ["a", "w"], ["b"])]
    called = make_model([helper.make_node("G", ["x"], ["y"], domain="my")], {"x": (2, 4)}, ["y"], domains=["my"])
    imports = [helper.make_opsetid("", 17)]
    called.functions.append(helper.make_function("my", "G", ["a"], ["b"], body, imports))
    yield "function", called
    default = onnx.FunctionProto()
    default.CopyFrom(called.functions[0])
    default.attribute_proto.append(helper.make_attribute("fill", tensor))
    with_default = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 4)}, ["y"], domains=["my"])
    with_default.functions.append(default)
    yield "default of a function's attribute", with_default
    training = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 4)}, ["y"])
    training.training_info.add().algorithm.initializer.append(tensor)
    yield "training", training


WATCHED = """
import os, pickle, sys
models = pickle.load(sys.stdin.buffer)
from optimizer.errors import InputError
import onnx_shape_inference, onnxscript.optimizer
from optimizer.importers import load, suffixes
suffixes()  # looks for installed plugins
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
for name, data in models:
    opened.clear()
    try:
        values = load(data).graph.values.values()
        assert not any(1234.5625 in (v.data or ()) for v in values), name
    except InputError:
        pass
    found = [path for path in opened if not path.endswith((".py", ".pyc", ".so"))]
    assert not found, (name, found)
"""


@pytest.mark.slow
def test_nothing_is_opened_for_an_upload(folder: Path, make_model: Model) -> None:
    (folder / "secret.bin").write_bytes((folder.parent / "secret.bin").read_bytes())
    models = [
        (f"{name} at {where}", model.SerializeToString())
        for where in ("secret.bin", str(folder.parent / "secret.bin"), "../secret.bin", "pipe", "/dev/zero")
        for name, model in everywhere(make_model, where)
    ]

    result = subprocess.run(
        [sys.executable, "-c", WATCHED], input=pickle.dumps(models), cwd=folder, capture_output=True, timeout=300
    )

    assert result.returncode == 0, result.stderr.decode()


def test_weights_in_branches_and_functions_are_parameters(make_model: Model) -> None:
    for name, model in everywhere(make_model, "weights.bin"):
        if name.startswith(("initializer", "Constant", "If", "nested", "function")) and name != "ConstantOfShape":
            graph = load(model.SerializeToString()).graph
            kinds = [graph.value(v).kind for op in graph.ops() for v in op.inputs]
            assert kinds == [ValueKind.INPUT, ValueKind.PARAMETER], name


@pytest.mark.parametrize("place", ["ConstantOfShape", "t", "tensors", "sparse_tensor", "sparse_initializer"])
def test_elements_that_are_needed_are_named(place: str, make_model: Model) -> None:
    model = dict(everywhere(make_model, "weights.bin"))[place]

    with pytest.raises(GraphError, match=r"needs the elements of tensor .* never for an upload"):
        load(model.SerializeToString())


def test_weights_file_that_is_missing(folder: Path, make_model: Model) -> None:
    model = adding(make_model, external((2, 4), "weights.bin"))

    from_path, from_bytes = load(saved(model, folder)), load(model.SerializeToString())

    assert from_path.graph.value("w").kind is ValueKind.PARAMETER
    assert from_path.graph.values == from_bytes.graph.values
    assert from_path.report == from_bytes.report


@pytest.mark.parametrize("where", [{"location": "shape.bin", "offset": "8"}, {"location": "sub/shape.bin"}])
def test_small_tensor_is_read_from_the_folder(where: dict[str, str], folder: Path, make_model: Model) -> None:
    model = reshaping(make_model, **where)

    imported = load(saved(model, folder))

    assert [imported.graph.value(v).shape for v in imported.graph.outputs] == [(4, 2)]
    assert f"1 small tensors were read from '{where['location']}' beside the model" in imported.report.warnings
    with pytest.raises(ShapeError, match="needs the elements of 'w'"):
        load(model.SerializeToString())


@pytest.mark.parametrize(
    "location",
    ["../secret.bin", "sub/../../secret.bin", "/etc/hostname", "/dev/zero", "pipe", "sub", "..\\secret.bin", "\0"],
)
def test_what_is_not_a_file_of_the_folder_is_refused(location: str, folder: Path, make_model: Model) -> None:
    with pytest.raises(FormatError, match="external data of tensor 'w'"):
        load(saved(adding(make_model, external((4,), location)), folder))


def test_links_are_not_followed(folder: Path, make_model: Model) -> None:
    imported = load(saved(adding(make_model, external((4,), "link.bin")), folder))

    assert imported.graph.value("w").kind is ValueKind.PARAMETER
    assert any("'link.bin' beside the model was not read: a link" in note for note in imported.report.warnings)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ({"offset": "16"}, "only 8 of the 16 bytes"),
        ({"length": "8"}, "the length is 8 bytes, not 16"),
        ({"offset": "-8"}, "offset '-8'"),
        ({"offset": "99999999999999999999"}, "offset"),
    ],
)
def test_place_in_the_file(where: dict[str, str], words: str, folder: Path, make_model: Model) -> None:
    with pytest.raises(FormatError, match=words):
        load(saved(reshaping(make_model, location="shape.bin", **where), folder))


def test_elements_read_from_the_folder_are_counted(folder: Path, make_model: Model) -> None:
    model = reshaping(make_model, location="sub/shape.bin")

    with pytest.raises(LimitError, match="tensor 'w'"):
        load(saved(model, folder), limits=ImportLimits(max_computed_elements=8))


def test_name_that_is_no_text(make_model: Model) -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"], name="nnnn")], {"x": (2, 4)}, ["y"])

    with pytest.raises(FormatError, match=r"'name' .* is not UTF-8"):
        load(model.SerializeToString().replace(b"nnnn", b"n\xed\xa0\x80"))


def test_op_type_that_is_no_text(make_model: Model) -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 4)}, ["y"])

    with pytest.raises(InputError, match=r"'op_type' .* is not UTF-8"):
        load(model.SerializeToString().replace(b"Relu", b"\xffelu"))
