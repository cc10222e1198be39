"""Prints the installed ttnn's signatures and enumerations as JSON: what `signatures.json` beside it holds.

    python record.py < names.json > signatures.json

`names.json` has lists `functions`, `types` and `enums` of dotted names below `ttnn`. nanobind keeps the text of
every overload and the values of its defaults in `__nb_signature__`; functions written in Python have `inspect`.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import json
import os
import re
import sys
from typing import Any

POSITIONAL, KEYWORD = "positional", "keyword"
_QUALIFIED = re.compile(r"(?:[A-Za-z_][A-Za-z_0-9]*\.)+(?=[A-Za-z_])")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
WRAPPED = ("prepare_conv_weights", "prepare_conv_bias", "prepare_conv_transpose2d_weights",
           "prepare_conv_transpose2d_bias")  # fmt: skip
"""Python functions that pass all their arguments on to one of `ttnn._ttnn.operations.conv`."""


def split(text: str, separator: str) -> list[str]:
    """The parts of a text between separators that stand in no bracket and no string."""
    parts, depth, start, quoted = [], 0, 0, False
    for at, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == separator and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def default_text(value: Any) -> str:
    """A default as text: numbers, strings, None and lists as Python writes them, anything else by its name."""
    if isinstance(value, (bool, int, float, str, list, tuple, type(None))):
        return repr(value)
    return _ADDRESS.sub("", str(value))


def overload(text: str, defaults: Any) -> list[list[Any]]:
    """[name, kind, annotation, default text or None] per parameter of one overload."""
    inner = text[text.index("(") + 1 :]
    depth = 1
    for at, char in enumerate(inner):
        depth += (char in "([{") - (char in ")]}")
        if depth == 0:
            inner = inner[:at]
            break
    kind, found = POSITIONAL, []
    for part in split(inner, ","):
        if part == "*":
            kind = KEYWORD
        if part in ("self", "*", "/"):
            continue
        name, _, rest = part.partition(":")
        annotation, _, default = rest.partition("=")
        chosen = None if not default else default_text(defaults[int(default.strip().removeprefix("\\"))])
        found.append([name.strip(), kind, _QUALIFIED.sub("", annotation).strip(), chosen])
    return found


def signatures(function: Any) -> list[list[list[Any]]]:
    """The overloads of a function or a type, in the order in which nanobind tries them."""
    target = function.__init__ if isinstance(function, type) else getattr(function, "function", function)
    kept = getattr(target, "__nb_signature__", None) or getattr(type(target).__call__, "__nb_signature__", None)
    if kept:
        return [overload(entry[0], entry[2]) for entry in kept]
    found = []
    for parameter in inspect.signature(function if isinstance(function, type) else target).parameters.values():
        kind = KEYWORD if parameter.kind is parameter.KEYWORD_ONLY else POSITIONAL
        default = None if parameter.default is parameter.empty else default_text(parameter.default)
        annotation = "" if parameter.annotation is parameter.empty else str(parameter.annotation)
        found.append([parameter.name, kind, _QUALIFIED.sub("", annotation), default])
    return [found]


def recorded(names: dict[str, list[str]]) -> dict[str, Any]:
    """Signatures of the named functions and types and members of the named enumerations."""
    import ttnn

    def found(name: str) -> Any:
        target: Any = ttnn._ttnn.operations.conv if name in WRAPPED else ttnn
        for part in name.split("."):
            target = getattr(target, part)
        return target

    return {
        "source": f"__nb_signature__ of the wheel ttnn {importlib.metadata.version('ttnn')}",
        "enums": {name: [member.name for member in found(name)] for name in names["enums"]},
        "types": {name: signatures(found(name)) for name in names["types"]},
        "functions": {name: signatures(found(name)) for name in names["functions"]},
    }


def text_of(record: dict[str, Any]) -> str:
    """The record with one overload, or one enumeration, per line."""
    lines = [f'{{"source": {json.dumps(record["source"])}']
    for section in ("enums", "types", "functions"):
        rows = []
        for name, value in record[section].items():
            if section == "enums":
                rows.append(f"  {json.dumps(name)}: {json.dumps(value)}")
            else:
                rows.append(f"  {json.dumps(name)}: [\n    " + ",\n    ".join(map(json.dumps, value)) + "]")
        lines.append(f'"{section}": {{\n' + ",\n".join(rows) + "}")
    return ",\n".join(lines) + "}\n"


if __name__ == "__main__":
    os.environ.setdefault("LOGURU_LEVEL", "ERROR")
    sys.stdout.write(text_of(recorded(json.load(sys.stdin))))
