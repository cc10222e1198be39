"""`ttopt chains`: what became of every chain, and one solved again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optimizer.cli import main

Run = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Policy -> result of a graph whose first result has two readers."""
    folders = {}
    solvers = {"dfsharding": "bitset", "dfsharding2": "cpsat", "global": "bitset", "dram": "bitset"}
    for policy, solver in solvers.items():
        folder = tmp_path_factory.mktemp(policy)
        model, more = str(ROOT / "fixtures/graphs/fork.json"), ["--chain-solver", solver]
        assert main(["optimize", model, "-o", str(folder), "--policy", policy, *more]) == 0
        folders[policy] = folder
    return folders


def document(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "graph.json").read_text(encoding="utf-8"))
    return found


def as_json(run: Run, *arguments: object) -> Any:
    status, out, err = run(*arguments, "--format", "json")
    assert (status, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize(("policy", "engine"), [("dfsharding", "bitset"), ("dfsharding2", "cpsat"), ("global", None)])
def test_every_chain_of_a_result(run: Run, results: dict[str, Path], policy: str, engine: str | None) -> None:
    stated = document(results[policy])["chains"]
    found = as_json(run, "chains", results[policy])
    assert (
        [(c["id"], c["state"], c["ops"], c["reason"]) for c in found]
        == [(c["id"], c["state"], c["ops"], c["reason"]) for c in stated]
        != []
    )
    assert {c["engine"] for c in found} == {engine}
    out = run("chains", results[policy])[1]
    assert all(any(line.startswith(c["id"] + " ") for line in out.splitlines()) for c in stated)


def test_a_plan_without_chains_says_so(run: Run, results: dict[str, Path]) -> None:
    assert run("chains", results["dram"])[:2] == (0, "the plan of policy dram has no chains\n")


@pytest.mark.parametrize("policy", ["dfsharding", "dfsharding2"])
def test_a_chain_solved_again_ends_as_the_document_says(run: Run, results: dict[str, Path], policy: str) -> None:
    for stated in document(results[policy])["chains"]:
        record = as_json(run, "chains", results[policy], stated["id"])
        solved = record["solved"]
        for key in ("objective", "core_usage", "time_ns", "paths_built", "paths_left"):
            assert solved["statistics"].get(key) == stated["statistics"].get(key)
        assert [o["op"] for o in solved["ops"]] == stated["ops"]
        assert len(solved["edges"]) == len(stated["ops"]) - 1
        left = [e["pairs_left"] for e in solved["edges"]]
        assert sum(left) == stated["statistics"].get("paths_left", 0)


def test_sets_are_counted_before_and_after_and_listed_on_demand(run: Run, results: dict[str, Path]) -> None:
    chain = max(document(results["dfsharding"])["chains"], key=lambda c: len(c["ops"]))
    solved = as_json(run, "chains", results["dfsharding"], chain["id"], "--members")["solved"]
    for op in solved["ops"]:
        assert op["legal"] >= op["before"] >= op["after"] == len(op["members"]) > 0
        usages = [op["most_cores"]["usage"], *(a["usage"] for a in op["alternatives"])]
        assert usages == sorted(usages, reverse=True)
    assert solved["ops"][0]["most_cores"]["usage"] == solved["most_cores"]["core_usage"]
    for edge in solved["edges"]:
        assert edge["pairs_left"] == sum(len(consumers) for _, consumers in edge["pairs"])
    assert "members" not in as_json(run, "chains", results["dfsharding"], chain["id"])["solved"]["ops"][0]


def test_a_chain_as_text(run: Run, results: dict[str, Path]) -> None:
    chain = max(document(results["dfsharding2"])["chains"], key=lambda c: len(c["ops"]))
    status, out, _ = run("chains", results["dfsharding2"], chain["id"], "--members")
    assert status == 0
    for words in ("solved by cpsat", "in the plan", "sets of configs", "edges", f"left of {chain['ops'][0]}"):
        assert words in out


def test_a_chain_of_the_whole_graph_was_made_by_no_chain_solver(run: Run, results: dict[str, Path]) -> None:
    record = as_json(run, "chains", results["global"], "chain_0")
    assert record["solved"] is None
    assert "no chain solver made this chain" in record["note"]
    assert [o["op"] for o in record["placed"]] == record["ops"]
    assert all(o["chain"] == "chain_0" for o in record["placed"])


def test_explain_takes_a_chain(run: Run, results: dict[str, Path]) -> None:
    assert run("explain", results["dfsharding"], "chain_0")[1] == run("chains", results["dfsharding"], "chain_0")[1]


def test_trials_to_keep_results_are_those_of_the_ops(run: Run, results: dict[str, Path]) -> None:
    ops = {op["id"]: op for op in document(results["dfsharding2"])["ops"]}
    seen = 0
    for chain in as_json(run, "chains", results["dfsharding2"]):
        record = as_json(run, "chains", results["dfsharding2"], chain["id"])
        tried = [t for op in chain["ops"] for t in ops[op]["reason"].get("residency", [])]
        assert all(trial in tried for trial in record["trials"])
        assert all(trial in record["trials"] for trial in tried)
        seen += len(tried)
    assert seen


def test_a_chain_that_does_not_exist(run: Run, results: dict[str, Path]) -> None:
    status, out, err = run("chains", results["dfsharding"], "chain_99")
    assert (status, out) == (2, "")
    assert "unknown chain 'chain_99', did you mean 'chain_" in err


def test_a_document_whose_chain_names_no_op_is_refused(run: Run, results: dict[str, Path], tmp_path: Path) -> None:
    wrong = document(results["dfsharding"])
    wrong["chains"][0]["ops"] = ["nowhere"]
    (tmp_path / "graph.json").write_text(json.dumps(wrong), encoding="utf-8")
    status, _, err = run("chains", tmp_path)
    assert status == 2
    assert "chain chain_0: no op has the id 'nowhere'" in err


def test_a_document_that_does_not_verify_says_that_it_cannot_be_solved_again(
    run: Run, results: dict[str, Path], tmp_path: Path
) -> None:
    wrong = document(results["dfsharding"])
    wrong["values"][wrong["model"]["inputs"][0]]["dtype"] = "f32"
    (tmp_path / "graph.json").write_text(json.dumps(wrong), encoding="utf-8")
    record = as_json(run, "chains", tmp_path, "chain_0")
    assert record["solved"] is None
    assert "cannot be solved again" in record["note"]
