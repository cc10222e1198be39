"""One worker process that runs one job at a time.

The standard pool cannot stop a single job, and when a process dies it loses every job in flight without
telling whose fault it was. Here the parent holds one socket per process, so it knows which job a process
died of, and stops a job that takes too long by ending that process only - with the processes that it started.
The process is started as a program of its own (`child.py`), so that a daemonic process, such as a worker of Dask, may
have one as well, and the program that imports ttopt is not run a second time.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from optimizer.batch.child import Setup
from optimizer.batch.executor import Job, WorkerDied
from optimizer.process import logs

PRELOADED = "optimizer.pipeline"
"""Imported by a worker before its first job, which then starts at once."""
_PROGRAM = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from optimizer.batch.child import serve
serve(int(sys.argv[2]), int(sys.argv[3]))
"""
REAP_SECONDS = 5.0
"""How long a process that closed its socket may take to end."""


class Worker:
    """A process. `send` jobs, then `receive` as many values or errors; `kill` at any time, from any thread."""

    def __init__(self, preload: str | None = PRELOADED, memory_bytes: int = 0) -> None:
        """`memory_bytes` limits the process's data (heap and private mappings, stacks of threads too); 0: no limit."""
        ours, theirs = socket.socketpair()
        # Nobody writes to it: the process learns from its end that this one is gone.
        ends_with_us, self._lifeline = os.pipe()
        handed = (theirs.fileno(), ends_with_us)
        command = [sys.executable, "-P", "-c", _PROGRAM, json.dumps(sys.path), *map(str, handed)]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=handed, process_group=0)
        finally:
            theirs.close()
            os.close(ends_with_us)
        self.connection = Connection(ours.detach())
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # found by the first `send`
            self.connection.send(Setup(preload, memory_bytes, logs.active()))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def resident_bytes(self) -> int:
        """Memory that the process holds at present; 0 where the system does not say."""
        try:
            pages = Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()[1]
        except OSError:
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, job: Job, descriptors: Sequence[int] = ()) -> None:
        """Give it a job, called with duplicates of the descriptors; WorkerDied if the process is gone."""
        try:
            self.connection.send((job, len(descriptors)))
            if descriptors:
                with socket.socket(fileno=os.dup(self.connection.fileno())) as channel:
                    socket.send_fds(channel, [b"\0"], list(descriptors))
        except (BrokenPipeError, ConnectionResetError) as error:
            raise WorkerDied(self._exit_code()) from error

    def receive(self) -> Any:
        """The next job's value; raises the job's TtoptError, JobFailure, or WorkerDied."""
        try:
            done, value = self.connection.recv()
        except (EOFError, ConnectionResetError) as error:
            raise WorkerDied(self._exit_code()) from error
        if not done:
            raise value
        return value

    def kill(self) -> None:
        """End the process and those it started, at once; a `receive` under way raises WorkerDied."""
        # Once the process has been waited for, its number may be another's.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process and release what it held. Not while another thread is in `receive`."""
        self.kill()
        self._process.wait()
        self.connection.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def _exit_code(self) -> int | None:
        # It closed its socket, or died; what it started has nobody left to answer.
        self.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(REAP_SECONDS)
        return self._process.returncode
