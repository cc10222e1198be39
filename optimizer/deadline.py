"""A hard end for a run with a time limit, for entrances that have a process's main thread to themselves."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from optimizer.errors import TimeLimitError

GRACE_SHARE, GRACE_S = 0.25, 1.0
"""How far past its limit a run may go while it writes down the plan that it has."""


@contextmanager
def hard_deadline(time_limit_s: float | None) -> Iterator[None]:
    """TimeLimitError inside the block once `time_limit_s` and its grace are over.

    The stages of a run end by themselves when they are asked; this is for what does not ask, a library's inference over
    a large graph for one. Python delivers signals to the main thread only: in another thread there is no hard end.
    """
    if time_limit_s is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_signum: int, _frame: FrameType | None) -> None:
        raise TimeLimitError(f"time limit of {time_limit_s:g} s reached: nothing to return", limit=time_limit_s)

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, min(time_limit_s * (1 + GRACE_SHARE) + GRACE_S, threading.TIMEOUT_MAX))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
