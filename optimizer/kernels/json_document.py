"""JSON documents of kernels, read strictly: every value is asked for with its type, and errors name its place.

cases = read(path).fields({"cases"})["cases"].items()       FormatError: cases[3].ops[2].args: a list is due, not 7
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from optimizer.errors import FormatError, LimitError

MAX_BYTES = 32 << 20
"""Of a file: a kernel of 100,000 instructions has a third of it."""
MAX_NAME = 10_000
"""Characters of a string."""
DOCUMENT_FIELDS = ("cases", "format")
"""Of a document with cases; `format` names it for its readers."""
SHOWN = 60
"""Characters of a value in messages."""


def read_text(path: Path) -> str:
    """A file in UTF-8. FormatError if it is no text, LimitError if it is larger than `MAX_BYTES`; OSError."""
    with path.open("rb") as file:
        found = file.read(MAX_BYTES + 1)
    if len(found) > MAX_BYTES:
        raise LimitError(f"larger than {MAX_BYTES >> 20} MiB", node=str(path), limit=MAX_BYTES)
    try:
        return found.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"no text: {error}", node=str(path)) from None


def decode(text: str) -> Any:
    """The value of a JSON text. ValueError also for NaN, infinities and keys that an object has twice."""
    return json.loads(text, parse_constant=_no_number, object_pairs_hook=_object)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f"an object has {_shown(counts.most_common(1)[0][0])} twice")
    return found


def read(path: Path, hint: str = "") -> Node:
    """The document of a file. FormatError if it is not JSON."""
    text = read_text(path)
    try:
        return Node(decode(text), "")
    except RecursionError:
        raise FormatError("not JSON that can be read: nested too deeply", node=str(path)) from None
    except ValueError as error:
        raise FormatError(f"not JSON: {error}{hint}", node=str(path)) from None


def records(document: Any) -> list[Node]:
    """The cases of a document, decoded or not: it is their list, or has that under `cases`. FormatError if neither."""
    node = document if isinstance(document, Node) else Node(document, "")
    if not isinstance(node.value, Mapping):
        return Node(node.value, "cases").items()
    return node.fields(DOCUMENT_FIELDS, ("cases",))["cases"].items()


@dataclass(frozen=True)
class Node:
    """A value of a document, and where it stands in it."""

    value: Any
    place: str

    @property
    def is_null(self) -> bool:
        return self.value is None

    @property
    def _name(self) -> str:
        return self.place or "the document"

    def error(self, message: str, limit: int | float | None = None, alternatives: Collection[str] = ()) -> FormatError:
        """What is wrong with this value."""
        return FormatError(message, node=self._name, limit=limit, alternatives=alternatives)

    def _due(self, what: str) -> FormatError:
        return self.error(f"{what} is due, not {_shown(self.value)}")

    def fields(self, known: Collection[str], required: Collection[str] = ()) -> dict[str, Node]:
        """The fields of an object. `known`: all that it may have."""
        found = self.any_fields(required)
        for key in found:
            if key not in known:
                raise self.error(f"unknown field {_shown(key)}", alternatives=sorted(known))
        return found

    def any_fields(self, required: Collection[str] = ()) -> dict[str, Node]:
        """The fields of an object that may have others than are read."""
        if not isinstance(self.value, Mapping):
            raise self._due("an object")
        missing = [key for key in required if key not in self.value]
        if missing:
            raise self.error(f"field '{missing[0]}' is missing")
        dot = "." if self.place else ""
        return {str(key): Node(item, f"{self.place}{dot}{_key(str(key))}") for key, item in self.value.items()}

    def items(self, most: int | None = None) -> list[Node]:
        """The elements of a list."""
        if not isinstance(self.value, list | tuple):
            raise self._due("a list")
        if most is not None and len(self.value) > most:
            raise LimitError(f"{len(self.value)} elements, {most} are the limit", node=self._name, limit=most)
        return [Node(item, f"{self.place}[{n}]") for n, item in enumerate(self.value)]

    def text(self, choices: Collection[str] | None = None) -> str:
        """A string that can be written as UTF-8."""
        if not isinstance(self.value, str):
            raise self._due("a string" if choices is None else " or ".join(map(_shown, choices)))
        if choices is not None and self.value not in choices:
            raise self._due(" or ".join(map(_shown, choices)))
        if len(self.value) > MAX_NAME:
            raise LimitError(f"a string of {len(self.value)} characters", node=self._name, limit=MAX_NAME)
        try:
            self.value.encode()
        except UnicodeEncodeError:
            raise self.error("a string with half of a surrogate pair") from None
        return self.value

    def integer(self, low: int, high: int) -> int:
        """A whole number within limits, both included; no float, no boolean."""
        if type(self.value) is not int:
            raise self._due("a whole number")
        if not low <= self.value <= high:
            raise self.error(f"a number from {low} to {high} is due, not {_shown(self.value)}", limit=high)
        return self.value

    def number(self) -> float:
        """A number that float32 can hold."""
        if type(self.value) not in (int, float):
            raise self._due("a number")
        if not abs(self.value) <= FLOAT32_MAX:
            raise self.error(f"{_shown(self.value)} is beyond float32", limit=FLOAT32_MAX)
        return float(self.value)

    def boolean(self) -> bool:
        if not isinstance(self.value, bool):
            raise self._due("true or false")
        return self.value


FLOAT32_MAX = 3.4028234663852886e38


def _key(key: str) -> str:
    """A key as part of a place."""
    return key if key.isidentifier() and len(key) <= SHOWN else _shown(key)


def _shown(value: Any) -> str:
    """A value in a message: its JSON, cut."""
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, Mapping):
        return f"an object of {len(value)} fields"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return f"a number of {value.bit_length()} bits"
    text = json.dumps(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
