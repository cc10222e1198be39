"""The decoder in its three forms, optimized once."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.options import Options
from optimizer.pipeline import optimize_file
from optimizer.result import OptimizedGraph
from tests.execution.models import KINDS, decoder

Case = tuple[Path, OptimizedGraph]


@pytest.fixture(scope="session", params=KINDS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A model's file and its result."""
    path = decoder(tmp_path_factory.mktemp(request.param), request.param)
    return path, optimize_file(path, Options())


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """One layer in bf16."""
    path = decoder(tmp_path_factory.mktemp("small"), "bf16", layers=1)
    return path, optimize_file(path, Options())
