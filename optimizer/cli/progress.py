"""Progress of long work on stderr: a bar on a terminal, nothing elsewhere or beside a log."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Protocol, TextIO

from optimizer.cli.terminal import redraw
from optimizer.process.logs import active

QUIET_SECONDS = 1.0
"""Work shorter than this shows no bar."""
REFRESH_SECONDS = 0.2
BAR_WIDTH = 24


class Event(Protocol):
    """What the bar reads of `optimizer.pipeline.ProgressEvent`."""

    @property
    def stage(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def detail(self) -> str: ...


class ProgressBar:
    """A context manager that is also the `progress` callback of the pipeline.

    The bar is drawn from a thread, so that the seconds go on while one stage works.
    """

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        self._title = title
        self._stream = sys.stderr if stream is None else stream
        self._text = title
        self._share = 0.0
        self._started = time.monotonic()
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(self, event: Event) -> None:
        self.show(event.index / max(event.count, 1), f"{self._title}: {event.stage} {event.detail}".rstrip())

    def show(self, share: float, text: str) -> None:
        self._share, self._text = min(max(share, 0.0), 1.0), text

    def __enter__(self) -> ProgressBar:
        if self._stream.isatty() and not active().is_on:
            self._thread = threading.Thread(target=self._draw, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _draw(self) -> None:
        if self._done.wait(QUIET_SECONDS):
            return
        while not self._done.wait(REFRESH_SECONDS):
            redraw(self._stream, self.line())
        redraw(self._stream, "")

    def line(self) -> str:
        """The bar as one line of text."""
        filled = round(self._share * BAR_WIDTH)
        seconds = time.monotonic() - self._started
        return f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {seconds:4.0f} s  {self._text[:80]}"
