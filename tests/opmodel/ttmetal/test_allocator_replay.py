"""The replay of the L1 allocator against the real one, on a few of the benchmark's random programs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def benchmark(project_root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = project_root / "benchmarks" / "allocator_replay.py"
    spec = importlib.util.spec_from_file_location("allocator_replay", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("board", "first"), [("n150", 0), ("p150", 1000)])
def test_addresses_are_those_of_tt_metal(needs_ttnn: None, benchmark: ModuleType, board: str, first: int) -> None:
    outcome = benchmark.compare(board, range(first, first + 5))

    assert outcome.differences == []
    assert outcome.counts["programs"] == 5
    assert outcome.counts["allocations"] > 100
