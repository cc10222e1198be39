"""Ctrl-C while `ttopt optimize` works."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from optimizer.cli.interruption import INTERRUPTED, Interruption
from optimizer.cli.progress import Event, ProgressBar
from tests.cli.conftest import Run


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_ends_the_search_the_second_everything(capsys: pytest.CaptureFixture[str]) -> None:
    with Interruption() as interrupted:
        interrupted.enter_stage("policy")
        press()
        assert interrupted()
        assert "Ctrl-C once more" in capsys.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            press()


def test_outside_the_search_one_is_enough() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interruption() as interrupted:
        interrupted.enter_stage("legal-configs")
        with pytest.raises(KeyboardInterrupt):
            press()
        assert not interrupted()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("policy", ["global", "dfsharding2", "dfsharding", "dram"])
def test_the_best_plan_so_far_is_written(
    policy: str, run: Run, mlp_onnx: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C as soon as the policy begins."""

    def show(_self: ProgressBar, event: Event) -> None:
        if event.stage == "policy" and not event.detail:
            press()

    monkeypatch.setattr(ProgressBar, "__call__", show)
    status, _, err = run("optimize", mlp_onnx, "-o", tmp_path, "--policy", policy)
    assert status == INTERRUPTED
    assert "interrupted; the result is the best plan found until then" in err
    summary = json.loads((tmp_path / "graph.json").read_text())["summary"]
    assert "interrupted: this is the best plan found until then" in summary["warnings"]
    assert run("check", tmp_path)[0] == 0
