"""A sample of `benchmarks/exactness.py`: all combinations, CP-SAT, the frontier DP and all means in turn agree."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def exactness(project_root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = project_root / "benchmarks" / "exactness.py"
    spec = importlib.util.spec_from_file_location("exactness", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", ["generic", "layout"])
@pytest.mark.slow
def test_random_problems_with_tight_memory(exactness: ModuleType, kind: str) -> None:
    counts: Counter[str] = Counter()
    wrong = [line for i in range(45) for line in exactness.compare(kind, i, random.Random(f"test {kind} {i}"), counts)]
    assert wrong == []
    assert counts[f"{kind}_tight"] > 22
    assert counts[f"{kind}_impossible"] < 22


@pytest.mark.parametrize("seed", ["test graph", "0 graph 2", "0 graph 4"])
def test_a_network_through_options_and_integers(exactness: ModuleType, seed: str) -> None:
    counts: Counter[str] = Counter()
    assert exactness.compare_graph(0, random.Random(seed), counts) == []
    assert counts["graph_tight"] >= 4


def test_the_replay_contradicts_sums_that_charge_too_much(
    exactness: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if all copies for an op had to lie beside all their sources."""
    evaluate = exactness.Decisions._evaluate

    def charged_in_full(self: Any, options: Any) -> Any:
        self._may_be_in_l1 = set()
        return evaluate(self, options)

    monkeypatch.setattr(exactness.Decisions, "_evaluate", charged_in_full)
    found = exactness.compare_graph(0, random.Random("0 graph 2"), Counter())
    assert any("replayed" in line for line in found)
    assert any("optimum" in line for line in found)


def test_the_witness_sees_wrong_answers(exactness: ModuleType) -> None:
    """Its check is not satisfied by a dearer choice, by one that does not fit, or by a bound below the optimum."""
    problem = exactness.small_enough(exactness.layout_problem, random.Random("wrong answers 1"))
    exact = exactness.enumerate_all(problem)
    right = exactness.solve_graph(problem)
    assert exact.wrong(right) is None
    assert exact.wrong(exactness.replace(right, lower_bound=right.value - 1)) is not None
    other = tuple((i + 1) % n for i, n in zip(right.chosen, problem.sizes, strict=True))
    assert exact.wrong(exactness.replace(right, chosen=other)) is not None
