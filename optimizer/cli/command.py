"""One command from its arguments to its exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import TextIOWrapper
from pathlib import Path

from optimizer.cli.ending import INTERRUPTED
from optimizer.cli.parser import build_parser, parse
from optimizer.cli.terminal import ShownText, one_line
from optimizer.errors import TtoptError
from optimizer.process import logs
from optimizer.process.plugins import plugins_named


def run(argv: Sequence[str], began: float) -> int:
    """Run it and tell of its errors on stderr; returns the exit code. `began`: on `time.monotonic`'s clock."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - it stays until the process ends
    if sys.stdout is None:
        # Whatever file came first would take its descriptor, and its place.
        tell("error: stdout is closed")
        return 2
    if isinstance(sys.stdout, TextIOWrapper):
        # Names of files may be no text in any encoding.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with plugins_named(), redirect_stdout(ShownText(sys.stdout)), redirect_stderr(ShownText(sys.stderr)):
            status = _run(argv, began)
        sys.stdout.flush()
        return status
    except TtoptError as error:
        tell(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        tell("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of stdout has had enough (`ttopt ... | head`).
        _abandon_stdout()
        return 0
    except OSError as error:
        if error.filename is not None:
            tell(f"error: {error.filename}: {error.strerror}")
        elif error.errno == errno.ENOSPC:
            tell(f"error: {error.strerror}")
            _abandon_stdout()
        else:
            raise
        return 2
    except Exception as error:
        error.add_note("This is a defect of ttopt, not of your input: please report it with the lines above.")
        raise


def tell(message: str) -> None:
    """One line on stderr."""
    print(one_line(f"ttopt: {' '.join(message.splitlines())}"), file=sys.stderr)


def _run(argv: Sequence[str], began: float) -> int:
    args = parse(build_parser(), argv)
    args.began = began
    settings = logs.LogSettings.parse(os.environ.get(logs.VARIABLE, ""))
    logs.configure(settings.raised(getattr(args, "verbose", 0)))
    status: int = args.run(args)
    return status


def _abandon_stdout() -> None:
    """Let the interpreter's last flush go nowhere instead of failing once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
