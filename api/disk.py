"""Files without names for bodies and answers in work, and what happens where the disk has no room for them."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import RawIOBase

from optimizer.errors import OutputError, TtoptError

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE})
"""Of errors of the system, those by which it says that there is no room for another file, or for more of one."""


class SpoolError(TtoptError):
    """The folder for bodies and answers cannot be written; this is the operator's to mend."""

    code = "no-room"
    http_status = 503


def temporary_file(folder: str | None = None) -> RawIOBase:
    """An empty file, unbuffered, and where the file system can do that without ever having a name. SpoolError if the
    folder takes none; without one it is that for temporary files."""
    try:
        return tempfile.TemporaryFile(dir=folder, buffering=0)
    except OSError as error:
        raise SpoolError(f"the folder for temporary files takes no file: {error.strerror}") from error


@contextmanager
def disk_room() -> Iterator[None]:
    """SpoolError where something inside finds no room on disk, whoever reports it."""
    try:
        yield
    except (OSError, OutputError) as error:
        cause = error.__cause__ if isinstance(error, OutputError) else error
        if not isinstance(cause, OSError) or cause.errno not in FULL:
            raise
        raise SpoolError(f"the folder for temporary files takes no more: {cause.strerror}") from error
