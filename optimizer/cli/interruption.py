"""Ctrl-C: it ends the command; while a model is optimised the first ends the search only, the second everything.

A search has a plan almost from its beginning, and it is worth keeping; before and after it there is nothing to wait
for, and Ctrl-C ends the command at once.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from optimizer.cli.ending import INTERRUPTED, end_interrupted

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

SEARCH_STAGES = ("plain-plan", "error-budget", "policy", "measured-error", "pareto-front")
"""Stages of which one has a plan to give, or one before it has."""


class Interruption:
    """A context manager; inside it, call it to learn whether the user asked the search to end."""

    def __init__(self) -> None:
        self._asked = False
        self._stage = ""
        self._previous: signal._HANDLER = None
        self._mine = False

    def __call__(self) -> bool:
        return self._asked

    def enter_stage(self, stage: str) -> None:
        """Tell which stage of the pipeline works."""
        self._stage = stage

    def __enter__(self) -> Interruption:
        # Python allows handlers in the main thread only, where the command runs unless a test says otherwise.
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._handle)
            self._mine = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._mine:
            signal.signal(signal.SIGINT, self._previous)

    def _handle(self, _signum: int, _frame: FrameType | None) -> None:
        if self._asked or self._stage not in SEARCH_STAGES:
            raise KeyboardInterrupt
        self._asked = True
        print("\nttopt: ending the search; Ctrl-C once more gives up the result too", file=sys.stderr)


@contextlib.contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Inside the block SIGTERM and SIGHUP end the command as Ctrl-C does; a second one ends the process at once."""

    def end(signum: int, _frame: FrameType | None) -> None:
        signal.signal(signum, signal.SIG_DFL)
        raise KeyboardInterrupt

    mine = threading.current_thread() is threading.main_thread()
    taken = [s for s in (signal.SIGTERM, signal.SIGHUP) if mine and signal.getsignal(s) == signal.SIG_DFL]
    for signum in taken:
        signal.signal(signum, end)
    try:
        yield
    finally:
        for signum in taken:
            signal.signal(signum, signal.SIG_DFL)


def run_interruptibly(command: Callable[[], int]) -> int:
    """The command's exit code, INTERRUPTED if Ctrl-C was pressed. For a process's main thread, once.

    Inside the command Ctrl-C raises KeyboardInterrupt, so that what is half done is put in order. Code that Python
    calls by itself, and modules while they load, may lose such an exception or turn it into another; that the key was
    pressed counts all the same. Afterwards Ctrl-C ends the process at once.
    """
    pressed = False

    def press(_signum: int, _frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        raise KeyboardInterrupt

    def lost(unraisable: UnraisableHookArgs) -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            end_interrupted()
        sys.__unraisablehook__(unraisable)

    sys.unraisablehook = lost
    try:
        signal.signal(signal.SIGINT, press)
        status = command()
        signal.signal(signal.SIGINT, end_interrupted)
    except BaseException:
        if pressed:
            end_interrupted()
        raise
    return INTERRUPTED if pressed else status


def leave(status: int) -> int:
    """End the process with this exit code at once; returns the code where something of it is still at work.

    What was registered for the end is done, but nothing is freed: after a large search that takes Python a second.
    """
    if any(t is not threading.main_thread() and not t.daemon for t in threading.enumerate()):
        return status
    try:
        atexit._run_exitfuncs()
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except OSError:  # Python says so in its own way
        return status
    os._exit(status)
