"""`Child`: one worker process for one board - start, talk, find out how it died, end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimizer.errors import OpModelError
from optimizer.opmodel.ttmetal.location import Location

WORKER = Path(__file__).with_name("worker.py")
STDERR_LINES = 20
STOP_SECONDS = 3.0
Message = dict[str, Any]

EXTERNAL_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
"""Signals that tt-metal never dies of by itself."""


class ChildDiedError(Exception):
    """The process is gone; `returncode` is negative for a signal."""

    def __init__(self, returncode: int, stderr: str) -> None:
        self.returncode = returncode
        self.stderr = stderr
        super().__init__(self.reason)

    @property
    def external(self) -> bool:
        """Whether somebody else ended it (also the kernel, out of memory)."""
        return -self.returncode in EXTERNAL_SIGNALS

    @property
    def reason(self) -> str:
        if self.returncode >= 0:
            return f"exit status {self.returncode}"
        try:
            return signal.Signals(-self.returncode).name
        except ValueError:
            return f"signal {-self.returncode}"


class OverdueError(Exception):
    """The process takes longer than it may."""


@dataclass(frozen=True)
class ChildKey:
    """What a child process is for; children of equal keys give equal answers."""

    location: Location
    board: str
    """Its name, or the architecture where a simulator is opened."""
    l1_small_bytes: int
    queues: int = 1
    """Command queues of the device."""
    trace_region_bytes: int = 0
    """Of DRAM, for traces."""


class Child:
    """A running worker. Not for several threads at once."""

    def __init__(self, key: ChildKey) -> None:
        self.key = key
        # MPI, which tt-metal starts, leaves folders in the place for temporary files
        self._scratch = None if key.location.source == "real" else tempfile.mkdtemp(prefix="ttopt-")
        scratch = {} if self._scratch is None else {"TMPDIR": self._scratch}
        request_read, request_write = os.pipe()
        answer_read, answer_write = os.pipe()
        try:
            self._process = subprocess.Popen(
                self._command(request_read, answer_write),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if key.location.source == "sim" else subprocess.DEVNULL,
                stderr=subprocess.STDOUT if key.location.source == "sim" else subprocess.PIPE,
                pass_fds=(request_read, answer_write),
                env={**os.environ, **scratch},
            )
        except OSError as error:
            for descriptor in (request_write, answer_read):
                os.close(descriptor)
            self._tidy()
            raise OpModelError(f"cannot start {key.location.python}: {error}") from error
        finally:
            os.close(request_read)
            os.close(answer_write)
        self._write, self._read = request_write, answer_read
        self._buffer = bytearray()
        self._closed = False
        self._last_lines: deque[str] = deque(maxlen=STDERR_LINES)
        self._drain = threading.Thread(target=self._keep_stderr, daemon=True)
        self._drain.start()

    def _command(self, request_fd: int, answer_fd: int) -> list[str]:
        location = self.key.location
        isolated = [] if location.source == "real" else ["-I"]
        fds = [str(request_fd), str(answer_fd)]
        return [
            location.python,
            *isolated,
            str(WORKER),
            *fds,
            self.key.board,
            str(self.key.l1_small_bytes),
            location.source,
            str(self.key.queues),
            str(self.key.trace_region_bytes),
        ]

    def _keep_stderr(self) -> None:
        stream = self._process.stderr or self._process.stdout  # a simulator reports on standard output
        assert stream is not None
        with stream:
            for line in stream:
                self._last_lines.append(line.decode("utf-8", "replace").rstrip())

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        """For selectors: readable when (part of) an answer is there, or the process is gone."""
        return self._read

    def send(self, message: Message) -> None:
        """Hand over one request. A child that is gone shows when its answers are read, after those it still gave."""
        body = json.dumps(message, separators=(",", ":")).encode()
        data = memoryview(struct.pack(">I", len(body)) + body)
        try:
            while data:
                data = data[os.write(self._write, data) :]
        except BrokenPipeError:
            return

    def receive(self) -> list[Message]:
        """Answers that have arrived: at least a part of one must be there. Raises ChildDiedError."""
        data = os.read(self._read, 1 << 18)
        if not data:
            raise self._died()
        self._buffer += data
        found = []
        while len(self._buffer) >= 4:
            (length,) = struct.unpack_from(">I", self._buffer)
            if len(self._buffer) < 4 + length:
                break
            found.append(json.loads(self._buffer[4 : 4 + length]))
            del self._buffer[: 4 + length]
        return found

    def exchange(self, message: Message | None, seconds: float) -> Message:
        """One request (none: the greeting) and its answer. Raises ChildDiedError, OverdueError."""
        if message is not None:
            self.send(message)
        deadline = time.monotonic() + seconds
        while True:
            if not select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise OverdueError(f"no answer within {seconds:g} s")
            for answer in self.receive():
                return answer

    def _died(self) -> ChildDiedError:
        """How it ended; a process that only closed its pipes is ended."""
        try:
            code = self._process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._drain.join(timeout=STOP_SECONDS)
        lines = [line for line in self._last_lines if line]
        self.close()
        return ChildDiedError(code, "\n".join(lines[-STDERR_LINES:]))

    def kill(self) -> None:
        """End it at once: it hangs, or what it works on is not wanted any more."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        self.close()

    def close(self) -> None:
        """Close the pipes, upon which the process ends by itself; one that does not is killed."""
        if self._closed:
            return
        self._closed = True
        os.close(self._write)
        os.close(self._read)
        try:
            self._process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._tidy()

    def _tidy(self) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def forget(self) -> None:
        """Close this process's ends only: the child belongs to the process we were forked from."""
        if not self._closed:
            self._closed = True
            os.close(self._write)
            os.close(self._read)
