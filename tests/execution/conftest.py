"""The decoder in its three forms, optimized once, and devices that kernels are launched on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from optimizer.device import DeviceSpec
from optimizer.execution.launching import KernelDevice
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


@pytest.fixture(scope="module")
def mock(needs_ttnn: None) -> Iterator[KernelDevice]:
    with KernelDevice(DeviceSpec.preset("n150"), "mock") as device:
        yield device


@pytest.fixture(scope="module")
def simulator(needs_simulator: None) -> Iterator[KernelDevice]:
    with KernelDevice(DeviceSpec.preset("n150"), "sim") as device:
        yield device
