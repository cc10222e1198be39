"""What the commands print and write, on a small model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optimizer.cli.results import SHOWN_ERRORS
from optimizer.device import preset_names
from optimizer.export.registry import emitter_names
from optimizer.opmodel.registry import names as opmodel_names
from optimizer.sharding.registry import policy_names
from tests.cli.conftest import Run


def stripped(path: Path) -> str:
    """The document without what may differ between runs."""
    record = json.loads(path.read_text(encoding="utf-8"))
    del record["timings"]
    return json.dumps(record)


def test_optimize_writes_the_graph_and_says_where(run: Run, mlp_onnx: Path, tmp_path: Path) -> None:
    status, out, err = run("optimize", mlp_onnx, "-o", tmp_path / "out")
    assert (status, err) == (0, "")
    assert out.splitlines()[0].startswith("mlp on n150: verified plan of policy global")
    assert out.splitlines()[-1] == f"wrote {tmp_path / 'out' / 'graph.json'}"
    for line in ("predicted time", "DRAM read", "L1 peak per core", "reshards", "loads", "spills", "unsupported ops"):
        assert f"\n{line}" in out
    document = json.loads((tmp_path / "out" / "graph.json").read_text(encoding="utf-8"))
    assert document["schema"] == "ttopt.annotated-graph/1"
    assert document["model"]["name"] == "mlp"


def test_results_go_beside_the_model_by_default(run: Run, mlp_onnx: Path, tmp_path: Path) -> None:
    model = tmp_path / "copy.onnx"
    model.write_bytes(mlp_onnx.read_bytes())
    assert run("optimize", model)[0] == 0
    assert (tmp_path / "copy.ttopt" / "graph.json").is_file()


def test_json_format_keeps_stdout_to_data(run: Run, mlp_onnx: Path, tmp_path: Path) -> None:
    status, out, err = run("optimize", mlp_onnx, "-o", tmp_path / "out", "--format", "json")
    record = json.loads(out)
    assert status == 0
    assert record["files"] == [str(tmp_path / "out" / "graph.json")]
    assert record["predicted_time_ns"] > 0
    assert err == f"wrote {tmp_path / 'out' / 'graph.json'}\n"


def test_two_runs_differ_in_timings_only(run: Run, mlp_onnx: Path, result_folder: Path, tmp_path: Path) -> None:
    run("optimize", mlp_onnx, "-o", tmp_path)
    assert stripped(tmp_path / "graph.json") == stripped(result_folder / "graph.json")


@pytest.mark.parametrize("data", [b"", b"not a model at all", b"\x08\x08\x12\x07pytorch"])
def test_a_file_that_is_no_model(run: Run, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "bad.onnx").write_bytes(data)
    status, out, err = run("optimize", tmp_path / "bad.onnx")
    assert (status, out) == (2, "")
    assert err.startswith(f"ttopt: error: {tmp_path / 'bad.onnx'}: not an ONNX model")
    assert err.count("\n") == 1


def test_a_truncated_model(run: Run, mlp_onnx: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.onnx").write_bytes(mlp_onnx.read_bytes()[:-1000])
    status, _, err = run("optimize", tmp_path / "cut.onnx")
    assert status == 2
    assert err.count("\n") == 1


def test_a_missing_file(run: Run, tmp_path: Path) -> None:
    status, _, err = run("inspect", tmp_path / "nowhere.onnx")
    assert status == 2
    assert "nowhere.onnx" in err
    assert "No such file" in err


def test_an_output_that_is_a_file(run: Run, mlp_onnx: Path) -> None:
    status, _, err = run("optimize", mlp_onnx, "-o", mlp_onnx)
    assert status == 2
    assert "must be a folder" in err


def test_inspect(run: Run, mlp_onnx: Path) -> None:
    status, out, _ = run("inspect", mlp_onnx)
    assert status == 0
    assert "input x" in out
    assert "524,288" in out
    record = json.loads(run("inspect", mlp_onnx, "--format", "json")[1])
    assert record["inputs"] == [{"id": "x", "shape": [256, 512], "dtype": "bf16"}]
    assert sum(record["foreign_ops"].values()) == 3
    assert {name for op in record["schedule"] for name in op["origin"]} == {"fc1", "act", "fc2"}


def test_explain_by_foreign_node(run: Run, result_folder: Path) -> None:
    status, out, _ = run("explain", result_folder, "fc1")
    assert status == 0
    assert "256, 512" in out
    record = json.loads(run("explain", result_folder / "graph.json", "fc1", "--format", "json")[1])
    assert "fc1" in record["origin"]
    assert record["operands"][0]["value"] == "x"
    assert record["reason"]


def test_explain_of_an_unknown_op_names_what_there_is(run: Run, result_folder: Path) -> None:
    status, _, err = run("explain", result_folder, "fc3")
    assert status == 2
    assert "unknown op or chain 'fc3', did you mean 'fc2' or 'fc1'? (one of: fc" in err


def test_check_and_price_agree_with_the_result(run: Run, result_folder: Path) -> None:
    status, out, _ = run("check", result_folder, "--format", "json")
    checked = json.loads(out)
    assert (status, checked["ok"], checked["errors"]) == (0, True, [])
    priced = json.loads(run("price", result_folder, "--format", "json")[1])
    summary = json.loads((result_folder / "graph.json").read_text(encoding="utf-8"))["summary"]
    assert priced["verified"]
    for figure in ("predicted_time_ns", "dram_read_bytes_total", "dram_write_bytes_total", "l1_peak_bytes"):
        assert priced[figure] == summary[figure]


def test_check_finds_a_changed_layout(run: Run, result_folder: Path, tmp_path: Path) -> None:
    document = json.loads((result_folder / "graph.json").read_text(encoding="utf-8"))
    output = document["model"]["outputs"][0]
    document["values"][output]["layout"]["buffer_type"] = "l1"
    (tmp_path / "graph.json").write_text(json.dumps(document), encoding="utf-8")
    status, out, _ = run("check", tmp_path, "--format", "json")
    record = json.loads(out)
    assert status == 1
    assert not record["ok"]
    assert record["errors"][0]["op"] == output
    assert run("price", tmp_path)[0] == 1


def test_check_and_price_speak_in_sentences(run: Run, result_folder: Path, tmp_path: Path) -> None:
    assert run("check", result_folder)[1].startswith("The plan holds; ")
    assert (
        "\nNot checked:\n  whether the graph computes the model: only with --model\n" in run("check", result_folder)[1]
    )
    assert run("price", result_folder)[1].startswith("The graph verifies and takes ")
    wrong = damaged(result_folder, tmp_path, "values/x/dtype", "f32")
    status, out, _ = run("check", wrong)
    assert status == 1
    assert out.startswith("The plan does NOT hold: ")
    status, out, _ = run("price", wrong)
    assert status == 1
    assert "so it has no price: " in out


def test_check_lists_the_first_errors_for_a_person(run: Run, result_folder: Path) -> None:
    other = Path(__file__).resolve().parents[2] / "fixtures" / "onnx" / "dlrm_like_dynamo20.onnx"
    status, out, _ = run("check", result_folder, "--model", other)
    assert status == 1
    wrong = out.partition("\nL1 holds")[0].splitlines()[1:]
    assert len(wrong) == SHOWN_ERRORS + 1
    assert wrong[0].startswith("  model: the file has the SHA-256 ")
    assert wrong[-1].endswith(" more, all of them with --format json")


@pytest.mark.parametrize("command", ["check", "price", "explain", "diff", "top"])
@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "other"}', "[" * 100_000])
def test_a_document_that_is_no_result(run: Run, tmp_path: Path, command: str, text: str) -> None:
    (tmp_path / "graph.json").write_text(text, encoding="utf-8")
    more = {"explain": ["op"], "diff": [tmp_path]}.get(command, [])
    status, out, err = run(command, tmp_path, *more)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1


def damaged(result: Path, folder: Path, where: str, value: Any) -> Path:
    """A copy of a result with one entry, named by its path, replaced or (None) removed."""
    document = json.loads((result / "graph.json").read_text(encoding="utf-8"))
    *way, last = [int(step) if step.isdecimal() else step for step in where.split("/")]
    place = document
    for step in way:
        place = place[step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    (folder / "graph.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


@pytest.mark.parametrize("command", ["check", "price", "explain", "diff", "top"])
@pytest.mark.parametrize("field", ["name", "origin", "role", "config", "attrs", "memory_config_argument"])
def test_optional_fields_may_be_absent(run: Run, result_folder: Path, tmp_path: Path, command: str, field: str) -> None:
    folder = damaged(result_folder, tmp_path, f"ops/0/{field}", None)
    first = json.loads((folder / "graph.json").read_text(encoding="utf-8"))["ops"][0]["id"]
    status, out, err = run(command, folder, *{"explain": [first], "diff": [result_folder]}.get(command, []))
    assert status in (0, 1), err
    assert out


@pytest.mark.parametrize("command", ["check", "price", "explain", "diff", "top"])
@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("ops/0/inputs", ["ghost"], "no description in 'values' of 'ghost'"),
        ("ops/0/outputs", ["ghost"], "no description in 'values' of 'ghost'"),
        ("model/outputs", ["ghost"], "model: no description in 'values' of 'ghost'"),
        ("values/x/layout", {"memory_layout": "interleaved"}, "values.x.layout"),
        ("ops/0/config", "dram", "ops.0.config"),
        ("ops/0/attrs", {"a": 10**40}, "ops[0].attrs.a: 1"),
        ("ops/0/attrs", {"a": float("nan")}, "NaN is no JSON number"),
        ("ops/0/attrs", {"a": json.loads("[" * 200 + "]" * 200)}, "nested more than 100 levels"),
    ],
)
def test_a_damaged_entry_is_named(
    run: Run, result_folder: Path, tmp_path: Path, command: str, where: str, value: Any, message: str
) -> None:
    folder = damaged(result_folder, tmp_path, where, value)
    status, out, err = run(command, folder, *{"explain": ["fc1"], "diff": [result_folder]}.get(command, []))
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["check", "price"])
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"kind": ["matmul_1d"]}, "unknown op config kind"),
        ({"kind": "sdpa", "q_chunk_size": 1}, "incomplete sdpa config: compute_with_storage_grid_yx, k_chunk_size"),
        ({"kind": "conv2d", "act_block_w_div": "2"}, "config field 'act_block_w_div' must be a whole number from 1"),
        ({"kind": "conv2d", "transpose_shards": 1}, "config field 'transpose_shards' must be bool"),
        ({"kind": "conv2d", "shard_layout": 3}, "config field 'shard_layout' must be str or null"),
        ({"kind": "matmul_1d", "compute_with_storage_grid_yx": [8]}, "incomplete matmul_1d config"),
    ],
)
def test_a_damaged_config_is_named(
    run: Run, result_folder: Path, tmp_path: Path, command: str, config: Any, message: str
) -> None:
    status, out, err = run(command, damaged(result_folder, tmp_path, "ops/0/config", config))
    assert (status, out) == (2, "")
    assert message in err


def test_check_with_a_backend_that_is_not_there(run: Run, result_folder: Path) -> None:
    status, _, err = run("check", result_folder, "--opmodel", "nonesuch")
    assert status == 2
    assert "unknown OpModel backend 'nonesuch'" in err


def test_diff_of_two_policies(run: Run, mlp_onnx: Path, result_folder: Path, tmp_path: Path) -> None:
    run("optimize", mlp_onnx, "--policy", "dram", "-o", tmp_path)
    status, out, _ = run("diff", tmp_path, result_folder)
    assert status == 0
    assert "policy dram" in out
    assert "policy global" in out
    record = json.loads(run("diff", tmp_path, tmp_path, "--format", "json")[1])
    assert record["ops"] == []


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("boards", preset_names()),
        ("policies", policy_names()),
        ("opmodels", opmodel_names()),
        ("emitters", emitter_names()),
    ],
)
def test_lists(run: Run, command: str, names: tuple[str, ...]) -> None:
    listed = json.loads(run(command, "--format", "json")[1])
    assert tuple(n["name"] if isinstance(n, dict) else n for n in listed) == names
    table = run(command)[1]
    assert all(name in table for name in names)
