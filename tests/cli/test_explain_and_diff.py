"""`ttopt explain` and `ttopt diff` as a person and as a script read them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from optimizer.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def two_results(tmp_path_factory: pytest.TempPathFactory, mlp_onnx: Path) -> tuple[Path, Path]:
    """The small model under policies `dram` and `global`, the latter with a copy before its second layer."""
    folders = []
    for more in (["--policy", "dram"], ["--policy", "global", "--insert-memreconfig", "fc2=0"]):
        folder = tmp_path_factory.mktemp("result")
        assert main(["optimize", str(mlp_onnx), "-o", str(folder), *more]) == 0
        folders.append(folder)
    return folders[0], folders[1]


def test_explain_prices_the_alternatives_in_the_whole_plan(run: Run, two_results: tuple[Path, Path]) -> None:
    record = json.loads(run("explain", two_results[1], "fc1", "--format", "json")[1])
    document = json.loads((two_results[1] / "graph.json").read_text(encoding="utf-8"))
    choices = record["choices"]
    assert choices["plan_time_ns"] == document["summary"]["predicted_time_ns"]
    assert choices["chosen"]["op_time_ns"] == record["predicted"]["time_ns"]
    totals = [a["total_time_ns"] for a in choices["alternatives"] if a["total_time_ns"] is not None]
    assert totals == sorted(totals)
    assert choices["runner_up"]["total_time_ns"] == totals[0] >= choices["plan_time_ns"]
    assert choices["runner_up"]["delta_ns"] == totals[0] - choices["plan_time_ns"]
    assert all(a["layout"] != choices["chosen"]["layout"] or a["config"] for a in choices["alternatives"])


def test_the_plan_of_a_lesser_policy_has_a_faster_alternative(run: Run, two_results: tuple[Path, Path]) -> None:
    choices = json.loads(run("explain", two_results[0], "fc1", "--format", "json")[1])["choices"]
    assert choices["runner_up"]["delta_ns"] < 0


def test_explain_as_text(run: Run, two_results: tuple[Path, Path]) -> None:
    status, out, _ = run("explain", two_results[1], "fc1")
    assert status == 0
    assert "what the whole plan would take with another choice here" in out
    assert "op +" in out
    status, recorded, _ = run("explain", two_results[1], "fc1", "--recorded")
    assert status == 0
    assert "whole plan" not in recorded


def test_explain_of_a_copy_points_to_its_op(run: Run, two_results: tuple[Path, Path]) -> None:
    document = json.loads((two_results[1] / "graph.json").read_text(encoding="utf-8"))
    spill = next(op["id"] for op in document["ops"] if op["role"] == "spill")
    assert "ask about the op it is made for" in run("explain", two_results[1], spill)[1]


def test_explain_of_a_graph_that_does_not_verify_says_so(
    run: Run, two_results: tuple[Path, Path], tmp_path: Path
) -> None:
    document = json.loads((two_results[1] / "graph.json").read_text(encoding="utf-8"))
    document["values"]["x"]["dtype"] = "f32"
    (tmp_path / "graph.json").write_text(json.dumps(document), encoding="utf-8")
    status, out, _ = run("explain", tmp_path, "fc1")
    assert status == 0
    assert "this document cannot be solved again" in out


def test_diff_charges_copies_to_their_ops_and_adds_up(run: Run, two_results: tuple[Path, Path]) -> None:
    record = json.loads(run("diff", *two_results, "--format", "json")[1])
    before, after = record["summary"]["predicted_time_ns"]
    change = sum(o["second"]["time_ns"] - o["first"]["time_ns"] for o in record["ops"])
    assert change == after - before
    assert any("spill" in o["second"]["copies"] for o in record["ops"])


def test_diff_as_text(run: Run, two_results: tuple[Path, Path]) -> None:
    status, out, _ = run("diff", *two_results)
    assert status == 0
    for words in ("predicted time", "DRAM read", "L1 peak per core", "L1-resident share"):
        assert f"\n{words} " in out
    assert "time of matmul" in out
    assert "no op differs" in run("diff", two_results[0], two_results[0])[1]


def test_diff_says_first_what_differs(run: Run, two_results: tuple[Path, Path]) -> None:
    differs = json.loads(run("diff", *two_results, "--format", "json")[1])["differs"]
    assert differs["options"] == {"policy": ["dram", "global"], "insert_memreconfig": ["", "fc2=0"]}
    assert (differs["model"], differs["board"], differs["warnings"]) == (None, None, [])
    assert "same model, board and options" in run("diff", two_results[0], two_results[0])[1]


def test_diff_warns_of_two_models_and_shows_changed_boards(
    run: Run, two_results: tuple[Path, Path], tmp_path: Path
) -> None:
    document = json.loads((two_results[1] / "graph.json").read_text(encoding="utf-8"))
    document["model"] |= {"sha256": "0" * 64, "name": "renamed"}
    document["device"]["clock_mhz"] = 999
    (tmp_path / "graph.json").write_text(json.dumps(document), encoding="utf-8")
    differs = json.loads(run("diff", two_results[1], tmp_path, "--format", "json")[1])["differs"]
    assert (differs["model"]["same_graph"], differs["warnings"]) == (True, [])
    assert differs["board"] == ["n150 (clock_mhz=1000)", "n150 (clock_mhz=999)"]
    relu = next(op for op in document["ops"] if op["role"] == "compute")
    relu["op"] = "ttnn.softmax"
    (tmp_path / "graph.json").write_text(json.dumps(document), encoding="utf-8")
    out = run("diff", two_results[1], tmp_path)[1]
    assert "WARNING: two different models are compared, 'mlp' of " in out


def test_diff_fails_over_a_limit(run: Run, two_results: tuple[Path, Path]) -> None:
    slow, fast = two_results
    status, out, _ = run("diff", fast, slow, "--fail-over", "5%")
    assert status == 1
    assert "FAILED: predicted time " in out
    assert "grows by more than the 5 % allowed" in out
    assert run("diff", slow, fast, "--fail-over", "0%")[0] == 0
    status, out, err = run("diff", fast, slow, "--fail-over", "0.5 %", "--format", "json")
    assert status == 1
    assert json.loads(out)["fail_over"]["failed"]
    assert "FAILED" in err
    assert run("diff", fast, slow, "--fail-over", "99999%")[0] == 0


@pytest.mark.parametrize("limit", ["0.05", "5", "-5%", "%", "nan%", "1e9%"])
def test_a_limit_is_a_percentage(run: Run, two_results: tuple[Path, Path], limit: str) -> None:
    status, _, err = run("diff", *two_results, f"--fail-over={limit}")
    assert status == 2
    assert "is no percentage such as 5%" in err


def test_a_result_with_an_overridden_element_type_is_solved_again_as_it_is(
    run: Run, mlp_onnx: Path, tmp_path: Path
) -> None:
    assert main(["optimize", str(mlp_onnx), "-o", str(tmp_path), "--override-output-layout", "fc1=f32"]) == 0
    again = tmp_path / "again"
    assert (
        main(["optimize", str(tmp_path / "graph.json"), "-o", str(again), "--override-output-layout", "fc1=f32"]) == 0
    )
    assert "no op differs" in run("diff", tmp_path, again)[1]
    assert "alternatives" in json.loads(run("explain", tmp_path, "fc1", "--format", "json")[1])["choices"]


def test_explain_names_the_cause_of_a_fallback(run: Run, tmp_path: Path) -> None:
    """A batched second operand has no program config for a sharded result."""
    shapes = {"x": [8, 512, 512], "y": [8, 512, 512], "z": [8, 512, 512]}
    kinds = {"x": "input", "y": "input", "z": "activation"}
    graph = {
        "model": {"name": "bmm", "inputs": ["x", "y"], "outputs": ["z"]},
        "values": {v: {"shape": shape, "dtype": "bf16", "kind": kinds[v]} for v, shape in shapes.items()},
        "ops": [{"id": "mm", "op": "ttnn.matmul", "inputs": ["x", "y"], "outputs": ["z"]}],
    }
    (tmp_path / "bmm.json").write_text(json.dumps(graph), encoding="utf-8")
    assert main(["optimize", str(tmp_path / "bmm.json"), "-o", str(tmp_path), "--policy", "global"]) == 0
    assert "fell back" in run("explain", tmp_path, "mm", "--recorded")[1]
    record = json.loads(run("explain", tmp_path, "mm", "--recorded", "--format", "json")[1])
    assert record["fallback"] == "no sharded config of ttnn.matmul exists for these operands"


def test_explain_names_the_ops_own_chain_only(run: Run, two_results: tuple[Path, Path], tmp_path: Path) -> None:
    document = json.loads((two_results[1] / "graph.json").read_text(encoding="utf-8"))
    own = {"id": "chain_1", "ops": ["fc1"], "state": "completed", "spill_location": "none", "reason": None}
    other = {**own, "id": "chain_0"}
    failed = {**own, "id": "chain_2", "ops": ["fc2"], "state": "failed", "reason": "no room"}
    document["chains"] = [{**c, "statistics": {}} for c in (other, own, failed, {**failed, "id": "chain_3"})]
    for op in document["ops"]:
        op["chain"] = "chain_1" if op["id"] == "fc1" else None
    (tmp_path / "graph.json").write_text(json.dumps(document), encoding="utf-8")

    chains = [
        json.loads(run("explain", tmp_path, op, "--recorded", "--format", "json")[1])["chain_record"]["id"]
        for op in ("fc1", "fc2")
    ]

    assert chains == ["chain_1", "chain_3"]
