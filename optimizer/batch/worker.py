"""One worker process that runs one job at a time.

The standard pool cannot stop a single job, and when a process dies it loses every job in flight without
telling whose fault it was. Here the parent holds one pipe per process, so it knows which job a process
died of, and stops a job that takes too long by ending that process only - with the processes that it started.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import socket
import threading
import traceback
from collections.abc import Iterator, Sequence
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.process import parent_process
from pathlib import Path
from typing import Any

from optimizer import logs
from optimizer.batch.executor import Job, JobFailure, OutOfMemory, WorkerDied
from optimizer.errors import TtoptError
from optimizer.plugins import plugins_named

PRELOADED = "optimizer.pipeline"
"""Imported by a worker before its first job, which then starts at once."""
SHOWN_CHARACTERS = 20_000
"""Of a defect's traceback, whose last line may repeat the input."""


class Worker:
    """A spawned process. `send` a job, then `receive` its value or error; `kill` at any time, from any thread."""

    def __init__(self, preload: str | None = PRELOADED, memory_bytes: int = 0) -> None:
        """`memory_bytes` limits the process's data (heap and private mappings, stacks of threads too); 0: no limit."""
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, preload, memory_bytes, logs.active()), daemon=True)
        with _uninterrupted():
            self._process.start()
        theirs.close()

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
        return self._process.is_alive()

    def send(self, job: Job, descriptors: Sequence[int] = ()) -> None:
        """Start a job, called with duplicates of the descriptors; WorkerDied if the process is gone."""
        try:
            self.connection.send((job, len(descriptors)))
            if descriptors:
                with socket.socket(fileno=os.dup(self.connection.fileno())) as channel:
                    socket.send_fds(channel, [b"\0"], list(descriptors))
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
        """End the process and those it started, at once; a `receive` under way raises WorkerDied."""
        self._kill_group()
        self._process.kill()

    def close(self) -> None:
        """End the process and release what it held. Not while another thread is in `receive`."""
        self.kill()
        self._process.join()
        self.connection.close()

    def _exit_code(self) -> int | None:
        # It closed its pipe, or died; what it started has nobody left to answer.
        self._kill_group()
        self._process.join(timeout=5)
        return self._process.exitcode

    def _kill_group(self) -> None:
        """End the process's group. Once the process has been waited for, its number may be another's."""
        pid = self._process.pid
        if pid is None or self._process.exitcode is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Inside the block Ctrl-C waits for this thread, and for ever in processes that are started."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection, preload: str | None, memory_bytes: int, settings: logs.LogSettings) -> None:
    """The worker process: answer jobs until the parent closes the pipe or disappears."""
    # A group of its own, so that whoever ends this process can end what it started too. Ctrl-C no longer reaches it;
    # the parent decides what becomes of its workers.
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    logs.configure(settings)
    if preload is not None:
        import_module(preload)
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    while True:
        try:
            job, count = connection.recv()
            descriptors = _received(connection, count)
        except (EOFError, ConnectionResetError):
            return
        connection.send(_answer(job, descriptors, memory_bytes))


def _end_with_parent() -> None:
    """End this process, and those that it started, as soon as the one that started it has ended."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _received(connection: Connection, count: int) -> list[int]:
    """The descriptors that come after a job; EOFError if the parent left before it sent them."""
    if not count:
        return []
    with socket.socket(fileno=os.dup(connection.fileno())) as channel:
        _, descriptors, _, _ = socket.recv_fds(channel, 1, count)
    if len(descriptors) != count:
        raise EOFError
    return descriptors


def _answer(job: Job, descriptors: Sequence[int], memory_bytes: int) -> tuple[bool, Any]:
    """`(True, value)` or `(False, error)`; nothing a job raises ends the worker."""
    try:
        with plugins_named():
            return True, job(*descriptors)
    except TtoptError as error:
        return False, error
    except MemoryError:
        limit = memory_bytes or None
        return False, OutOfMemory("working on it takes more memory than a worker has", limit=limit)
    except Exception as error:  # noqa: BLE001 - it is carried to the parent, which reports it
        return False, _failure(error)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _failure(error: Exception) -> JobFailure:
    message = f"{type(error).__name__}: {error}"
    return JobFailure(message[:SHOWN_CHARACTERS], traceback.format_exc()[-SHOWN_CHARACTERS:])
