"""tt-mlir's plans as annotated graphs, as problems, and compared."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from plan_text import plan_record, tensor, written
from tt_mlir.annotated import annotated
from tt_mlir.cleaned import cleaned
from tt_mlir.document import read_plan
from tt_mlir.judging import judged, priced
from tt_mlir.program import PlanProgram, plan_program
from tt_mlir.stripped import stripped

from optimizer.answers.checking import check_record, price_record
from optimizer.device import DeviceSpec
from optimizer.errors import FormatError
from optimizer.export.reader import read_result
from optimizer.export.registry import emit
from optimizer.ir.graph import ValueKind
from optimizer.layouts.memory_config import PageLayout
from optimizer.opmodel.base import OpModel
from optimizer.opmodel.registry import create
from optimizer.options import Options
from optimizer.pipeline import optimize
from optimizer.result import OptimizedGraph, Role

N150 = DeviceSpec.preset("n150")
COPIES = ("ttnn.to_memory_config", "ttnn.to_layout")
BLOCKS = {"buffer": "l1", "memory": "block_sharded", "grid": [2, 4], "shard": [32, 32], "cores": [[0, 0, 3, 1]]}
X = (1, 1, 64, 128)
NETWORKS = (
    "bert_2_layers", "llama_2_layers", "mobilenet_blocks", "unet_group_norm", "unet_transposed", "vit_2_blocks"
)  # fmt: skip
CALLED_ALIKE = (
    "conv2d", "conv_transpose2d", "max_pool2d", "linear", "matmul", "softmax", "layer_norm", "rms_norm", "group_norm",
    "rotary_embedding", "concatenate_heads", "gelu", "silu", "multiply", "concat", "upsample", "permute",
)  # fmt: skip
"""Ops of the dialect that are one of our ops of the same name."""


@pytest.fixture
def plans(project_root: Path) -> Path:
    return project_root / "fixtures" / "tt_mlir_plans"


@pytest.fixture(scope="module")
def model() -> OpModel:
    return create("analytical", N150, Options().l1_small_bytes)


def program(path: Path) -> PlanProgram:
    return plan_program(read_plan(path))


def peer(path: Path, model: OpModel) -> OptimizedGraph:
    return annotated(program(path), N150, Options(), model)


# -- reading ---------------------------------------------------------------------------------------------
def test_a_plan_is_an_annotated_graph_that_verifies(plans: Path, model: OpModel, tmp_path: Path) -> None:
    result = peer(plans / "tiny_O2.ops.json.gz", model)

    answer = price_record(result)
    emit(result, "json", tmp_path)

    assert [op.op for op in result.graph.ops()] == [
        "ttnn.to_layout", "ttnn.to_memory_config", *("ttnn.linear", "ttnn.relu") * 3, "ttnn.to_memory_config"
    ]  # fmt: skip
    roles = Counter(record.role for record in result.records.values())
    assert roles == {Role.COMPUTE: 6, Role.LAYOUT: 1, Role.LOAD: 1, Role.SPILL: 1}
    assert answer["verified"]
    assert price_record(read_result(tmp_path)) == answer


@pytest.mark.parametrize("name", NETWORKS)
def test_plans_of_networks_verify(plans: Path, model: OpModel, name: str) -> None:
    path = plans / f"{name}_O2.ops.json.gz"
    stated = Counter(op["op"] for op in json.loads(gzip.decompress(path.read_bytes()))["functions"]["main"]["ops"])

    result = peer(path, model)

    found = Counter(op.op for op in result.graph.ops())
    named = {op for op in stated if op.removeprefix("ttnn.") in CALLED_ALIKE}
    assert len(named) >= 2
    assert {op: found[op] for op in named} == {op: stated[op] for op in named}
    assert price_record(result)["verified"] is (name != "vit_2_blocks")


def test_an_op_of_the_peers_that_does_not_fit_is_named(plans: Path, model: OpModel) -> None:
    """Its convolution over patches; tt-metal's allocator refuses it as well."""
    result = peer(plans / "vit_2_blocks_O2.ops.json.gz", model)

    answer = judged(result, model, replay=False)

    assert [error["op"] for error in answer["errors"]] == ["conv2d_47"]
    assert "Out of Memory" in answer["errors"][0]["message"]
    assert answer["priced_from_dram"] == ["conv2d_47"]


@pytest.mark.parametrize("name", ["unet_transposed", "mobilenet_blocks"])
@pytest.mark.slow
def test_ours_is_faster_on_the_same_ops(plans: Path, model: OpModel, name: str) -> None:
    theirs = price_record(peer(plans / f"{name}_O2.ops.json.gz", model))["predicted_time_ns"]

    ours = optimize(stripped(program(plans / f"{name}_O2.ops.json.gz")), N150, Options(policy="global"))

    assert ours.summary.predicted_time_ns < theirs


def test_shards_that_stay_where_they_are_are_views(model: OpModel, tmp_path: Path) -> None:
    record = plan_record(
        "ttnn.reshape", [tensor(X, role="input", **BLOCKS)], [tensor((64, 128), **BLOCKS)], {"shape": [64, 128]}
    )

    result = peer(written(tmp_path, record), model)

    assert [record.role for record in result.records.values()] == [Role.VIEW, Role.SPILL]


def test_weights_are_prepared_once(plans: Path) -> None:
    graph = program(plans / "resblock_O2.ops.json.gz").graph

    weights = {v.id: v.shape for v in graph.values.values() if v.kind is ValueKind.PARAMETER}

    assert sorted(weights.values()) == [
        (1, 1, 1, 64), (1, 1, 1, 64), (1, 1, 1, 256), (64, 64, 3, 3), (64, 256, 1, 1), (256, 64, 1, 1),
    ]  # fmt: skip
    assert not any(op.op == "ttnn.prepare_conv2d_weights" for op in graph.ops())


def test_a_filled_tensor_of_one_element_keeps_its_number(tmp_path: Path) -> None:
    record = plan_record("ttnn.multiply", [tensor(X, role="input"), tensor((1, 1, 1, 1))], [tensor(X)])
    main = record["functions"]["main"]
    main["args"], main["ops"][0]["in"] = ["%arg0"], ["%arg0", "%scale"]
    main["tensors"]["%scale"] = tensor((1, 1, 1, 1))
    main["ops"].insert(0, {"op": "ttcore.load_cached", "in": [], "out": ["%scale"], "attrs": {"callee": "once"}})
    main["ops"][0]["loc"] = "unknown"
    fill = {"op": "ttnn.full", "in": [], "out": ["%0"], "attrs": {"fill_value": 0.125, "shape": [1, 1, 1, 1]}}
    record["functions"]["once"] = {
        "kind": "const_eval", "args": [], "tensors": {"%0": tensor((1, 1, 1, 1))}, "ops": [fill], "returns": ["%0"]
    }  # fmt: skip

    graph = program(written(tmp_path, record)).graph
    tidy, _ = cleaned(graph)

    assert graph.values["scale"].data == (0.125,)
    assert [(op.op, op.attrs["scalar"]) for op in tidy.ops()] == [("ttnn.multiply", 0.125)]


def test_what_is_written_into_a_cache_is_a_result(tmp_path: Path) -> None:
    row, cache = tensor((1, 8, 1, 64)), tensor((1, 8, 128, 64), role="input")
    record = plan_record("ttnn.relu", [{**row, "role": "input"}, cache], [row], returned=[])
    main = record["functions"]["main"]
    main["ops"][0]["in"] = ["%arg0"]
    main["ops"].append({"op": "ttnn.fill_cache", "in": ["%arg1", "%0"], "out": [], "attrs": {"batch_offset": 0}})

    read = program(written(tmp_path, record))

    assert [op.op for op in read.graph.ops()] == ["ttnn.relu"]
    assert list(read.graph.outputs) == ["v0"]
    assert read.notes == ["ttnn.fill_cache of %0 counts as a result in DRAM"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{", "cannot read a plan"),
        (b"{}", "not a plan of tt-mlir's"),
        (b'{"functions": {}}', "one function of kind 'forward_device'"),
        (gzip.compress(b"[]"), "not a plan of tt-mlir's"),
        (gzip.compress(b"{}")[:12], "cannot read a plan"),
    ],
    ids=["no JSON", "no functions", "no device function", "a list", "cut off"],
)
def test_what_is_no_plan_is_refused(tmp_path: Path, text: bytes, said: str) -> None:
    path = tmp_path / "bad.ops.json.gz"
    path.write_bytes(text)

    with pytest.raises(FormatError, match=said):
        program(path)


# -- the same ops, free of layouts -----------------------------------------------------------------------
@pytest.mark.parametrize("name", ["tiny", "resblock"])
def test_the_problem_has_the_plans_ops_without_its_copies(plans: Path, name: str) -> None:
    read = program(plans / f"{name}_O2.ops.json.gz")

    graph = stripped(read)

    kept = [(op.op, op.id) for op in read.graph.ops() if op.op not in COPIES]
    assert [(op.op, op.id) for op in graph.ops() if op.op not in COPIES] == kept
    assert [op.attrs["layout"] for op in graph.ops() if op.op in COPIES] == ["tile"]
    assert [graph.value(v).shape for v in graph.outputs] == [read.graph.value(v).shape for v in read.graph.outputs]


def test_rows_that_the_caller_hands_over_are_tiled_in_our_plan_too(plans: Path) -> None:
    graph = stripped(program(plans / "tiny_O2.ops.json.gz"))

    result = optimize(graph, N150, Options(policy="dram"))

    assert result.layouts["arg6"].page_layout is PageLayout.ROW_MAJOR
    assert next(r.role for r in result.records.values()) is Role.LAYOUT


def test_residuals_stay_flat_and_rows_are_reshaped_before_they_are_tiled(plans: Path) -> None:
    tidy, rewrites = cleaned(stripped(program(plans / "resblock_O2.ops.json.gz")))

    result = optimize(tidy, N150, Options(policy="dram"))

    add = next(op for op in tidy.ops() if op.op == "ttnn.add")
    assert tidy.value(add.outputs[0]).shape == (1, 1, 3136, 256)
    assert add.attrs["activations"] == ("relu",)
    assert rewrites["rows-first"] == 1
    rows = next(op for op in result.graph.ops() if op.op == "ttnn.reshape")
    assert result.layouts[rows.outputs[0]].page_layout is PageLayout.ROW_MAJOR


@pytest.mark.parametrize(
    ("op", "channels", "attrs"),
    [
        ("ttnn.multiply", [(1, 1, 1, 128)], {}),
        ("ttnn.subtract", [(128,)], {}),
        ("ttnn.layer_norm", [(128,), (128,)], {"epsilon": 1e-5, "operandSegmentSizes": [1, 1, 1]}),
    ],
)
def test_what_works_row_by_row_stays_flat(
    tmp_path: Path, op: str, channels: list[tuple[int, ...]], attrs: dict[str, Any]
) -> None:
    """x as an image, worked upon, and flat again."""
    image = (1, 8, 8, 128)
    operands = [tensor(X, role="input"), *(tensor(shape, role="parameter") for shape in channels)]
    record = plan_record(op, operands, [tensor(image)], attrs)
    main = record["functions"]["main"]
    main["tensors"] |= {"%image": tensor(image), "%flat": tensor(X)}
    main["ops"][0]["in"] = ["%image", *main["args"][1:]]
    main["ops"].insert(0, {"op": "ttnn.reshape", "in": ["%arg0"], "out": ["%image"]})
    main["ops"].append({"op": "ttnn.reshape", "in": ["%0"], "out": ["%flat"]})
    main["returns"] = ["%flat"]

    tidy, rewrites = cleaned(stripped(program(written(tmp_path, record))))

    (only,) = tidy.ops()
    assert (only.op, tidy.value(only.outputs[0]).shape) == (op, X)
    assert [tidy.value(v).shape for v in only.inputs] == [X, *channels]
    assert rewrites["flat-residuals"] == 1


def test_what_differs_from_image_to_image_does_not_become_flat(tmp_path: Path) -> None:
    """Two images, each times its own numbers per channel."""
    images, own = (2, 4, 8, 128), (2, 1, 1, 128)
    record = plan_record("ttnn.multiply", [tensor(X, role="input"), tensor(own, role="input")], [tensor(images)])
    main = record["functions"]["main"]
    main["tensors"]["%image"] = tensor(images)
    main["ops"][0]["in"] = ["%image", "%arg1"]
    main["ops"].insert(0, {"op": "ttnn.reshape", "in": ["%arg0"], "out": ["%image"]})

    tidy, rewrites = cleaned(stripped(program(written(tmp_path, record))))

    assert [op.op for op in tidy.ops()] == ["ttnn.reshape", "ttnn.multiply"]
    assert rewrites == {}


def test_a_decomposed_norm_is_one_again(tmp_path: Path) -> None:
    """x * rsqrt(sum(x ^ 2) / 128 + eps), the numbers in tensors of one element."""
    steps = [
        ("ttnn.pow_tensor", ["%arg0", "%two"], "%0", X, {}),
        ("ttnn.sum", ["%0"], "%1", (1, 1, 64, 1), {"dim_arg": [3], "keep_dim": True}),
        ("ttnn.multiply", ["%1", "%share"], "%2", (1, 1, 64, 1), {}),
        ("ttnn.add", ["%2", "%epsilon"], "%3", (1, 1, 64, 1), {}),
        ("ttnn.rsqrt", ["%3"], "%4", (1, 1, 64, 1), {}),
        ("ttnn.multiply", ["%arg0", "%4"], "%5", X, {}),
    ]
    record = plan_record("ttnn.relu", [tensor(X, role="input")], [tensor(X)])
    main = record["functions"]["main"]
    main["ops"], main["returns"] = [], ["%5"]
    for name, number in (("%two", 2.0), ("%share", 1 / 128), ("%epsilon", 1e-5)):
        main["tensors"][name] = tensor((1, 1, 1, 1))
        main["ops"].append({"op": "ttnn.full", "in": [], "out": [name], "attrs": {"fill_value": number}})
    for op, operands, out, shape, attrs in steps:
        main["tensors"][out] = tensor(shape)
        main["ops"].append({"op": op, "in": operands, "out": [out], "attrs": attrs})

    tidy, rewrites = cleaned(stripped(program(written(tmp_path, record))))

    assert [op.op for op in tidy.ops()] == ["ttnn.rms_norm"]
    assert rewrites == {"spelled-out": 4, "rms-norm": 1}


# -- judging ---------------------------------------------------------------------------------------------
def test_a_plan_beyond_our_limits_is_reported(tmp_path: Path, model: OpModel) -> None:
    """Shards of half of the tensor: the copy is refused, and priced from DRAM."""
    half = {**BLOCKS, "shard": [32, 32], "grid": [1, 4], "cores": [[0, 0, 3, 0]]}
    record = plan_record("ttnn.softmax", [tensor(X, role="input")], [tensor(X, **half)], {"dimension": 3})

    result = peer(written(tmp_path, record), model)
    answer = judged(result, model, replay=False)

    assert not answer["verified"]
    assert answer["errors"]
    assert answer["predicted_time_ns"] > 0
    assert priced(result, model).stand_ins == ("softmax_0", "to_memory_config_v0_dram")


@pytest.mark.parametrize("name", ["tiny", "resblock"])
def test_the_peers_plan_replays(plans: Path, model: OpModel, needs_ttnn: None, name: str) -> None:
    answer = check_record(peer(plans / f"{name}_O2.ops.json.gz", model), "ttmetal")

    assert answer["errors"] == []
    assert answer["l1"]["exact"] == answer["steps"]


def run(project_root: Path, *options: str) -> tuple[int, list[dict[str, Any]], str]:
    command = [sys.executable, str(project_root / "benchmarks" / "tt_mlir_plans.py"), "--no-replay", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.slow
def test_plans_are_compared(project_root: Path, plans: Path, tmp_path: Path) -> None:
    path = plans / "resblock_O2.ops.json.gz"

    code, (record,), text = run(project_root, str(path), "-o", str(tmp_path))

    times = [record[name]["predicted_time_ns"] for name in ("peer", "ours", "ours_cleaned")]
    assert code == 0
    assert times[0] >= times[1] >= times[2]
    assert record["model"] == "resblock_O2"
    assert record["ours"].keys() >= {"dram_write_bytes_total", "reshards", "refused_ops", "seconds"}
    for name, time_ns in zip(("peer", "ours", "ours_cleaned"), times, strict=True):
        assert price_record(read_result(tmp_path / "resblock_O2" / name))["predicted_time_ns"] == time_ns
    assert "resblock_O2" in text


@pytest.mark.slow
def test_a_plan_with_an_op_that_we_lack_fails_by_name(project_root: Path, tmp_path: Path) -> None:
    path = written(tmp_path, plan_record("ttnn.conv3d", [tensor(X, role="input")], [tensor(X)]), "odd")

    code, (record,), text = run(project_root, str(path))

    assert code == 1
    assert record["model"] == "odd"
    assert "ttnn.conv3d" in record["error"]
    assert "FAILED odd" in text
