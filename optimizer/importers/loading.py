"""`load`: a model of any known format, by its suffix or content."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path

from optimizer.errors import FormatError, LimitError, UnknownNameError
from optimizer.importers.model import KEEP, ImportedModel, ImportLimits, ImportOptions
from optimizer.ir.dtype import DType

READ_BYTES = 1 << 24
"""Read at once; asking for all that the limit allows would take that much memory for any file."""
Reader = Callable[[bytes, ImportOptions], ImportedModel]


@dataclass(frozen=True)
class Format:
    """One importable format; its module is loaded when first used."""

    name: str
    suffixes: tuple[str, ...]
    module: str
    """Holds `read(data, options)`."""

    def reader(self) -> Reader:
        read: Reader = import_module(self.module).read
        return read


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("json", (".json",), "optimizer.importers.json_graph"),
        Format("onnx", (".onnx", ".pb"), "optimizer.importers.onnx_file"),
    )
}


def load(
    source: str | PathLike[str] | bytes,
    *,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    limits: ImportLimits | None = None,
    activations_dtype: DType | str | None = None,
    weights_dtype: DType | str | None = None,
    name: str | None = None,
    fuse: bool = True,
    checkpoint: Callable[[], None] = lambda: None,
) -> ImportedModel:
    """Import a model from a path or from its bytes.

    `activations_dtype` (default bf16) is the type of every float activation, `weights_dtype` (default the
    same) that of every float parameter; `"keep"` leaves f32 and bf16 as the file has them. The graph's name is
    `name` or the one in the file, never the file's own, so that bytes and path give the same graph. One thing only
    a path gives: elements of small tensors that lie in another file of the model's folder. From bytes alone these
    are weights without data, and where elements are needed (a shape operand) the import says so. `checkpoint` is
    called all the time; what it raises ends the import. Raises FormatError, GraphError, ShapeError, DTypeError,
    LimitError or UnknownNameError, naming the node.
    """
    limits = limits or ImportLimits()
    activations = _dtype(activations_dtype or DType.BF16)
    weights = _dtype(weights_dtype) if weights_dtype else activations
    folder: Path | None = None
    if isinstance(source, bytes):
        data, suffix = source, ""
    else:
        path = Path(source)
        folder = path.parent
        data, suffix = read_model_file(path, limits), path.suffix.lower()
    if len(data) > limits.max_bytes:
        raise LimitError(f"{len(data)} bytes exceed the limit of {limits.max_bytes}", limit=limits.max_bytes)
    options = ImportOptions(input_shapes or {}, limits, activations, weights, name, fuse, folder, checkpoint)
    return _format(data, suffix).reader()(data, options)


def _dtype(given: DType | str) -> DType | str:
    if given == KEEP:
        return KEEP
    try:
        return DType(given)
    except ValueError:
        raise UnknownNameError("element type", str(given), [*DType, KEEP]) from None


def read_model_file(path: Path, limits: ImportLimits) -> bytes:
    """A file's bytes; FormatError when it cannot be read, LimitError when it is larger than a model may be."""
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


def _format(data: bytes, suffix: str) -> Format:
    """By suffix, else by the first character: a JSON document starts with a bracket."""
    for candidate in FORMATS.values():
        if suffix in candidate.suffixes:
            return candidate
    if data[:64].lstrip().startswith((b"{", b"[")):
        return FORMATS["json"]
    return FORMATS["onnx"]
