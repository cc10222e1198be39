"""What runs in a worker process: jobs in, values or errors out, until the parent leaves."""

from __future__ import annotations

import os
import resource
import signal
import socket
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from optimizer.batch.executor import JobFailure, OutOfMemory
from optimizer.errors import TtoptError
from optimizer.process import logs
from optimizer.process.plugins import plugins_named

STDOUT, STDERR = 1, 2
SHOWN_CHARACTERS = 20_000
"""Of a defect's traceback, whose last line may repeat the input."""
OOM_SCORE, OOM_FIRST = Path("/proc/self/oom_score_adj"), 1000


@dataclass(frozen=True)
class Setup:
    """The first message to a worker process."""

    preload: str | None
    """A module to import before the first job."""
    memory_bytes: int
    """Limit of the process's data; 0: none."""
    logs: logs.LogSettings


def serve(socket_descriptor: int, lifeline: int) -> None:
    """Answer jobs until the parent closes the socket or disappears; the lifeline ends with the parent."""
    # The process leads a group of its own, so that whoever ends it ends what it started too, and Ctrl-C does not reach
    # it: the parent decides what becomes of its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _offer_to_the_oom_killer()
    # Whatever a library prints is no answer of the program that started this one.
    os.dup2(STDERR, STDOUT)
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    for descriptor in (socket_descriptor, lifeline):
        os.set_inheritable(descriptor, False)
    with Connection(socket_descriptor) as connection:
        try:
            _answer_all(connection, connection.recv())
        except (EOFError, ConnectionResetError, BrokenPipeError):
            return  # the parent left


def _answer_all(connection: Connection, setup: Setup) -> None:
    logs.configure(setup.logs)
    if setup.preload is not None:
        import_module(setup.preload)
    if setup.memory_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (setup.memory_bytes, setup.memory_bytes))
    while True:
        job, count = connection.recv()
        connection.send(_answer(job, _received(connection, count), setup.memory_bytes))


def _offer_to_the_oom_killer() -> None:
    """Where memory runs out, Linux ends this process rather than its parent, which then knows of which job it died."""
    if OOM_SCORE.exists():
        OOM_SCORE.write_text(str(OOM_FIRST), encoding="ascii")


def _end_with_parent(lifeline: int) -> None:
    """End this process, and those that it started, as soon as the one that started it has ended."""
    os.read(lifeline, 1)
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


def _answer(job: Any, descriptors: Sequence[int], memory_bytes: int) -> tuple[bool, Any]:
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
