"""`LocalExecutor`: one job's failure, death or slowness is that job's alone."""

from __future__ import annotations

import operator
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from optimizer.batch.executor import DeadlineExceeded, JobFailure, Outcome, WorkerDied
from optimizer.batch.local import AHEAD, LocalExecutor
from optimizer.device import DeviceSpec
from optimizer.errors import StateError, UnknownNameError


@pytest.fixture
def executor() -> Iterator[LocalExecutor]:
    pool = LocalExecutor(jobs=2, preload=None)
    yield pool
    pool.close()


def outcomes(pool: LocalExecutor) -> dict[str, Outcome]:
    return {outcome.key: outcome for outcome in pool.as_completed()}


def die_once(marker: Path) -> str:
    """Kill the process at the first call, answer at the second."""
    if marker.exists():
        return "alive"
    marker.touch()
    os._exit(3)


def test_values_come_back_under_their_keys(executor: LocalExecutor) -> None:
    for n in range(200):
        executor.submit(str(n), partial(operator.mul, n, n))
    assert {k: o.value for k, o in outcomes(executor).items()} == {str(n): n * n for n in range(200)}


def test_a_failing_job_fails_alone(executor: LocalExecutor) -> None:
    executor.submit("bad", partial(operator.truediv, 1, 0))
    executor.submit("good", partial(operator.add, 1, 1))
    found = outcomes(executor)
    assert found["good"].value == 2
    assert isinstance(found["bad"].error, JobFailure)
    assert "ZeroDivisionError" in str(found["bad"].error)
    assert "Traceback" in found["bad"].error.traceback


def test_errors_of_ttopt_cross_the_process_whole(executor: LocalExecutor) -> None:
    executor.submit("board", partial(DeviceSpec.preset, "n15O"))
    error = outcomes(executor)["board"].error
    assert isinstance(error, UnknownNameError)
    assert error.alternatives[0] == "n150"


def test_a_dying_worker_fails_only_its_job(executor: LocalExecutor) -> None:
    executor.submit("dies", os.abort)
    for n in range(6):
        executor.submit(str(n), partial(operator.neg, n))
    found = outcomes(executor)
    assert isinstance(found["dies"].error, WorkerDied)
    assert str(found["dies"].error) == "the worker process was killed by signal 6"
    assert [found[str(n)].value for n in range(6)] == [-n for n in range(6)]


def test_a_job_whose_worker_died_is_tried_again(executor: LocalExecutor, tmp_path: Path) -> None:
    executor.submit("job", partial(die_once, tmp_path / "marker"))
    assert outcomes(executor)["job"].value == "alive"


def test_a_job_past_its_deadline_is_stopped() -> None:
    pool = LocalExecutor(jobs=1, deadline_s=2.0, preload=None)
    pool.submit("slow", partial(time.sleep, 600))
    pool.submit("quick", partial(operator.add, 1, 1))
    found = outcomes(pool)
    pool.close()
    assert isinstance(found["slow"].error, DeadlineExceeded)
    assert found["quick"].value == 2


@pytest.mark.slow
def test_a_deadline_counts_from_when_the_process_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_to_load.py").write_text("import time; time.sleep(8)")
    monkeypatch.syspath_prepend(tmp_path)
    pool = LocalExecutor(jobs=1, deadline_s=4.0, preload="slow_to_load")
    pool.submit("quick", partial(operator.add, 1, 1))
    found = outcomes(pool)["quick"]
    pool.close()
    assert found.value == 2


def test_a_death_costs_nothing_of_the_jobs_behind_it() -> None:
    """Each process holds jobs ahead; those behind a death or a deadline are done by another one."""
    pool = LocalExecutor(jobs=1, deadline_s=2.0, preload=None, ahead=3)
    calls = {str(n): partial(operator.neg, n) for n in range(40)}
    calls |= {"3": os.abort, "6": partial(time.sleep, 600)}
    for key, call in calls.items():
        pool.submit(key, call)
    found = outcomes(pool)
    pool.close()
    assert isinstance(found["3"].error, WorkerDied)
    assert isinstance(found["6"].error, DeadlineExceeded)
    assert [found[str(n)].value for n in range(40) if n not in (3, 6)] == [-n for n in range(40) if n not in (3, 6)]


def test_a_process_is_replaced_after_so_many_jobs() -> None:
    pool = LocalExecutor(jobs=1, preload=None, jobs_per_process=4)
    for n in range(12):
        pool.submit(str(n), os.getpid)
    found = outcomes(pool)
    pool.close()
    pids = [found[str(n)].value for n in range(12)]
    assert len(set(pids)) >= 2
    assert max(pids.count(pid) for pid in pids) <= 4 + AHEAD


def test_cancel_ends_the_iteration(executor: LocalExecutor) -> None:
    executor.submit("quick", partial(operator.add, 1, 1))
    executor.submit("slow", partial(time.sleep, 600))
    executor.submit("queued", partial(time.sleep, 600))
    seen = []
    for outcome in executor.as_completed():
        seen.append(outcome.key)
        executor.cancel()
    assert seen == ["quick"]


def test_a_key_is_one_jobs_at_a_time(executor: LocalExecutor) -> None:
    executor.submit("key", partial(operator.neg, 1))
    with pytest.raises(StateError, match="submitted twice"):
        executor.submit("key", os.getpid)
    assert outcomes(executor)["key"].value == -1
    executor.submit("key", partial(operator.neg, 2))
    assert outcomes(executor)["key"].value == -2
