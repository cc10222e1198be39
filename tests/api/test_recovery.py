"""A real service whose processes are killed: nothing is lost, nothing is there twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import service
from service_process import Service

from tests.api import postgres

PATIENCE_SECONDS = 120


def posted(running: Service, number: int) -> dict[str, Any]:
    query = "&".join(f"{key}={value}" for key, value in service.options(number).items())
    job: dict[str, Any] = json.loads(running.post(f"/v1/jobs?{query}", service.model(number)))
    return job


def result(running: Service, job: dict[str, Any]) -> bytes:
    ends = time.monotonic() + PATIENCE_SECONDS
    while job["state"] in ("queued", "running"):
        assert time.monotonic() < ends
        time.sleep(0.1)
        job = json.loads(running.get(job["links"]["self"]))
    assert job["state"] == "succeeded", job
    return running.get(job["links"]["result"])


@pytest.mark.slow
def test_jobs_survive_the_end_of_every_process(tmp_path: Path) -> None:
    with Service(tmp_path, workers=1) as running:
        jobs = [posted(running, number) for number in range(4)]
        running.kill_a_worker(random.Random(0), program=False)
        time.sleep(0.5)
        running.kill_a_worker(random.Random(0), program=True)
        time.sleep(0.5)
        running.restart(hard=True)
        results = [result(running, job) for job in jobs]
        assert service.all_jobs(running.url) == [job["id"] for job in reversed(jobs)]
    for number, found in enumerate(results):
        assert service.without_timings(found) == service.expected(number)


@pytest.mark.slow
def test_a_server_that_is_asked_to_end_finishes_what_runs(tmp_path: Path) -> None:
    with Service(tmp_path, workers=1, settings={"TTOPT_LOG": "json,time,service=info"}) as running:
        job = posted(running, 1)
        running.restart(hard=False)
        found = json.loads(running.get(job["links"]["self"]))
        assert found["state"] in ("succeeded", "queued", "running")
        assert service.without_timings(result(running, job)) == service.expected(1)
        assert json.loads(running.get(job["links"]["self"]))["attempts"] == 1
        told = [json.loads(line) for line in running.log_text().splitlines() if line.startswith("{")]
    (request,) = (line for line in told if line["event"] == "request" and line["status"] == 202)
    (done,) = (line for line in told if line["event"] == "job" and line["state"] == "succeeded")
    assert (request["job"], request["route"], request["options"]) == (job["id"], "/v1/jobs", service.options(1))
    assert (done["job"], done["request_id"]) == (job["id"], request["request_id"])
    assert done["options"]["policy"] == service.options(1)["policy"]
    assert done["seconds"] > 0


@pytest.mark.slow
def test_nothing_is_left_running(tmp_path: Path) -> None:
    with Service(tmp_path, workers=2) as running:
        pids = running.pids()
        assert len(pids) == 4
    ends = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < ends
        time.sleep(0.05)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.slow
def test_workers_of_their_own_work_for_a_server_without_any(kind: str, tmp_path: Path) -> None:
    if kind == "postgresql":
        with postgres.running() as url:
            work_elsewhere(tmp_path, url)
    else:
        work_elsewhere(tmp_path, f"sqlite:///{tmp_path / 'shared.sqlite'}")


def work_elsewhere(folder: Path, store: str) -> None:
    with Service(folder, workers=0, store=store, ready=False) as running:
        job = posted(running, 2)
        command = [sys.executable, "-m", "optimizer.cli", "worker", "--workers", "1", "--store", store]
        worker = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert service.without_timings(result(running, job)) == service.expected(2)
            os.kill(worker.pid, signal.SIGTERM)
            _, said = worker.communicate(timeout=30)
        finally:
            worker.kill()
        assert worker.returncode == 0, said
        assert "Traceback" not in said
