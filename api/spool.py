"""Bodies and answers on disk, so that the server's own memory holds a few pieces of each at most.

A body is written to a file without a name as it arrives and handed to its worker as a descriptor; the worker writes
its answer to another one. Both vanish with their last descriptor, also if the server is killed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from io import RawIOBase
from types import TracebackType

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope

from api.disk import disk_room, temporary_file
from api.problems import BusyError, TooSlowError
from api.settings import Settings
from optimizer.errors import LimitError

PIECE_BYTES = 256 * 1024
"""Of an answer, what is read at once."""
QUICK_BYTES = 64 * 1024
"""A write up to this size is in the page cache sooner than a thread would be woken for it."""
THREADS = 4
MOST_DIGITS = 18
"""Of an announced length: more is too large in any case, and slow to read as a number."""


class Spool:
    """The files of all requests under way, and how many bytes they hold together."""

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.spool_place
        self._most_bytes = settings.spool_bytes
        self._most_uploads = settings.max_uploads
        self._largest = settings.max_body_bytes
        self._pace = Pace(settings.body_seconds, settings.stall_seconds, settings.min_body_rate)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="spool")
        self._uploads = 0
        self._bytes = 0

    def close(self) -> None:
        self._threads.shutdown(wait=False)

    @property
    def has_room(self) -> bool:
        """Whether another body would be received now."""
        return self._uploads < self._most_uploads and self._bytes < self._most_bytes

    async def body(self, scope: Scope, receive: Receive) -> SpooledFile:
        """The whole body of a request, in a file of its own.

        BusyError if too much is on its way already, LimitError if the body is too large, TooSlowError if it does not
        keep its pace, ClientDisconnect if the client leaves.
        """
        announced = dict(scope["headers"]).get(b"content-length", b"").lstrip(b"0")
        if len(announced) > MOST_DIGITS or (announced.isdigit() and int(announced) > self._largest):
            raise self._too_large()
        with self._upload():
            file = self.file()
            try:
                await self._fill(file, receive)
            except BaseException:
                file.close()
                raise
            return file

    def file(self) -> SpooledFile:
        """An empty file; SpoolError if the folder takes none."""
        return SpooledFile(self, temporary_file(self._folder))

    @contextmanager
    def _upload(self) -> Iterator[None]:
        if not self.has_room:
            raise self._full()
        self._uploads += 1
        try:
            yield
        finally:
            self._uploads -= 1

    async def _fill(self, file: SpooledFile, receive: Receive) -> None:
        watch = _Watch(self._pace)
        more = True
        while more:
            message = await watch.next(receive)
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            piece: bytes = message.get("body", b"")
            more = message.get("more_body", False)
            if file.size + len(piece) > self._largest:
                raise self._too_large()
            if self._bytes + len(piece) > self._most_bytes:
                raise self._full()
            await file.append(piece)

    def count(self, size: int) -> None:
        """Take note of bytes that lie on disk; negative: that are gone."""
        self._bytes += size

    @property
    def threads(self) -> ThreadPoolExecutor:
        """Where reads and writes may wait for the disk."""
        return self._threads

    def _too_large(self) -> LimitError:
        return LimitError(f"the body exceeds {self._largest} bytes", node="body", limit=self._largest)

    def _full(self) -> BusyError:
        if self._uploads >= self._most_uploads:
            return BusyError(f"{self._uploads} bodies are on their way already", limit=self._most_uploads)
        return BusyError("bodies and answers under way fill the spool folder", limit=self._most_bytes)


class SpooledFile:
    """Bytes of one request on disk. `close` releases them."""

    def __init__(self, spool: Spool, file: RawIOBase) -> None:
        self._spool = spool
        self._file = file
        self.size = 0

    @property
    def descriptor(self) -> int:
        return self._file.fileno()

    async def append(self, piece: bytes) -> None:
        """SpoolError if the disk is full."""
        self.size += len(piece)
        self._spool.count(len(piece))
        if len(piece) <= QUICK_BYTES:
            _write(self.descriptor, piece)
        else:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._spool.threads, _write, self.descriptor, piece)

    def measure(self) -> None:
        """Take note of what another process has written."""
        size = os.fstat(self.descriptor).st_size
        self._spool.count(size - self.size)
        self.size = size

    async def pieces(self) -> AsyncIterator[bytes]:
        """The bytes from the first to the last."""
        loop = asyncio.get_running_loop()
        at = 0
        while at < self.size:
            piece = await loop.run_in_executor(self._spool.threads, os.pread, self.descriptor, PIECE_BYTES, at)
            if not piece:
                return
            at += len(piece)
            yield piece

    def close(self) -> None:
        if not self._file.closed:
            self._file.close()
            self._spool.count(-self.size)

    def __enter__(self) -> SpooledFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class Pace:
    """How fast a body must arrive."""

    total_seconds: float
    span_seconds: float
    """Each span of this length must bring `least_bytes_per_second`."""
    least_bytes_per_second: float


class _Watch:
    """Receives the messages of one body and keeps it to its pace."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._ends = time.monotonic() + pace.total_seconds
        self._span_ends = time.monotonic() + pace.span_seconds
        self._bytes = 0

    async def next(self, receive: Receive) -> Message:
        """The next message; TooSlowError if the body falls behind before it comes."""
        while True:
            self._check()
            try:
                async with asyncio.timeout(max(0.0, min(self._ends, self._span_ends) - time.monotonic())):
                    message = await receive()
            except TimeoutError:
                continue
            self._bytes += len(message.get("body", b""))
            return message

    def _check(self) -> None:
        now = time.monotonic()
        if now >= self._ends:
            raise TooSlowError(
                f"the body took longer than {self._pace.total_seconds:g} s", node="body", limit=self._pace.total_seconds
            )
        if now < self._span_ends:
            return
        if self._bytes < self._pace.least_bytes_per_second * self._pace.span_seconds:
            raise TooSlowError(
                f"{self._bytes} bytes of the body came within {self._pace.span_seconds:g} s",
                node="body",
                limit=f"{self._pace.least_bytes_per_second:g} bytes per second",
            )
        self._bytes, self._span_ends = 0, now + self._pace.span_seconds


def _write(descriptor: int, piece: bytes) -> None:
    view = memoryview(piece)
    with disk_room():
        while view:
            view = view[os.write(descriptor, view) :]
