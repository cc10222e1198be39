"""Every pass on a graph written down as text: what it makes of it is a golden file beside it, after `=>`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from optimizer.importers.passes import passes
from optimizer.ir.making import check_graph
from optimizer.ir.text import graph_text, parse_graph

PASSES = {step.name: step for step in passes()}


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_rewrites_a_graph_as_written(name: str, golden: Callable[[str, str], None], project_root: Path) -> None:
    path = project_root / "tests" / "golden" / "passes" / f"{name}.txt"
    given, _, _ = path.read_text(encoding="utf-8").partition("=>\n")
    graph = parse_graph(given)

    assert PASSES[name].apply(graph)

    check_graph(graph)
    golden(f"passes/{name}.txt", f"{given}=>\n\n{graph_text(graph)}")
