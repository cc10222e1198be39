"""One worker process: its memory, its children, the descriptors it is handed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from optimizer.batch.child import OOM_SCORE
from optimizer.batch.executor import JobFailure, OutOfMemory, WorkerDied
from optimizer.batch.worker import Worker

MEMORY = 1 << 30


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker(preload=None, memory_bytes=MEMORY)
    yield made
    made.close()


def copied(source: int, target: int) -> int:
    os.lseek(source, 0, os.SEEK_SET)
    return os.write(target, os.read(source, 100))


def child_of_mine(marker: str) -> None:
    """Start a process that outlives whoever only forgets it, tell its number, hang."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(marker).write_text(str(child.pid))
    time.sleep(600)


def is_running(pid: int) -> bool:
    """Whether a process works; one that has ended but was not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_too_much_memory_is_an_error_with_the_limit(worker: Worker) -> None:
    worker.send(partial(bytearray, 2 * MEMORY))
    with pytest.raises(OutOfMemory) as refused:
        worker.receive()
    assert (refused.value.limit, refused.value.http_status, refused.value.code) == (MEMORY, 413, "too-large")


def test_descriptors_reach_the_job_and_stay_open_here(worker: Worker) -> None:
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target:
        source.write(b"body")
        source.flush()
        for _ in range(50):
            worker.send(copied, (source.fileno(), target.fileno()))
            assert worker.receive() == 4
        assert os.pread(target.fileno(), 100, 196) == b"body"


def test_killing_a_worker_ends_what_it_started(worker: Worker, tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    worker.send(partial(child_of_mine, str(marker)))
    while not marker.exists() or not marker.read_text():
        time.sleep(0.02)
    pid = int(marker.read_text())
    assert is_running(pid)
    worker.kill()
    with pytest.raises(WorkerDied):
        worker.receive()
    deadline = time.monotonic() + 30
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_defects_text_is_cut(worker: Worker) -> None:
    worker.send(partial(int, "x" * 10_000_000))
    with pytest.raises(JobFailure) as failure:
        worker.receive()
    assert len(failure.value.message) + len(failure.value.traceback) < 100_000


PARENT = """
import subprocess, sys, time
from functools import partial
from optimizer.batch.worker import Worker

worker = Worker(preload=None)
child = "import time, pathlib, os, sys; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(600)"
worker.send(partial(subprocess.check_call, [sys.executable, "-c", child, sys.argv[1]]))
time.sleep(600)
"""


def test_a_worker_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """Also where that one is killed, and while the worker is busy; what the worker started ends with it."""
    marker = tmp_path / "pid"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, marker])
    while not marker.exists() or not marker.read_text():
        assert parent.poll() is None
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 30
    while is_running(int(marker.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_interrupts_do_not_reach_a_worker(worker: Worker) -> None:
    worker.send(os.getpid)
    os.kill(worker.receive(), signal.SIGINT)
    worker.send(partial(int, "3"))
    assert worker.receive() == 3


@pytest.mark.skipif(not OOM_SCORE.exists(), reason="the system does not choose whom it ends by a score")
def test_a_worker_is_ended_before_its_parent_where_memory_runs_out(worker: Worker) -> None:
    worker.send(partial(Path.read_text, OOM_SCORE))
    assert int(worker.receive()) > int(OOM_SCORE.read_text())
