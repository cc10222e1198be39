"""`ttopt inspect --text` and `--print-after`: graphs as text."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from optimizer.importers import load
from optimizer.ir.text import graph_text, parse_graph
from tests.cli.conftest import Run


def test_inspect_prints_the_imported_graph(run: Run, mlp_onnx: Path) -> None:
    status, out, _ = run("inspect", mlp_onnx, "--text")

    assert (status, out) == (0, graph_text(load(str(mlp_onnx)).graph))


def test_the_graph_is_printed_after_a_stage_and_after_a_pass(run: Run, mlp_onnx: Path, tmp_path: Path) -> None:
    flags = ("--print-after", "fused-activation", "--print-after", "transform", "--emit", "text", "-o", tmp_path)
    status, _, err = run("optimize", mlp_onnx, *flags)

    before, _, after = err.partition("# after transform\n")
    assert status == 0
    assert "# after fused-activation\n" in before
    placed = after[: after.index("\n}\n") + 3]
    assert placed == (tmp_path / "graph.txt").read_text(encoding="utf-8")
    assert " @ l1 " in placed
    parse_graph(placed)


def test_all_prints_a_graph_once_as_long_as_nothing_changes_it(run: Run, mlp_onnx: Path, tmp_path: Path) -> None:
    _, _, err = run("optimize", mlp_onnx, "--print-after", "all", "-o", tmp_path)

    texts = [part.partition("\n")[2] for part in err.split("# after ")[1:]]
    assert len(texts) >= 2
    assert all(one != other for one, other in pairwise(texts))


def test_a_name_that_nothing_has_is_refused_with_those_there_are(run: Run, mlp_onnx: Path) -> None:
    status, _, err = run("optimize", mlp_onnx, "--print-after", "magic")

    assert status == 2
    assert "unknown pass or stage 'magic'" in err
