"""Reading documents back, whoever wrote them: bounded, strict JSON, checked against the models of `schema.py`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from optimizer.device import DeviceSpec
from optimizer.errors import FormatError, GraphError, LimitError
from optimizer.export.annotated_json import FILE_NAME
from optimizer.export.schema import AnnotatedGraph, PlacedGraph
from optimizer.options import Options
from optimizer.process.json_document import decoded, read_bytes
from optimizer.wording.documents import other_kind

MAX_BYTES = 1 << 29
"""Size of the largest document that is read back; that of a graph of 1000 ops has about 1.5 MB."""


def read_annotated(source: Path | bytes) -> AnnotatedGraph:
    """A `graph.json`: at a path, in a folder, or its bytes. InputError says what is wrong; bytes are called `body`
    there."""
    return _read(source, AnnotatedGraph)


def read_document(source: Path | bytes) -> dict[str, Any]:
    """The same as plain data, absent fields filled in."""
    return read_annotated(source).model_dump(by_alias=True)


def read_placed(source: Path | bytes) -> PlacedGraph:
    """A graph with layouts, ours or foreign, wherever it is, as `read_annotated` does."""
    return _read(source, PlacedGraph)


def _read[Model: PlacedGraph](source: Path | bytes, model: type[Model]) -> Model:
    if isinstance(source, bytes):
        data, place = source, "body"
    else:
        file = source / FILE_NAME if source.is_dir() else source
        data, place = _bytes(file), str(file)
    if len(data) > MAX_BYTES:
        raise LimitError(f"a result has at most {MAX_BYTES} bytes", node=place, limit=MAX_BYTES)
    record = decoded(data, place)
    try:
        document = model.model_validate(record, strict=True)
    except ValidationError as error:
        if (other := other_kind(record, "check")) is not None and "device" not in record:
            raise FormatError(f"not a result but {other}", node=place) from None
        raise FormatError(f"not an annotated graph: {first_fault(error)}", node=place) from error
    DeviceSpec.from_json(document.device)
    Options.stated(document.options)
    _check_references(document)
    return document


def _bytes(file: Path) -> bytes:
    if file.suffix.lower() in (".onnx", ".pb"):
        raise FormatError("a model, not a result: `ttopt optimize` makes one of it", node=str(file))
    try:
        return read_bytes(file, MAX_BYTES)
    except OSError as error:
        raise FormatError(f"cannot read a result: {error.strerror}", node=str(file)) from error


def _check_references(document: PlacedGraph) -> None:
    """Every value and op that a part of the document mentions is in it, and outputs have one name each; GraphError."""
    ops, names = {op.id for op in document.ops}, document.model.output_names
    if names is not None and not len(set(names)) == len(names) == len(document.model.outputs):
        raise GraphError(f"'output_names' must name {len(document.model.outputs)} outputs, each once", node="model")
    for place, known, ids in _references(document, ops):
        for name in ids:
            if name not in known:
                missing = "no op has the id" if known is ops else "no description in 'values' of"
                raise GraphError(f"{missing} '{name}'", node=place)


def _references(document: PlacedGraph, ops: Collection[str]) -> Iterator[tuple[str, Collection[str], Iterable[str]]]:
    """(place, what is known, what is named there) of everything that names ops or values."""
    values = document.values
    yield "model", values, (*document.model.inputs, *document.model.outputs)
    for op in document.ops:
        yield op.id, values, (*op.inputs, *op.outputs)
    for chain in document.chains:
        yield f"chain {chain.id}", ops, chain.ops
    yield "reservations", values, (r.value for r in document.reservations)
    for region in document.fused_kernels:
        yield f"kernel {region.kernel}", ops, (*region.ops, region.place)
        yield f"kernel {region.kernel}", values, (*region.inputs, *region.outputs, *region.multicast)
    for refused in document.refused_kernels:
        yield "refused_kernels", ops, refused.ops


def first_fault(error: ValidationError) -> str:
    """Place and message of a document's first fault, and how many more there are."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    place = ".".join(str(part) for part in faults[0]["loc"]) or "document"
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{place}: {faults[0]['msg']}{more}"
