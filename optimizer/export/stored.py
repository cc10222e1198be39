"""Reading documents back, whoever wrote them: bounded, strict JSON, checked against the models of `schema.py`."""

from __future__ import annotations

import json
import re
from collections import Counter
from math import isfinite
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from optimizer.errors import FormatError, GraphError, LimitError
from optimizer.export.annotated_json import FILE_NAME
from optimizer.export.schema import AnnotatedGraph, PlacedGraph
from optimizer.wording.documents import other_kind

MAX_DEPTH = 100
"""Deepest nesting of a document that is read back; ours have about ten levels."""
MAX_DIGITS = 30
"""Longest whole number of a document that is read back."""
MAX_BYTES = 1 << 29
"""Size of the largest document that is read back; that of a graph of 1000 ops has about 1.5 MB."""
_LONG_NUMBER, _LONG_EXPONENT = re.compile(rb"\d{%d}" % (MAX_DIGITS + 1)), re.compile(rb"[eE]\+?\d{3}|\d{300}")
"""Without these every number can be read as it is, which is faster."""
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_annotated(source: Path | bytes) -> dict[str, Any]:
    """A `graph.json`, absent fields filled in: at a path, in a folder, or its bytes. InputError says what is wrong;
    bytes are called `body` there."""
    return _read(source, AnnotatedGraph).model_dump(by_alias=True)


def read_placed(source: Path | bytes) -> PlacedGraph:
    """A graph with layouts, ours or foreign, wherever it is, as `read_annotated` does."""
    return _read(source, PlacedGraph)


def _read[Model: PlacedGraph](source: Path | bytes, model: type[Model]) -> Model:
    if isinstance(source, bytes):
        data, place = _within_limit(source, "body"), "body"
    else:
        file = source / FILE_NAME if source.is_dir() else source
        data, place = _bytes(file), str(file)
    record = _decoded(data, place)
    _check_depth(record, place)
    try:
        document = model.model_validate(record, strict=True)
    except ValidationError as error:
        if (other := other_kind(record, "check")) is not None and "device" not in record:
            raise FormatError(f"not a result but {other}", node=place) from None
        raise FormatError(f"not an annotated graph: {first_fault(error)}", node=place) from error
    _check_references(document)
    return document


def _bytes(file: Path) -> bytes:
    """The document's bytes, as far as it may be long; a device has no size to ask for."""
    if file.suffix.lower() in (".onnx", ".pb"):
        raise FormatError("a model, not a result: `ttopt optimize` makes one of it", node=str(file))
    try:
        with file.open("rb") as source:
            data = source.read(MAX_BYTES + 1)
    except OSError as error:
        raise FormatError(f"cannot read a result: {error.strerror}", node=str(file)) from error
    return _within_limit(data, str(file))


def _within_limit(data: bytes, place: str) -> bytes:
    if len(data) > MAX_BYTES:
        raise LimitError(f"a result has at most {MAX_BYTES} bytes", node=place, limit=MAX_BYTES)
    return data


def _decoded(data: bytes, place: str) -> Any:
    """JSON without what other programs would read otherwise: a key twice, numbers without end, half characters."""
    try:
        record = json.loads(
            data,
            parse_int=_whole if _LONG_NUMBER.search(data) else None,
            parse_float=_finite if _LONG_EXPONENT.search(data) else None,
            parse_constant=_no_number,
            object_pairs_hook=_unique,
        )
        if _SURROGATE.search(data):
            json.dumps(record, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not a JSON document: {error}", node=place) from error
    return record


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the name {twice[:80]!r} appears twice in one object")
    return record


def _whole(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a whole number has {len(text)} digits, at most {MAX_DIGITS} are read")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text[:MAX_DIGITS]} is no finite number")
    return number


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON number")


def _check_depth(record: Any, place: str) -> None:
    nests = {dict, list}
    level = [record] if type(record) in nests else []
    for _ in range(MAX_DEPTH):
        children = (item.values() if type(item) is dict else item for item in level)
        level = [child for items in children for child in items if type(child) in nests]
        if not level:
            return
    raise FormatError(f"nested more than {MAX_DEPTH} levels deep", node=place, limit=MAX_DEPTH)


def _check_references(document: PlacedGraph) -> None:
    """Every id that an op or the model mentions is in `values`, or GraphError."""
    named = [("model", [*document.model.inputs, *document.model.outputs])]
    named += [(op.id, [*op.inputs, *op.outputs]) for op in document.ops]
    for place, ids in named:
        for value_id in ids:
            if value_id not in document.values:
                raise GraphError(f"value '{value_id}' is not described in 'values'", node=place)


def first_fault(error: ValidationError) -> str:
    """Place and message of a document's first fault, and how many more there are."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    place = ".".join(str(part) for part in faults[0]["loc"]) or "document"
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{place}: {faults[0]['msg']}{more}"
