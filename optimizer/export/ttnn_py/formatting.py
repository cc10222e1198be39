"""Python statements laid out as `ruff format` would, at 120 columns.

A call that does not fit has one argument per line and a trailing comma, which the formatter keeps as it is.
Statements are given as one line ending in a bracket; their strings must be quoted by `ttnn_calls.text.quoted`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

LINE_LENGTH = 120
INDENT = "    "

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')


@cache
def part(name: str) -> str:
    """A part of the emitted module that is the same in every program: a file of `parts/`."""
    return files(__package__).joinpath("parts", f"{name}.txt").read_text("utf-8").rstrip("\n")


def laid_out(text: str, depth: int = 0, tail: str = "") -> str:
    """A statement or argument at an indentation of `depth` levels; `tail` is what follows on its last line."""
    line = INDENT * depth + text + tail
    if len(line) <= LINE_LENGTH:
        return line
    opening = _last_group(text)
    if opening is None:
        return line
    head, body, closing = text[: opening + 1], text[opening + 1 : -1], text[-1]
    if closing == "]" and text[opening - 1 : opening] == ")":  # a part of a call's result: the call is what is too long
        return laid_out(text[:opening], depth, text[opening:] + tail)
    subscript = closing == "]" and opening > 0 and (text[opening - 1].isalnum() or text[opening - 1] in "_)]")
    parts = list(_arguments(body))
    if not parts:
        return line
    inner = [laid_out(part, depth + 1, "" if subscript else ",") for part in parts]
    return "\n".join([INDENT * depth + head, *inner, INDENT * depth + closing + tail])


def without_strings(text: str) -> str:
    """The text, its strings overwritten: they come from users' files and may hold any characters."""
    return _STRING.sub(lambda found: "\0" * len(found[0]), text)


def _last_group(text: str) -> int | None:
    """Where the bracket opens that the text's last character closes; None when it closes none."""
    stack: list[int] = []
    last = None
    for at, char in enumerate(without_strings(text)):
        if char in _CLOSING:
            stack.append(at)
        elif char in ")]}":
            last = stack.pop() if stack else None
            if at == len(text) - 1:
                return last
    return None


def _arguments(body: str) -> Iterator[str]:
    """The parts between top-level commas."""
    level, start = 0, 0
    for at, char in enumerate(without_strings(body)):
        if char in _CLOSING:
            level += 1
        elif char in ")]}":
            level -= 1
        elif char == "," and level == 0:
            yield body[start:at].strip()
            start = at + 1
    rest = body[start:].strip()
    if rest:
        yield rest


def indented(block: str, depth: int = 1) -> str:
    """A block of statements one or more levels further in (no string in them spans lines)."""
    return "\n".join(INDENT * depth + line if line else line for line in block.split("\n"))


def comment(text: str, depth: int = 0) -> str:
    """A comment line made of text from anywhere: one line, printable, no longer than a line may be."""
    room = LINE_LENGTH - len(INDENT) * depth - len("# ")
    shown = plain(text)
    return INDENT * depth + "# " + (shown if len(shown) <= room else shown[: room - 3] + "...")


def plain(text: str) -> str:
    """Text as one line of printable characters, safe in a comment."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def docstring_text(text: str) -> str:
    """Text that may stand inside a docstring."""
    return plain(text).replace("\\", "/").replace('"', "'")
