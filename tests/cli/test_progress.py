"""The bar: only on a terminal, only for long work, gone at the end."""

from __future__ import annotations

import io
import time

import pytest

from optimizer.cli import progress
from optimizer.cli.progress import ProgressBar
from optimizer.pipeline import ProgressEvent


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.02)
    monkeypatch.setattr(progress, "REFRESH_SECONDS", 0.01)


def test_long_work_shows_its_stage_and_cleans_up() -> None:
    terminal = Terminal()
    with ProgressBar("model", terminal) as bar:
        bar(ProgressEvent("policy", 2, 4, "chain 3 of 9"))
        time.sleep(0.2)
    assert "[############............]" in terminal.getvalue()
    assert "model: policy chain 3 of 9" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 60)
    terminal = Terminal()
    with ProgressBar("model", terminal):
        pass
    assert terminal.getvalue() == ""


def test_a_file_gets_no_bar() -> None:
    log = io.StringIO()
    with ProgressBar("model", log):
        time.sleep(0.1)
    assert log.getvalue() == ""
