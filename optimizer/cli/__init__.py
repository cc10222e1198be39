"""The command `ttopt`: a thin layer over the library.

stdout carries data, stderr carries progress and messages. Exit codes: 0 done; 1 finished, but a check
failed or no plan exists; 2 bad input or usage; 3 time limit with nothing to return; 130 interrupted.

Until `main` runs, Ctrl-C is Python's own, which shows a traceback. So nothing is imported here that Python has not
loaded already; even `signal` and `typing` would double the time until then.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # built in; `signal` adds the names of the numbers
import sys
import time

from optimizer.cli.ending import end_interrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. Without arguments: this process's command, with Ctrl-C its own too.

    A time limit counts from here: what is loaded from now on is the command's time.
    """
    began = time.monotonic()
    if argv is not None or _signal.getsignal(_signal.SIGINT) is not _signal.default_int_handler:
        from optimizer.cli.command import run

        return run(sys.argv[1:] if argv is None else argv, began)
    # While modules load and while Python ends, there is nothing to put in order.
    _signal.signal(_signal.SIGINT, end_interrupted)
    from optimizer.cli.command import run
    from optimizer.cli.interruption import leave, run_interruptibly

    return leave(run_interruptibly(lambda: run(sys.argv[1:], began)))
