"""How Ctrl-C ends the command. Loaded before its handler stands, so nothing is imported that Python has not loaded."""

from __future__ import annotations

import os

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended."""


def end_interrupted(*_: object) -> None:
    """End the process at once, as one that Ctrl-C ended. May be a signal's handler."""
    try:
        os.write(2, b"ttopt: interrupted\n")
    finally:
        os._exit(INTERRUPTED)
