"""The progress of a batch: what earlier runs did says nothing about the rate."""

from __future__ import annotations

import pytest

from optimizer.batch.run import Ended
from optimizer.cli import progress
from optimizer.cli.progress import BatchProgress, rate_text


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the clock shows, to be changed."""
    shown = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: shown[0])
    return shown


def ended(done: int, kept: bool = False, ok: bool = True, count: int = 300) -> Ended:
    return Ended({"name": f"m{done}", "ok": ok, "seconds": 1.5}, kept, done, count)


def test_the_time_left_follows_from_what_was_done_now(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    told = BatchProgress()
    for done in range(1, 101):
        told(ended(done, kept=True))
    for done in range(101, 151):
        told(ended(done))
    assert capsys.readouterr().err == ""
    clock[0] = 25.5
    told(ended(151))
    assert capsys.readouterr().err == "151/300  2.0/s  0 failed  eta 74 s\n"


def test_of_a_large_batch_failures_are_told_at_once(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    BatchProgress()(ended(7, ok=False))
    assert capsys.readouterr().err == "[7/300] m7 FAILED, 1.5 s\n"


def test_of_a_small_batch_every_job_is_told(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    told = BatchProgress()
    told(ended(1, kept=True, count=2))
    told(ended(2, count=2))
    assert capsys.readouterr().err == "[1/2] m1 kept, 1.5 s\n[2/2] m2 done, 1.5 s\n"


@pytest.mark.parametrize(("per_second", "text"), [(3.14, "3.1/s"), (1.0, "1.0/s"), (0.05, "3.0/min")])
def test_slow_rates_are_told_per_minute(per_second: float, text: str) -> None:
    assert rate_text(per_second) == text
