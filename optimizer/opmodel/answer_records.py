"""One kept answer: who gave it, to which question, and the seal that shows whether it is still what was written."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, astuple, dataclass
from typing import Any

from optimizer.errors import FormatError
from optimizer.ir.sizes import is_whole
from optimizer.process.json_document import LARGEST_INTEGER

SCHEMA_VERSION = 2
_DIGEST_BYTES = 16


@dataclass(frozen=True, order=True)
class Context:
    """Who answered. Answers of different contexts never mix."""

    version: str
    """Of the backend, e.g. ttnn's."""
    build: str
    """Which of the builds with that version."""
    board: str
    l1_small_bytes: int
    source: str
    """`mock` or `real`."""


def canonical(question: Any) -> str:
    """The text of a question: equal questions have equal texts."""
    return json.dumps(question, separators=(",", ":"), sort_keys=True)


def key_of(text: str) -> bytes:
    return _digest(text)


def seal_of(context: Context, question: str, answer: str) -> bytes:
    """A checksum of all that an answer means: a changed byte anywhere gives another one."""
    return _digest(json.dumps([SCHEMA_VERSION, *astuple(context), question, answer]))


def exported(context: Context, question: str, answer: str) -> str:
    """The line of an export."""
    seal = seal_of(context, question, answer).hex()
    words = {"question": json.loads(question), "answer": json.loads(answer)}
    return json.dumps({"schema": SCHEMA_VERSION, **asdict(context), **words, "seal": seal})


def imported(record: dict[str, Any], place: str) -> tuple[Context, str, str]:
    """Context, question and answer of a line; FormatError names `place` where it is none that was exported."""
    words = {"version": str, "build": str, "board": str, "l1_small_bytes": int, "source": str}
    types = {**words, "question": dict, "answer": dict, "seal": str}
    if record.get("schema") != SCHEMA_VERSION:
        raise FormatError(f"'schema' must be {SCHEMA_VERSION}, got {record.get('schema')!r}", node=place)
    for name, kind in types.items():
        if not isinstance(record.get(name), kind):
            raise FormatError(f"'{name}' must be {kind.__name__}, got {record.get(name)!r}", node=place)
    if not isinstance(record["answer"].get("valid"), bool):
        raise FormatError("'answer' has no 'valid'", node=place)
    if not is_whole(record["l1_small_bytes"], 0, LARGEST_INTEGER):
        raise FormatError(f"'l1_small_bytes' must be a count of bytes, got {record['l1_small_bytes']}", node=place)
    context = Context(**{name: record[name] for name in words})
    question, answer = canonical(record["question"]), canonical(record["answer"])
    if record["seal"] != seal_of(context, question, answer).hex():
        raise FormatError("the line was changed after its export: its seal does not fit", node=place)
    return context, question, answer


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).digest()
