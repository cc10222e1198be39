"""`load`: a model of any known format, by its suffix or content."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Protocol

from optimizer.errors import FormatError, LimitError, PluginError, StateError, UnknownNameError
from optimizer.importers.model import KEEP, ImportedModel, ImportLimits, ImportOptions, no_checkpoint
from optimizer.ir.dtype import DType
from optimizer.process.plugins import added_objects, plugins_named

READ_BYTES = 1 << 24
"""Read at once; asking for all that the limit allows would take that much memory for any file."""
Reader = Callable[[bytes, ImportOptions], ImportedModel]


@dataclass(frozen=True)
class Format:
    """One importable format; its module is loaded when first used."""

    name: str
    suffixes: tuple[str, ...]
    """Of files, in lower case, with their dots."""
    module: str
    """Holds `read(data, options)`."""
    begins: tuple[bytes, ...] = ()
    """What the bytes of a model begin with, by which one without a name is known."""

    def reader(self) -> Reader:
        try:
            read: Reader = import_module(self.module).read
        except (ImportError, AttributeError) as error:
            if self.name in FORMATS:
                raise
            raise PluginError(f"importer '{self.name}' cannot be loaded: {error}") from error
        return read


class Message(Protocol):
    """A protobuf message, such as `onnx.ModelProto`."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's name


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("json", (".json",), "optimizer.importers.json_graph"),
        Format("onnx", (".onnx", ".pb"), "optimizer.importers.onnx_file"),
    )
}


@cache
def formats() -> dict[str, Format]:
    """Our formats and those of the entry-point group `ttopt.importers`, whose objects are `Format`s, by name."""
    found = dict(FORMATS)
    for name, added in added_objects("ttopt.importers").items():
        if not isinstance(added, Format):
            raise StateError(f"'{name}' of ttopt.importers is {type(added).__name__}, not a Format")
        taken = {suffix: f.name for f in found.values() for suffix in f.suffixes}
        if added.name in found or taken.keys() & set(added.suffixes):
            raise StateError(f"model format '{added.name}' ({', '.join(added.suffixes)}) is registered twice")
        found[added.name] = added
    return found


def suffixes() -> tuple[str, ...]:
    """Of the files that are models."""
    return tuple(suffix for f in formats().values() for suffix in f.suffixes)


@plugins_named()
def load(
    source: str | PathLike[str] | bytes | Message,
    *,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    dims: Mapping[str, int] | None = None,
    limits: ImportLimits | None = None,
    activations_dtype: DType | str | None = None,
    weights_dtype: DType | str | None = None,
    name: str | None = None,
    fuse: bool = True,
    checkpoint: Callable[[], None] = no_checkpoint,
) -> ImportedModel:
    """Import a model from a path, from its bytes, or an `onnx.ModelProto`.

    `dims` gives sizes that the file names their numbers. `activations_dtype` (default bf16) is the type of every float
    activation, `weights_dtype` (default the same) that of every float parameter; `"keep"` leaves f32 and bf16 as the
    file has them. The graph's name is `name` or the one in the file, never the file's own, so that bytes and path give
    the same graph. One thing only a path gives: elements of small tensors that lie in another file of the model's
    folder. From bytes alone these are weights without data, and where elements are needed (a shape operand) the import
    says so. `checkpoint` is called all the time; what it raises ends the import. Raises FormatError, GraphError,
    ShapeError, DTypeError, LimitError or UnknownNameError, naming the node.
    """
    limits = limits or ImportLimits()
    activations = _dtype(activations_dtype or DType.BF16)
    weights = _dtype(weights_dtype) if weights_dtype else activations
    folder: Path | None = None
    place: Path | bytes
    if isinstance(source, bytes):
        data, suffix, place = source, "", source
    elif isinstance(source, str | PathLike):
        place = Path(source)
        folder = place.parent
        data, suffix = read_model_file(place, limits), place.suffix.lower()
    elif hasattr(source, "SerializeToString"):
        data = place = _serialized(source)
        suffix = ".onnx"
    else:
        taken = ("a path", "bytes", "an onnx.ModelProto")
        raise FormatError(f"load() cannot take an object of {type(source).__name__}", alternatives=taken)
    if len(data) > limits.max_bytes:
        raise LimitError(f"{len(data)} bytes exceed the limit of {limits.max_bytes}", limit=limits.max_bytes)
    options = ImportOptions(
        input_shapes or {}, dims or {}, limits, activations, weights, name, fuse, folder, checkpoint
    )
    found = format_of(data, suffix)
    try:
        return replace(found.reader()(data, options), source=place, options=replace(options, checkpoint=no_checkpoint))
    except FormatError as error:
        if suffix and suffix not in found.suffixes and error.node is None:
            known_as = [f"*{known}" for known in suffixes()]
            raise FormatError(
                f"{error}; files are known by their names", node=str(source), alternatives=known_as
            ) from error
        raise


def _serialized(message: Message) -> bytes:
    """A model in memory as its file would be; LimitError for one that no file can hold."""
    try:
        return message.SerializeToString()
    except ValueError as error:  # protobuf's own limit
        raise LimitError(f"the model cannot be serialized: {error}; save it and load it by its path") from error


def _dtype(given: DType | str) -> DType | str:
    if given == KEEP:
        return KEEP
    try:
        return DType(given)
    except ValueError:
        raise UnknownNameError("element type", str(given), [*DType, KEEP]) from None


def read_model_file(path: Path, limits: ImportLimits) -> bytes:
    """A file's bytes; FormatError when it cannot be read, LimitError when it is larger than a model may be."""
    if path.is_dir():
        raise FormatError("a folder, not the file of a model", node=str(path))
    try:
        size = path.stat().st_size
        if size > limits.max_bytes:
            raise LimitError(f"{path} has {size} bytes, the limit is {limits.max_bytes}", limit=limits.max_bytes)
        data = bytearray()
        with path.open("rb") as file:  # devices and pipes have the size 0
            while len(data) <= limits.max_bytes and (part := file.read(READ_BYTES)):
                data += part
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}") from error
    if len(data) > limits.max_bytes:
        raise LimitError(f"{path} has more than {limits.max_bytes} bytes", limit=limits.max_bytes)
    return bytes(data)


def format_of(data: bytes, suffix: str) -> Format:
    """The format of a model: by suffix, else by the first bytes: a JSON document starts with a bracket."""
    known = formats()
    for candidate in known.values():
        if suffix in candidate.suffixes:
            return candidate
    for candidate in known.values():
        if any(data.startswith(first) for first in candidate.begins):
            return candidate
    if data[:64].lstrip().startswith((b"{", b"[")):
        return FORMATS["json"]
    return FORMATS["onnx"]
