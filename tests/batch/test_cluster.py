"""`ClusterExecutor` on a real Dask cluster: a scheduler and two workers, each a process of its own."""

from __future__ import annotations

import contextlib
import json
import operator
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from optimizer.batch.cluster import CHUNK_BYTES, ClusterExecutor
from optimizer.batch.executor import DeadlineExceeded, ExecutorLost, Job, JobFailure, WorkerDied
from optimizer.batch.local import LocalExecutor
from optimizer.batch.plan import plan_jobs
from optimizer.batch.run import Ended, run_batch
from optimizer.errors import FormatError, OptionError, StateError

LONG_SECONDS = 120


@pytest.fixture(scope="module")
def programs() -> Iterator[list[subprocess.Popen[str]]]:
    """What the tests have started; ended with what it started."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dask")


@pytest.fixture(scope="module")
def start(programs: list[subprocess.Popen[str]], folder: Path) -> Callable[..., subprocess.Popen[str]]:
    def started(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "distributed.cli.dask_" + str(arguments[0]), *map(str, arguments[1:])]
        with (folder / f"{len(programs)}.log").open("w") as log:
            process = subprocess.Popen(command, text=True, stdout=log, stderr=log, cwd=folder, process_group=0)
        programs.append(process)
        return process

    return started


@pytest.fixture(scope="module")
def address(start: Callable[..., subprocess.Popen[str]], folder: Path) -> str:
    """Of a scheduler with no workers yet."""
    return started_scheduler(start, folder / "scheduler.json")[1]


def started_scheduler(start: Callable[..., subprocess.Popen[str]], file: Path) -> tuple[subprocess.Popen[str], str]:
    process = start("scheduler", "--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--scheduler-file", file)
    deadline = time.monotonic() + LONG_SECONDS
    while not file.exists() or not file.read_text():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process, json.loads(file.read_text())["address"]


@pytest.fixture(scope="module")
def work(start: Callable[..., subprocess.Popen[str]], address: str) -> Callable[[], subprocess.Popen[str]]:
    """Starts a worker with one thread, as `dask worker` does: a nanny that minds a daemonic process."""
    return lambda: start("worker", address, "--nthreads", 1, "--host", "127.0.0.1", "--no-dashboard")


@pytest.fixture(scope="module")
def cluster(work: Callable[[], subprocess.Popen[str]], address: str) -> str:
    work(), work()
    await_workers(address, 2)
    return address


@pytest.fixture
def executor(cluster: str) -> Iterator[ClusterExecutor]:
    made = ClusterExecutor(cluster)
    yield made
    made.close()


def await_workers(address: str, count: int) -> None:
    with Client(address, timeout=LONG_SECONDS, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=LONG_SECONDS)


def once(report: Callable[[Ended], None]) -> Callable[[Ended], None]:
    """Reports the first job that ends only."""
    waiting = [report]
    return lambda ended: waiting.pop()(ended) if waiting else None


def table(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records without what a clock said."""
    return [{k: v for k, v in record.items() if k != "seconds"} for record in records]


@pytest.mark.slow
def test_values_and_failures_come_back_under_their_keys(executor: ClusterExecutor) -> None:
    for n in range(60):
        executor.submit(str(n), partial(operator.floordiv, 100, n))
    with pytest.raises(StateError, match="submitted twice"):
        executor.submit("1", os.getpid)
    found = {outcome.key: outcome for outcome in executor.as_completed()}
    assert {k: o.value for k, o in found.items() if k != "0"} == {str(n): 100 // n for n in range(1, 60)}
    assert isinstance(found["0"].error, JobFailure)
    assert "ZeroDivisionError" in found["0"].error.traceback


@pytest.mark.slow
def test_a_job_that_kills_its_process_fails_alone(executor: ClusterExecutor) -> None:
    executor.submit("dies", os.abort)
    executor.submit("good", partial(operator.neg, 1))
    found = {outcome.key: outcome for outcome in executor.as_completed()}
    assert isinstance(found["dies"].error, WorkerDied)
    assert found["good"].value == -1


@pytest.mark.slow
def test_a_job_past_its_deadline_fails_alone(cluster: str) -> None:
    executor = ClusterExecutor(cluster, deadline_s=2.0)
    executor.submit("slow", partial(time.sleep, 600))
    executor.submit("good", partial(operator.neg, 1))
    found = {outcome.key: outcome for outcome in executor.as_completed()}
    executor.close()
    assert isinstance(found["slow"].error, DeadlineExceeded)
    assert found["good"].value == -1


def test_cancel_ends_the_iteration(executor: ClusterExecutor) -> None:
    for n in range(200):
        executor.submit(str(n), partial(time.sleep, 0.001 * n))
    seen = []
    for outcome in executor.as_completed():
        seen.append(outcome.key)
        executor.cancel()
    assert len(seen) == 1


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optimizer.batch.cluster.CONNECT_SECONDS", 1)
    with pytest.raises(OptionError, match="no Dask scheduler answers"):
        ClusterExecutor("tcp://127.0.0.1:1")


@pytest.mark.slow
def test_models_travel_to_workers_that_cannot_see_them(
    executor: ClusterExecutor, mlp_onnx: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (model := tmp_path / "mlp.onnx").write_bytes(mlp_onnx.read_bytes())
    jobs = plan_jobs([model], {}, {}, ["ttnn-py"])
    here = LocalExecutor(1)
    local = run_batch(jobs, here, tmp_path / "local", lambda _: None, {})
    here.close()
    monkeypatch.chdir(tmp_path)  # the workers are elsewhere: what is relative they do not find
    there = plan_jobs([Path("mlp.onnx")], {}, {}, ["ttnn-py"])
    remote = run_batch(there, executor, tmp_path / "remote", lambda _: None, {})
    assert table(remote) == [record | {"file": "mlp.onnx"} for record in table(local)]
    for name in ("graph.json", "model_ttnn.py"):
        first, second = ((tmp_path / where / "mlp" / name).read_text() for where in ("local", "remote"))
        assert first.partition('"timings"')[0] == second.partition('"timings"')[0]


@pytest.mark.slow
def test_a_model_too_large_to_send_must_be_where_the_worker_is(
    executor: ClusterExecutor, mlp_onnx: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mlp.onnx").write_bytes(mlp_onnx.read_bytes())
    monkeypatch.setattr("optimizer.batch.run.SENT_BYTES", 10)
    assert run_batch(plan_jobs([tmp_path / "mlp.onnx"], {}, {}), executor, tmp_path / "a", lambda _: None, {})[0]["ok"]
    monkeypatch.chdir(tmp_path)
    failed = run_batch(plan_jobs([Path("mlp.onnx")], {}, {}), executor, tmp_path / "b", lambda _: None, {})[0]
    assert failed["error"]["code"] == FormatError.code
    assert "too large to be sent" in failed["error"]["message"]


@pytest.mark.slow
def test_a_model_that_is_gone_when_it_is_to_be_sent_fails_alone(
    executor: ClusterExecutor, mlp_onnx: Path, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.onnx").write_bytes(mlp_onnx.read_bytes() + b" " * (name == "b"))
    jobs = plan_jobs([tmp_path], {"policy": "dram"}, {})
    (tmp_path / "b.onnx").unlink()
    records = run_batch(jobs, executor, tmp_path / "out", lambda _: None, {})
    assert [r["name"] for r in records if not r["ok"]][-1] == "b"
    assert "cannot read: No such file" in records[-1]["error"]["message"]
    assert records[0]["name"] == "a"


def test_jobs_of_one_model_hold_its_content_once(executor: ClusterExecutor, mlp_onnx: Path, tmp_path: Path) -> None:
    submitted: list[Job] = []
    executor.submit = lambda _key, job, _sent_bytes=0: submitted.append(job)  # type: ignore[method-assign, misc, assignment]
    sweep = {"seed": list(range(8))}
    run_batch(plan_jobs([mlp_onnx], {}, sweep), executor, tmp_path, lambda _: None, sweep)
    assert len(submitted) == 8
    assert len(pickle.dumps(submitted)) < 1.5 * mlp_onnx.stat().st_size


def test_large_models_travel_in_chunks_of_their_own(executor: ClusterExecutor) -> None:
    for n in range(4):
        executor.submit(str(n), partial(operator.neg, n), CHUNK_BYTES * 2 // 3)
    assert [len(executor._next_chunk(8)) for _ in range(4)] == [1, 1, 1, 1]


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_nothing(
    cluster: str, work: Callable[[], subprocess.Popen[str]], project_root: Path, tmp_path: Path
) -> None:
    graphs = [project_root / "fixtures" / "graphs" / f"{name}.json" for name in ("fork", "mlp", "opaque")]
    sweep = {"policy": ["dram", "dfsharding"], "board": ["n150", "p150"]}
    jobs = plan_jobs(graphs, {}, sweep)
    here = LocalExecutor(2)
    local = run_batch(jobs, here, tmp_path / "local", lambda _: None, sweep)
    here.close()
    victim = work()
    await_workers(cluster, 3)
    executor = ClusterExecutor(cluster, chunk=2)
    killed = []

    def kill(ended: Ended) -> None:
        if ended.done >= 2 and not killed:
            os.killpg(victim.pid, signal.SIGKILL)
            killed.append(ended.done)

    remote = run_batch(jobs, executor, tmp_path / "remote", kill, sweep)
    executor.close()
    assert killed
    assert len(remote) == len(jobs)
    assert table(remote) == table(local)


@pytest.mark.slow
def test_a_scheduler_that_is_killed_ends_the_batch_which_goes_on_without_it(
    start: Callable[..., subprocess.Popen[str]], folder: Path, project_root: Path, tmp_path: Path
) -> None:
    scheduler, address = started_scheduler(start, folder / "another.json")
    start("worker", address, "--nthreads", 1, "--host", "127.0.0.1", "--no-dashboard")
    await_workers(address, 1)
    model = project_root / "fixtures" / "graphs" / "mlp.json"
    jobs = plan_jobs([model], {}, sweep := {"policy": ["dram"], "seed": list(range(12))})
    executor = ClusterExecutor(address, chunk=1)

    def kill(_ended: Ended) -> None:
        os.killpg(scheduler.pid, signal.SIGKILL)

    with pytest.raises(ExecutorLost, match="has left, with the jobs that it had"):
        run_batch(jobs, executor, tmp_path, once(kill), sweep)
    executor.close()
    kept: list[bool] = []
    here = LocalExecutor(1)
    records = run_batch(jobs, here, tmp_path, lambda ended: kept.append(ended.kept), sweep, resume=True)
    here.close()
    assert len(records) == len(jobs)
    assert any(kept)
