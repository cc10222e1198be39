"""Elements of small tensors that a model keeps in a file beside it: read from its own folder and from nowhere else.

Only a model given by its path has a folder. The file must be a regular one, reached without any link and without
leaving the folder; each part of the way is opened for itself, so nothing can be put in its place meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx

from optimizer.errors import FormatError
from optimizer.importers.model import Budget
from optimizer.importers.onnx_checks import data_bytes
from optimizer.importers.onnx_weights import FOLD_LIMIT, weight_places


@dataclass(frozen=True)
class Reference:
    """Where a tensor says that its data lie."""

    tensor: str
    entries: Mapping[str, str]
    """As in the file (onnx.proto, TensorProto.external_data): location, offset, length, all text."""

    @property
    def location(self) -> str:
        return self.entries.get("location", "")

    def number(self, key: str) -> int | None:
        """`offset` or `length` in bytes; None when absent, FormatError when it is no whole number."""
        text = self.entries.get(key, "")
        if not text:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise FormatError(f"external data of tensor '{self.tensor}': {key} '{text[:40]}' is no number of bytes")
        return int(text)

    def parts(self) -> tuple[str, ...]:
        """The parts of the way from the folder to the file; FormatError when it leads out of the folder."""
        path = PurePosixPath(self.location)
        absolute = path.is_absolute() or PureWindowsPath(self.location).anchor
        if absolute or ".." in path.parts or not path.parts or "\0" in self.location or "\\" in self.location:
            raise FormatError(
                f"external data of tensor '{self.tensor}' at {self.location!r}: "
                "only a file in the model's folder or below is read, named by a relative path without '..'",
                node=self.tensor,
            )
        return path.parts


def references(proto: onnx.ModelProto) -> dict[int, Reference]:
    """Number of a weight of the file, as `weight_places` counts them -> where its external data lie."""
    return {
        number: Reference(tensor.name, {entry.key: entry.value for entry in tensor.external_data})
        for number, tensor in enumerate(weight_places(proto))
        if tensor.data_location == onnx.TensorProto.EXTERNAL
    }


def read_elements(tensor: onnx.TensorProto, reference: Reference, folder: Path, budget: Budget) -> str:
    """Give a small tensor its elements; returns why it has none afterwards, or an empty string.

    Large tensors are weights, whose elements nobody reads. FormatError when the location leads out of the folder or
    to something that is no regular file, or when the file does not hold what the tensor says.
    """
    if any(size < 0 for size in tensor.dims) or prod(tensor.dims) > FOLD_LIMIT:
        return f"tensors of more than {FOLD_LIMIT} elements are not read"
    wanted = data_bytes(tensor)
    if wanted is not None:
        budget.elements(f"tensor '{reference.tensor}'", wanted)
    return read_data(tensor, reference, folder)


def read_data(tensor: onnx.TensorProto, reference: Reference, folder: Path) -> str:
    """Give a tensor of any size its elements, as `read_elements` does."""
    wanted = data_bytes(tensor)
    if wanted is None:
        return "their element type has no size"
    parts = reference.parts()
    offset, length = reference.number("offset") or 0, reference.number("length")
    if length not in (None, wanted):
        raise FormatError(
            f"external data of tensor '{reference.tensor}' of shape {list(tensor.dims)}: "
            f"the length is {length} bytes, not {wanted}",
            node=reference.tensor,
        )
    try:
        data = _read(folder, parts, offset, wanted)
    except FileNotFoundError:
        return f"the file '{reference.location}' is not there"
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
            return (
                f"a link, or something that is no folder, is on the way to '{reference.location}'; put the file itself "
                "into the model's folder"
            )
        why = error.strerror or str(error)
        raise FormatError(f"external data of tensor '{reference.tensor}' at '{reference.location}': {why}") from error
    if len(data) != wanted:
        raise FormatError(
            f"external data of tensor '{reference.tensor}' at '{reference.location}': the file has only {len(data)} "
            f"of the {wanted} bytes from {offset} on",
            node=reference.tensor,
        )
    tensor.raw_data = data
    return ""


def _read(folder: Path, parts: tuple[str, ...], offset: int, count: int) -> bytes:
    """`count` bytes of a regular file below `folder`, opened part by part without following links or waiting."""
    held = [os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    try:
        for part in parts[:-1]:
            held.append(os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=held[-1]))
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        # asked before opening as well: opening a device alone can have an effect
        mode = os.stat(parts[-1], dir_fd=held[-1], follow_symlinks=False).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(*((errno.ELOOP, "a link") if stat.S_ISLNK(mode) else (errno.EINVAL, "no regular file")))
        held.append(os.open(parts[-1], flags, dir_fd=held[-1]))
        if not stat.S_ISREG(os.fstat(held[-1]).st_mode):
            raise OSError(errno.EINVAL, "no regular file")
        return _pread(held[-1], count, offset)
    finally:
        for descriptor in held:
            os.close(descriptor)


def _pread(descriptor: int, count: int, offset: int) -> bytes:
    """As `os.pread`, which gives less than 2 GiB at a time; short only at the end of the file."""
    first = os.pread(descriptor, count, offset)
    if len(first) in (0, count):
        return first
    data = bytearray(first)
    while len(data) < count and (part := os.pread(descriptor, count - len(data), offset + len(data))):
        data += part
    return bytes(data)
