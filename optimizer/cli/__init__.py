"""The command `ttopt`: a thin layer over the library.

stdout carries data, stderr carries progress and messages. Exit codes: 0 done; 1 finished, but a check
failed or no plan exists; 2 bad input or usage; 3 time limit with nothing to return; 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from optimizer.cli.interruption import INTERRUPTED
from optimizer.cli.parser import build_parser, parse
from optimizer.errors import TtoptError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - it stays until the process ends
    if sys.stdout is None:
        # Whatever file came first would take its descriptor, and its place.
        print("ttopt: error: stdout is closed", file=sys.stderr)
        return 2
    try:
        status = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return status
    except TtoptError as error:
        # Names in messages come from files and may hold line breaks; an error stays one line.
        print("ttopt: error:", " ".join(str(error).splitlines()), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("ttopt: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of stdout has had enough (`ttopt ... | head`).
        _abandon_stdout()
        return 0
    except OSError as error:
        if error.filename is not None:
            print(f"ttopt: error: {error.filename}: {error.strerror}", file=sys.stderr)
        elif error.errno == errno.ENOSPC:
            print(f"ttopt: error: {error.strerror}", file=sys.stderr)
            _abandon_stdout()
        else:
            raise
        return 2
    except Exception as error:
        error.add_note("This is a defect of ttopt, not of your input: please report it with the lines above.")
        raise


def _run(argv: Sequence[str]) -> int:
    args = parse(build_parser(), argv)
    status: int = args.run(args)
    return status


def _abandon_stdout() -> None:
    """Let the interpreter's last flush go nowhere instead of failing once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
