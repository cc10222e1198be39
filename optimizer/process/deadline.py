"""How far past its limit a run may go, and its hard end where it has a process's main thread."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from optimizer.errors import TimeLimitError

GRACE_SHARE, GRACE_S = 0.1, 2.0
"""What is promised: a run ends within this share of its limit past it, or so many seconds, whichever is more."""
LAST_SHARE, WRITING_SHARE = 0.25, 0.9
"""Of that grace, after which whatever still works is ended at the latest; and by when the result is written."""
REPEATED_S, SOON_S = 0.5, 0.01
"""After which it is ended again, where a library lost the first end, or a policy took it for that of its search; and
where Python would have lost it."""


def last_moment_s(time_limit_s: float, writing_s: float = 0.0) -> float:
    """Seconds after its beginning when what a run does is ended, if its result takes so many to be written."""
    grace_s = max(GRACE_SHARE * time_limit_s, GRACE_S)
    past_s = min(LAST_SHARE * grace_s, WRITING_SHARE * grace_s - writing_s)
    return min(time_limit_s + past_s, threading.TIMEOUT_MAX)


@contextmanager
def hard_deadline(
    time_limit_s: float | None, spent_s: float = 0.0, told: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """TimeLimitError inside the block at the last moment of a run that began `spent_s` ago; `told` is called before.

    The stages of a run end by themselves when they are asked; this is for what does not ask, a library's inference over
    a large graph for one. A library may take the end for another error: the run's is a TimeLimitError even so. Python
    delivers signals to the main thread only: in another thread there is no hard end.
    """
    if time_limit_s is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    is_over = False

    def over() -> TimeLimitError:
        return TimeLimitError(f"time limit of {time_limit_s:g} s reached: nothing to return", limit=time_limit_s)

    def end(_signum: int, frame: FrameType | None) -> None:
        nonlocal is_over
        is_over = True
        if _loses_errors(frame):
            signal.setitimer(signal.ITIMER_REAL, SOON_S, REPEATED_S)
            return
        told()
        raise over()

    handler, began = signal.signal(signal.SIGALRM, end), time.monotonic()
    first_s = max(last_moment_s(time_limit_s) - spent_s, 1e-3)
    outer_s, outer_interval_s = signal.setitimer(signal.ITIMER_REAL, first_s, REPEATED_S)
    try:
        yield
    except Exception as error:
        if isinstance(error, TimeLimitError) or not is_over:
            raise
        raise over() from error
    finally:
        while signal.getsignal(signal.SIGALRM) is end:
            with suppress(TimeLimitError):  # a further end that came while what was ended fell apart
                signal.setitimer(signal.ITIMER_REAL, 0.0)
                signal.signal(signal.SIGALRM, handler)
        if outer_s:
            signal.setitimer(signal.ITIMER_REAL, max(outer_s - (time.monotonic() - began), 1e-3), outer_interval_s)


def _loses_errors(frame: FrameType | None) -> bool:
    """Whether Python would print an error raised here and go on: in destructors and in callbacks of weak references."""
    while frame is not None:
        if frame.f_code.co_name == "__del__" or frame.f_globals.get("__name__") in ("_weakrefset", "weakref"):
            return True
        frame = frame.f_back
    return False
