"""A small model and a way to run the command in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from optimizer.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("optimize", path)` -> exit code, stdout, stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        status = main([str(a) for a in arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return call


@pytest.fixture(scope="session")
def result_folder(tmp_path_factory: pytest.TempPathFactory, mlp_onnx: Path) -> Path:
    """The results of the small model under the default options."""
    folder = tmp_path_factory.mktemp("result")
    assert main(["optimize", str(mlp_onnx), "-o", str(folder)]) == 0
    return folder
