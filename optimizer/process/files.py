"""Writing files: whole or not at all, and never through a link.

Everything ttopt writes for its user goes through here. The new bytes go into a file beside the target, reach the disk,
and take the target's place in one step; whatever goes wrong before that leaves the old file as it was. Permissions are
those of a new file. A device is written to as it is. A link, a pipe or a socket at the target is refused: a link may
have been put there by somebody else, and neither writing through it nor replacing it is sure to be what is wanted.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from optimizer.errors import OutputError

NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
DEVICE = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
MODE = 0o666
"""Less what the umask takes away."""


def encoded(text: str) -> bytes:
    """Text as UTF-8. What UTF-8 lacks, halves of surrogate pairs, becomes the escape `\\udc80`, as JSON and Python
    spell it; such text comes from file names that are no UTF-8, and from escapes in JSON."""
    return text.encode("utf-8", "backslashreplace")


def make_folder(folder: Path) -> None:
    """A folder and those above it; OutputError if it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(folder, error) from error


def write_text(path: Path, text: str) -> None:
    """Replace a file by text in UTF-8; OutputError if that cannot be done."""
    write_bytes(path, encoded(text))


def written(path: Path, text: str) -> Path:
    """The path of a file that is replaced by text, in a folder that is made where it is missing. Raises OutputError."""
    make_folder(path.parent)
    write_text(path, text)
    return path


def write_bytes(path: Path, data: bytes) -> None:
    """Replace a file by these bytes; OutputError if that cannot be done."""
    with replacing(path) as file:
        file.write(data)


@contextlib.contextmanager
def scratch_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A folder of its own below an existing one, gone after the block; OutputError if it cannot be made."""
    try:
        scratch = TemporaryDirectory(prefix=prefix, dir=parent)
    except OSError as error:
        raise _refused(parent, error) from error
    with scratch:
        yield Path(scratch.name)


def move_file(source: Path, target: Path) -> None:
    """Put a finished file of the same file system into its place; OutputError if that cannot be done."""
    make_folder(target.parent)
    refuse_links(target)
    try:
        source.replace(target)
    except OSError as error:
        raise _refused(target, error) from error


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when the block ends without an error. Raises OutputError."""
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _is_device(path.name, folder, path):
                with open(os.open(path.name, DEVICE, dir_fd=folder), "wb") as file:
                    yield file
            else:
                yield from _replacing(path.name, folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise _refused(path, error) from error


def _replacing(name: str, folder: int) -> Iterator[BinaryIO]:
    temporary = f".ttopt-{secrets.token_hex(8)}"
    descriptor = os.open(temporary, NEW_FILE, MODE, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise


def refuse_links(path: Path) -> None:
    """OutputError if there is something at the path that is no file of its own, for writers that open it themselves."""
    with contextlib.suppress(FileNotFoundError):
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise _wrong_kind(path, found.st_mode)


def _is_device(name: str, folder: int, path: Path) -> bool:
    """Whether the target is a device; OutputError if it is nothing that may be written."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISCHR(mode):
        return True
    if not stat.S_ISREG(mode):
        raise _wrong_kind(path, mode)
    return False


def _wrong_kind(path: Path, mode: int) -> OutputError:
    kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    kind = kinds.get(stat.S_IFMT(mode), "a device")
    return OutputError(f"cannot write: it is {kind}", node=str(path), alternatives=("a file", "a path that is free"))


def _refused(path: Path, error: OSError) -> OutputError:
    return OutputError(f"cannot write: {error.strerror or error}", node=str(path))
