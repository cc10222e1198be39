"""Progress on stderr: of one model a bar on a terminal, nothing elsewhere or beside a log; of a batch lines."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TextIO

from optimizer.cli.terminal import one_line, redraw
from optimizer.process.logs import active

if TYPE_CHECKING:
    from optimizer.batch.run import Ended

QUIET_SECONDS = 1.0
"""Work shorter than this shows no bar."""
REFRESH_SECONDS = 0.2
BAR_WIDTH = 24
BATCH_REDRAW_SECONDS = 0.1
EACH_LIMIT = 100
"""Where stderr is no terminal, every job of a batch up to this size gets a line; of larger ones failures do, and..."""
LINE_SECONDS = 10.0
"""... there is a line on the whole every so often."""


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


class BatchProgress:
    """Called after every job: one rewritten line on a terminal, lines elsewhere."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._told = self._started
        self._failed = 0
        self._kept = 0
        """Jobs that an earlier run had done: they say nothing about the rate."""
        self._open = False

    def __enter__(self) -> BatchProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open:
            print(file=sys.stderr)

    def __call__(self, ended: Ended) -> None:
        now = time.monotonic()
        self._failed += not ended.record["ok"]
        self._kept += ended.kept
        last = ended.done == ended.count
        if sys.stderr.isatty():
            if last or now - self._told > BATCH_REDRAW_SECONDS or not self._open:
                redraw(sys.stderr, self._line(now, ended))
                self._told, self._open = now, True
        elif ended.count <= EACH_LIMIT or not ended.record["ok"]:
            print(_verdict(ended), file=sys.stderr, flush=True)
        elif last or now - self._told > LINE_SECONDS:
            print(self._line(now, ended), file=sys.stderr, flush=True)
            self._told = now

    def _line(self, now: float, ended: Ended) -> str:
        per_second = max(ended.done - self._kept, 1) / max(now - self._started, 1e-3)
        left = "" if ended.done == ended.count else f"  eta {duration_text((ended.count - ended.done) / per_second)}"
        return f"{ended.done}/{ended.count}  {rate_text(per_second)}  {self._failed} failed{left}"


def _verdict(ended: Ended) -> str:
    """What became of one job."""
    record = ended.record
    verdict = "kept" if ended.kept and record["ok"] else "done" if record["ok"] else "FAILED"
    return one_line(f"[{ended.done}/{ended.count}] {record['name']} {verdict}, {record['seconds']} s")


def rate_text(per_second: float) -> str:
    """`3.1/s`, of slow ones `12.5/min`."""
    return f"{per_second:.1f}/s" if per_second >= 1 else f"{per_second * 60:.1f}/min"


def duration_text(seconds: float) -> str:
    """`51 s`, `12 min`, `3 h 05 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"
