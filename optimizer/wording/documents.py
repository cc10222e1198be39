"""What a JSON document is by its fields, said to somebody who gave it to a command that reads another kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def other_kind(document: Any, wanted: str) -> str | None:
    """`a tile DAG, which `ttopt kernel` reads`, where the document is plainly of another kind than the command's.

    `wanted` is the command that was to read it: `kernel`, `asm` or `optimize`. None where the document is that one's,
    or nobody's.
    """
    for command, kind, mark in _KINDS:
        if any(mark <= record.keys() for record in _records(document)):
            return None if command == wanted else f"{kind}, which `ttopt {command}` reads"
    return None


_KINDS = (
    ("kernel", "a tile DAG", {"yield"}),
    ("asm", "a GPU program", {"instructions"}),
    ("asm", "a GPU program", {"program"}),
    ("optimize", "a graph", {"model", "ops"}),
)
"""Command, what it reads, fields that only such a document has."""


def _records(document: Any) -> list[Mapping[str, Any]]:
    """The document, and the first of its cases."""
    found = [document] if isinstance(document, Mapping) else []
    cases = found[0].get("cases") if found else document
    if isinstance(cases, list) and cases and isinstance(cases[0], Mapping):
        found.append(cases[0])
    return found
