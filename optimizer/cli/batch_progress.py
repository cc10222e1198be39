"""Progress of a batch on stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

REDRAW_SECONDS = 0.1
EACH_LIMIT = 100
"""Where stderr is no terminal, every job of a batch up to this size gets a line; of larger ones failures do, and..."""
LINE_SECONDS = 10.0
"""... there is a line on the whole every so often."""


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

    def __call__(self, record: dict[str, Any], done: int, count: int) -> None:
        now = time.monotonic()
        self._failed += not record["ok"]
        self._kept += now - self._started < record["seconds"] / 2 and record["ok"]
        ended = done == count
        if sys.stderr.isatty():
            if ended or now - self._told > REDRAW_SECONDS or not self._open:
                print(f"\r\x1b[K{self._line(now, done, count)}", end="", file=sys.stderr, flush=True)
                self._told, self._open = now, True
        elif count <= EACH_LIMIT or not record["ok"]:
            verdict = "done" if record["ok"] else "FAILED"
            print(f"[{done}/{count}] {record['name']} {verdict}, {record['seconds']} s", file=sys.stderr, flush=True)
        elif ended or now - self._told > LINE_SECONDS:
            print(self._line(now, done, count), file=sys.stderr, flush=True)
            self._told = now

    def _line(self, now: float, done: int, count: int) -> str:
        rate = max(done - self._kept, 1) / max(now - self._started, 1e-3)
        left = "" if done == count else f"  eta {duration_text((count - done) / rate)}"
        return f"{done}/{count}  {rate:.1f}/s  {self._failed} failed{left}"


def duration_text(seconds: float) -> str:
    """`51 s`, `12 min`, `3 h 05 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"
