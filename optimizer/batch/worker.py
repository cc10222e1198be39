"""One worker process that runs one job at a time.

The standard pool cannot stop a single job, and when a process dies it loses every job in flight without
telling whose fault it was. Here the parent holds one pipe per process, so it knows which job a process
died of, and stops a job that takes too long by ending that process only.
"""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

from optimizer.batch.executor import Job, JobFailure, WorkerDied
from optimizer.errors import TtoptError

PRELOADED = "optimizer.pipeline"
"""Imported by a worker before its first job, which then starts at once."""


class Worker:
    """A spawned process. `send` a job, then `receive` its value or error; `kill` at any time, from any thread."""

    def __init__(self, preload: str | None = PRELOADED) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, preload), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def send(self, job: Job) -> None:
        """Start a job; WorkerDied if the process is gone."""
        try:
            self.connection.send(job)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise WorkerDied(self._exit_code()) from error

    def receive(self) -> Any:
        """The running job's value; raises the job's TtoptError, JobFailure, or WorkerDied."""
        try:
            done, value = self.connection.recv()
        except (EOFError, ConnectionResetError) as error:
            raise WorkerDied(self._exit_code()) from error
        if not done:
            raise value
        return value

    def kill(self) -> None:
        """End the process at once; a `receive` under way raises WorkerDied."""
        self._process.kill()

    def close(self) -> None:
        """End the process and release what it held. Not while another thread is in `receive`."""
        self._process.kill()
        self._process.join()
        self.connection.close()

    def _exit_code(self) -> int | None:
        self._process.join(timeout=5)
        return self._process.exitcode


def _serve(connection: Connection, preload: str | None) -> None:
    """The worker process: answer jobs until the parent closes the pipe or disappears."""
    # Ctrl-C reaches the whole process group; the parent decides what becomes of its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if preload is not None:
        import_module(preload)
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        connection.send(_answer(job))


def _answer(job: Job) -> tuple[bool, Any]:
    """`(True, value)` or `(False, error)`; nothing a job raises ends the worker."""
    try:
        return True, job()
    except TtoptError as error:
        return False, error
    except Exception as error:  # noqa: BLE001 - it is carried to the parent, which reports it
        return False, JobFailure(f"{type(error).__name__}: {error}", traceback.format_exc())
