"""`ttopt serve` as a process of a benchmark: started, killed in part or as a whole, measured."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType

import psutil

START_SECONDS = 60.0
END_SECONDS = 60.0


class Service:
    """A context manager; inside it the service answers at `url`, through every restart."""

    def __init__(
        self,
        folder: Path,
        workers: int,
        store: str = "",
        ready: bool = True,
        settings: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        """`ready`: whether to wait until a worker is; else until the server answers. `host`: where it listens."""
        self._settings = {"TTOPT_MAX_PEER_CONNECTIONS": "1000", **(settings or {})}
        self._waits_for = "readyz" if ready else "healthz"
        self._log = folder / "service.log"
        self.store = store or f"sqlite:///{folder / 'jobs.sqlite'}"
        self._workers = workers
        self._host = host
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.killed: Counter[str] = Counter()
        self.peak_bytes: dict[str, int] = {}
        """Largest resident size seen of the server, a worker program and a solver process."""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Service:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(END_SECONDS)
        if kind is not None:
            sys.stderr.write(self._log.read_text(errors="replace")[-4000:])

    def _start(self) -> None:
        command = [sys.executable, "-m", "optimizer.cli", "serve", "--host", self._host, "--port", str(self.port)]
        command += ["--workers", str(self._workers), "--store", self.store]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **self._settings})
        ends = time.monotonic() + START_SECONDS
        while True:
            with suppress(OSError), urllib.request.urlopen(f"{self.url}/{self._waits_for}", timeout=5):
                return
            if time.monotonic() > ends or self._process.poll() is not None:
                raise TimeoutError(self._log.read_text(errors="replace")[-4000:])
            time.sleep(0.1)

    def restart(self, hard: bool) -> None:
        """End the server and start it again: `hard` by -9, else by SIGTERM."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL if hard else signal.SIGTERM)
        self._process.wait(END_SECONDS)
        self.killed["server by -9" if hard else "server by SIGTERM"] += 1
        self._start()

    def _programs(self) -> list[psutil.Process]:
        """Worker programs: processes that solver processes are children of."""
        assert self._process is not None
        with suppress(psutil.NoSuchProcess):
            return [p for p in psutil.Process(self._process.pid).children() if "api.workers" in " ".join(p.cmdline())]
        return []

    def _solvers(self) -> list[psutil.Process]:
        found = []
        for program in self._programs():
            with suppress(psutil.NoSuchProcess):
                found += [p for p in program.children() if "optimizer.batch.child" in " ".join(p.cmdline())]
        return found

    def pids(self) -> list[int]:
        """Of the server, its worker program and the solver processes."""
        assert self._process is not None
        return [self._process.pid, *(p.pid for p in (*self._programs(), *self._solvers()))]

    def kill_a_worker(self, draw: random.Random, program: bool | None = None) -> None:
        """-9 for a solver process or for a worker program; unless it is said which, the latter every fourth time."""
        programs, solvers = self._programs(), self._solvers()
        is_program = draw.random() < 0.25 if program is None else program
        chosen = programs if is_program else solvers
        if chosen:
            with suppress(psutil.NoSuchProcess):
                draw.choice(sorted(chosen, key=lambda p: p.pid)).kill()
                self.killed["worker program" if is_program else "solver process"] += 1

    def measure(self) -> None:
        """Note how much memory the processes hold."""
        assert self._process is not None
        for name, pids in (
            ("server", [self._process.pid]),
            ("worker program", [p.pid for p in self._programs()]),
            ("solver process", [p.pid for p in self._solvers()]),
        ):
            for pid in pids:
                with suppress(psutil.NoSuchProcess):
                    size = psutil.Process(pid).memory_info().rss
                    self.peak_bytes[name] = max(size, self.peak_bytes.get(name, 0))

    def server_peak_bytes(self) -> int:
        """Largest resident size that the server has ever had, as Linux counts it."""
        assert self._process is not None
        lines = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))

    def metric(self, name: str) -> float:
        """A figure of `/metrics`, as it was counted last."""
        time.sleep(2.0)
        lines = self.get("/metrics").decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(name + " "))

    def log_text(self) -> str:
        return self._log.read_text(errors="replace")

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.url + path, timeout=300) as response:
            data: bytes = response.read()
            return data

    def post(self, path: str, body: bytes) -> bytes:
        with urllib.request.urlopen(urllib.request.Request(self.url + path, body), timeout=300) as response:
            data: bytes = response.read()
            return data

    @contextmanager
    def connection(self) -> Iterator[HTTPConnection]:
        """A connection that stays open."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            yield connection
        finally:
            connection.close()

    def cancel_all(self) -> None:
        """Cancel every job that is not finished."""
        while True:
            with urllib.request.urlopen(f"{self.url}/v1/jobs?limit=200&state=queued&state=running") as response:
                jobs = json.load(response)["jobs"]
            if not jobs:
                return
            for job in jobs:
                urllib.request.urlopen(urllib.request.Request(self.url + job["links"]["self"], method="DELETE")).close()
            time.sleep(0.5)


def percentile(values: list[float], share: float) -> float:
    """The value that so many percent of the values do not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share / 100))] if ordered else 0.0
