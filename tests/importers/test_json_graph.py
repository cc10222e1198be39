"""JSON graphs: what is accepted, what is inferred, and one clear error for everything else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optimizer.errors import FormatError, GraphError, InputError, LimitError, ShapeError, UnknownNameError
from optimizer.export.registry import emit
from optimizer.importers import ImportLimits, load
from optimizer.ir.graph import ValueKind
from optimizer.options import Options
from optimizer.pipeline import optimize


def document(**changes: Any) -> dict[str, Any]:
    """A linear followed by a residual add."""
    return {
        "schema": "ttopt.graph/1",
        "model": {"name": "mlp", "inputs": ["x"], "outputs": ["y"]},
        "values": {
            "x": {"shape": [64, 32], "dtype": "bf16", "kind": "input"},
            "w": {"shape": [32, 32], "dtype": "bfp8_b", "kind": "parameter"},
        },
        "ops": [
            {"id": "sum", "op": "ttnn.add", "inputs": ["h", "x"], "outputs": ["y"]},
            {"id": "fc", "op": "ttnn.linear", "inputs": ["x", "w"], "outputs": ["h"], "attrs": {"activation": "relu"}},
        ],
        **changes,
    }


def read(raw: Any, **options: Any) -> Any:
    return load(json.dumps(raw).encode(), **options)


def raises(raw: Any, error: type[InputError], *words: str, **options: Any) -> None:
    with pytest.raises(error) as caught:
        read(raw, **options)
    assert type(caught.value) is error
    for word in words:
        assert word in str(caught.value)


def with_op(**changes: Any) -> dict[str, Any]:
    """The document with its linear changed."""
    raw = document()
    raw["ops"][1] = {**raw["ops"][1], **changes}
    return raw


def test_graph_in_schedule_order_with_inferred_values() -> None:
    graph = read(document()).graph

    assert [op.id for op in graph.ops()] == ["fc", "sum"]
    assert graph.value("y").shape == (64, 32)
    assert graph.value("w").dtype == "bfp8_b"
    assert graph.op("fc").attrs == {"activation": "relu"}
    assert graph.op("fc").name == "fc"


def test_report_counts_parameters() -> None:
    report = read(document()).report

    assert report.parameter_count == 1024
    assert report.parameter_bytes == 1088


def test_constant_keeps_its_elements() -> None:
    raw = document()
    raw["values"]["w"] = {"shape": [32, 32], "kind": "constant", "data": [0.5] * 1024}

    assert read(raw).graph.value("w").data == (0.5,) * 1024


def test_lists_become_tuples() -> None:
    raw = document()
    raw["ops"].append(
        {"id": "turn", "op": "ttnn.permute", "inputs": ["y"], "outputs": ["z"], "attrs": {"dims": [1, 0]}}
    )
    raw["model"]["outputs"] = ["z"]

    assert read(raw).graph.op("turn").attrs["dims"] == (1, 0)


def test_layouts_and_predictions_are_ignored_and_inserted_copies_leave() -> None:
    raw = document(schema="ttopt.annotated-graph/1", summary={"status": "optimal"}, chains=[], device={}, timings={})
    raw["values"]["x"]["layout"] = {"tensor_layout": "tile"}
    raw["ops"][0]["inputs"] = ["moved", "x"]
    raw["ops"].append(
        {"id": "copy", "op": "ttnn.to_memory_config", "inputs": ["h"], "outputs": ["moved"], "role": "reshard"}
    )

    model = read(raw)

    assert [op.id for op in model.graph.ops()] == ["fc", "sum"]
    assert model.graph.op("sum").inputs == ("h", "x")
    assert "1 copies" in model.report.warnings[0]


def test_later_fields_of_results_are_ignored_but_not_those_of_hand_made_graphs() -> None:
    later = with_op(novelty=1)

    assert len(read({**later, "summary": {"status": "optimal"}}).graph) == 2
    raises(later, FormatError, "ops.1: no field 'novelty' is known")


def test_opaque_op_with_stated_shapes() -> None:
    raw = with_op(op="acme.magic", attrs={"any": [1, "two", None]})
    raw["values"]["h"] = {"shape": [64, 32]}

    model = read(raw)

    assert model.report.unsupported == (("acme.magic", ("fc",)),)
    assert model.graph.op("fc").attrs == {"any": (1, "two", None)}


def test_opaque_op_without_shapes_names_near_ops() -> None:
    raises(with_op(op="ttnn.linaer"), UnknownNameError, "fc", "ttnn.linear")


def test_why_an_op_of_no_row_is_opaque() -> None:
    raw = with_op(op="ttnn.linaer")
    raw["values"]["h"] = {"shape": [64, 32]}

    opaque = read(raw)

    assert "no op of the vocabulary, did you mean 'ttnn.linear'" in opaque.report.reasons["fc"]


BAD: list[tuple[Any, type[InputError], tuple[str, ...]]] = [
    ([], FormatError, ("object",)),
    ({}, FormatError, ("model",)),
    (document(schema="other/1"), FormatError, ("schema",)),
    (document(extra=1), FormatError, ("extra",)),
    (document(ops=[{"id": "a"}]), FormatError, ("ops.0: the field 'op' is missing",)),
    (with_op(attr={"activation": "relu"}), FormatError, ("ops.1: no field 'attr' is known, did you mean 'attrs'?",)),
    (document(valeus={}), FormatError, ("no field 'valeus' is known, did you mean 'values'?",)),
    (document(values={"x": {"shpae": [64, 32]}}), FormatError, ("values.x: no field 'shpae'", "'shape'")),
    (document(values={"x": {"stands_for": {"nam": "a"}}}), FormatError, ("values.x.stands_for: no field 'nam'",)),
    (with_op(inputs=None), FormatError, ("ops.1.inputs: Input should be a valid list",)),
    ({"inputs": ["a"], "ops": [], "yield": ["a"]}, FormatError, ("a tile DAG, which `ttopt kernel` reads",)),
    ({"cases": [{"id": "a", "program": {}}]}, FormatError, ("a GPU program, which `ttopt asm` reads",)),
    (with_op(attrs={"activaton": "relu"}), UnknownNameError, ("activaton", "activation", "fc")),
    (with_op(attrs={"activation": {"nested": 1}}), FormatError, ("activation",)),
    (with_op(inputs=["x"]), GraphError, ("fc", "2 to 3")),
    (with_op(inputs=["x", "nowhere"]), GraphError, ("fc", "nowhere")),
    (with_op(inputs=["y", "w"]), GraphError, ("cycle",)),
    (with_op(inputs=["w", "x"]), ShapeError, ("fc", "inner dims")),
    (with_op(id="sum"), GraphError, ("sum", "two ops")),
    (with_op(outputs=["y"]), GraphError, ("y", "produced by")),
    (with_op(outputs=["h", "i"]), GraphError, ("fc", "results")),
    (with_op(outputs=["x"]), GraphError, ("x",)),
    (document(model={"inputs": ["x"], "outputs": ["z"]}), GraphError, ("z",)),
    (document(model={"inputs": ["x", "h"], "outputs": ["y"]}), GraphError, ("h", "computed")),
    (document(model={"inputs": ["q"], "outputs": ["y"]}), GraphError, ("x",)),
    (document(values={"x": {"shape": [64, 32]}, "w": {}}), ShapeError, ("w", "no shape")),
    (document(values={"x": {"shape": [64, 0]}, "w": {"shape": [32, 32]}}), ShapeError, ("x", "empty")),
    (document(values={"x": {"shape": [64, 32]}, "w": {"shape": [32, 1 << 60]}}), LimitError, ("w",)),
    (document(values={"x": {"shape": [64, 32], "dtype": "f8"}}), FormatError, ("values.x.dtype",)),
    (
        document(values={"x": {"shape": [64, 32]}, "w": {"shape": [32, 32]}, "h": {"shape": [1, 1]}}),
        ShapeError,
        ("fc", "states"),
    ),
    (
        document(values={"x": {"shape": [64, 32]}, "w": {"shape": [32, 32], "kind": "constant", "data": [1.0]}}),
        ShapeError,
        ("w", "1 elements"),
    ),
    (
        document(values={"x": {"shape": [64, 32]}, "w": {"shape": [32, 32], "kind": "activation"}}),
        GraphError,
        ("w", "no op computes"),
    ),
]


@pytest.mark.parametrize(("raw", "error", "words"), BAD, ids=range(len(BAD)))
def test_bad_document(raw: Any, error: type[InputError], words: tuple[str, ...]) -> None:
    raises(raw, error, *words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"model": ', "JSON"),
        ('{"a": NaN}', "NaN"),
        ("{" + '"a":[' * 100_000, "JSON"),
    ],
)
def test_bad_text(text: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        load(text.encode())


def test_name_twice_in_one_object() -> None:
    text = json.dumps(document()).replace('"values": {', '"values": {"w": {"shape": [1]}, ')

    with pytest.raises(FormatError, match='an object has "w" twice'):
        load(text.encode())


def test_not_text() -> None:
    with pytest.raises(FormatError):
        load(b'{"\xff\xfe": 1}')


def test_limits() -> None:
    raises(document(), LimitError, "2 ops", limits=ImportLimits(max_nodes=1))
    raises(document(), LimitError, "'x'", "100", limits=ImportLimits(max_elements=100))
    raises(document(), LimitError, "rank", limits=ImportLimits(max_rank=1))


def test_input_shapes_must_agree() -> None:
    assert len(read(document(), input_shapes={"x": (64, 32)}).graph) == 2
    raises(document(), ShapeError, "x", "static", input_shapes={"x": (1, 32)})


def test_a_constant_has_elements() -> None:
    document = {
        "model": {"inputs": ["x"], "outputs": ["y"]},
        "values": {"x": {"shape": [32, 32]}, "w": {"shape": [32, 32], "kind": "constant"}},
        "ops": [{"id": "a", "op": "ttnn.add", "inputs": ["x", "w"], "outputs": ["y"]}],
    }

    with pytest.raises(GraphError, match="'w' is a constant without 'data'; a weight is of kind parameter"):
        load(json.dumps(document).encode())


@pytest.mark.parametrize("model", ["whisper_tiny_encoder_dynamo20", "llama32_1b_2l_dynamo20"])
def test_a_result_fed_back_is_the_same_problem(model: str, project_root: Path, tmp_path: Path) -> None:
    options = Options(board="n150", policy="dram")
    result = optimize(project_root / "fixtures" / "onnx" / f"{model}.onnx", options=options)
    emit(result, "json", tmp_path)

    again = optimize(tmp_path / "graph.json", options=options)

    assert again.summary.predicted_time_ns == result.summary.predicted_time_ns
    assert sorted(op.op for op in again.graph.ops()) == sorted(op.op for op in result.graph.ops())


@pytest.mark.parametrize("op", ["ttnn.full", "onnx.Loop"])
def test_what_depends_on_nothing_is_prepared_once_where_a_device_does_it(op: str) -> None:
    made = {"id": "made", "op": op, "inputs": [], "outputs": ["c"], "attrs": {"shape": [32, 32], "value": 2.0}}
    added = {"id": "added", "op": "ttnn.add", "inputs": ["x", "c"], "outputs": ["y"]}
    values = {"x": {"shape": [32, 32], "kind": "input"}, "c": {"shape": [32, 32]}}

    graph = read(document(values=values, ops=[made, added])).graph

    assert graph.value("c").kind is (ValueKind.PARAMETER if op == "ttnn.full" else ValueKind.ACTIVATION)
