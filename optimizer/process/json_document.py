"""JSON documents, whoever wrote them: the text is read strictly, and every value is asked for with its type.

record = decoded(data, "body")                               FormatError: body: not JSON: NaN is no JSON number
cases = read(path).fields({"cases"})["cases"].items()        FormatError: cases[3].ops[2].args: a list is due, not 7

What programs read differently is refused for every reader at once: a key twice, numbers that are not finite or beyond
64 bits, halves of characters, nesting without end.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from optimizer.errors import FormatError, LimitError

MAX_BYTES = 32 << 20
"""Of a file of kernels or of one row: a kernel of 30,000 instructions has a tenth of it."""
MAX_DEPTH = 100
"""Levels of lists and objects; ours have about ten."""
MAX_CASES = 1_000
"""Of a document."""
MAX_NAME = 10_000
"""Characters of a string."""
LARGEST_INTEGER = 1 << 53
"""Of options and figures: beyond it doubles, and so most readers of JSON, are not exact."""
LEAST_WHOLE, LARGEST_WHOLE = -(1 << 63), (1 << 64) - 1
"""Of any whole number: what 64 bits hold, with a sign or without."""
FLOAT32_MAX = 3.4028234663852886e38
DOCUMENT_FIELDS = ("cases", "format")
"""Of a document with cases; `format` names it for its readers."""
SHOWN = 60
"""Characters of a value in messages."""
_STRANGE = re.compile(r"\d{19}|[eE]\+?\d{3}|NaN|Infinity")
"""Without these every number is one that may stand there, and need not be looked at."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """A file's bytes, as far as it may be long; a device has no size to ask for. LimitError beyond; OSError."""
    with path.open("rb") as file:
        found = file.read(limit + 1)
    if len(found) > limit:
        raise LimitError(f"larger than {limit >> 20} MiB", node=str(path), limit=limit)
    return found


def read_text(path: Path) -> str:
    """A file in UTF-8. FormatError if it is no text, LimitError if it is larger than `MAX_BYTES`; OSError."""
    try:
        return read_bytes(path, MAX_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"no text: {error}", node=str(path)) from None


def decoded(text: str | bytes, place: str | None = None, hint: str = "") -> Any:
    """The value of a JSON text; bytes may begin with a byte order mark. FormatError naming `place` if it is none."""
    try:
        text = text if isinstance(text, str) else text.decode("utf-8-sig")
        value = json.loads(text, object_pairs_hook=_object)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise FormatError("not JSON that can be read: nested too deeply", node=place, limit=MAX_DEPTH) from None
    except ValueError as error:
        raise FormatError(f"not JSON: {error}{hint}", node=place) from None
    _check_depth(value, place)
    if _STRANGE.search(text):
        _check_numbers(value, place)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f"an object has {_shown(counts.most_common(1)[0][0])} twice")
    return found


def _check_depth(value: Any, place: str | None) -> None:
    nests = {dict, list}
    level = [value] if type(value) in nests else []
    for _ in range(MAX_DEPTH):
        children = (item.values() if type(item) is dict else item for item in level)
        level = [child for items in children for child in items if type(child) in nests]
        if not level:
            return
    raise FormatError(f"nested more than {MAX_DEPTH} levels deep", node=place, limit=MAX_DEPTH)


def _check_numbers(value: Any, place: str | None) -> None:
    waiting = [("", value)]
    while waiting:
        at, item = waiting.pop()
        if isinstance(item, dict):
            waiting += [(f"{at}.{_key(key)}" if at else _key(key), inner) for key, inner in item.items()]
        elif isinstance(item, list):
            waiting += [(f"{at}[{n}]", inner) for n, inner in enumerate(item)]
        elif isinstance(item, float) and not isfinite(item):
            raise FormatError(f"{at or 'the document'}: {json.dumps(item)} is no JSON number", node=place)
        elif isinstance(item, int) and not LEAST_WHOLE <= item <= LARGEST_WHOLE:
            raise FormatError(
                f"{at or 'the document'}: {_shown(item)} is beyond 64 bits", node=place, limit=LARGEST_WHOLE
            )


def read(path: Path, hint: str = "") -> Node:
    """The document of a file. FormatError if it is not JSON."""
    return Node(decoded(read_text(path), str(path), hint), "")


def records(document: Any) -> list[Node]:
    """The cases of a document, decoded or not: it is their list, or has that under `cases`. FormatError if neither."""
    node = document if isinstance(document, Node) else Node(document, "")
    if not isinstance(node.value, Mapping):
        return Node(node.value, "cases").items(MAX_CASES)
    return node.fields(DOCUMENT_FIELDS, ("cases",))["cases"].items(MAX_CASES)


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

    def items(self, most: int | None = None, exactly: int | None = None) -> list[Node]:
        """The elements of a list."""
        if not isinstance(self.value, list | tuple):
            raise self._due("a list")
        if exactly is not None and len(self.value) != exactly:
            raise self._due(f"a list of {exactly}")
        if most is not None and len(self.value) > most:
            raise LimitError(
                f"{len(self.value):,} elements, {most:,} are the limit",
                node=self._name,
                limit=most,
                alternatives=("several documents",),
            )
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
