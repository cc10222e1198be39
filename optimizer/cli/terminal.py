"""What reaches a terminal: names come from models, so what steers a terminal is shown in them, not obeyed."""

from __future__ import annotations

import re
from typing import Any, TextIO

_HIDDEN = re.compile(r"[^\n\t -~]")
"""What may be hidden in a text: all but ASCII that prints, line breaks and tabs."""
ERASE_LINE = "\r\x1b[K"


def shown(text: str) -> str:
    r"""Control, format and other characters that do not print as JSON writes them: `\u001b` for ESC.

    Line breaks and tabs stay, as a text of several lines has them. A JSON document stays the same document.
    """
    return _HIDDEN.sub(_escaped, text)


def one_line(text: str) -> str:
    r"""A text that came from files as part of a line: its line breaks and tabs are shown too (`\n`)."""
    return shown(text).replace("\n", "\\n").replace("\t", "\\t")


def with_shown_names(record: Any) -> Any:
    """A record of JSON whose texts and keys are each one line that steers nothing."""
    if isinstance(record, dict):
        return {one_line(k) if isinstance(k, str) else k: with_shown_names(v) for k, v in record.items()}
    if isinstance(record, list | tuple):
        return [with_shown_names(v) for v in record]
    return one_line(record) if isinstance(record, str) else record


class ShownText:
    """A text stream whose writer needs not know where its words came from."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(shown(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def redraw(stream: TextIO, line: str) -> None:
    """Put `line` in the place of a terminal's last one."""
    below = stream.stream if isinstance(stream, ShownText) else stream
    below.write(ERASE_LINE + one_line(line))
    below.flush()


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    if character.isprintable():
        return character
    utf16 = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{utf16[i : i + 4]}" for i in range(0, len(utf16), 4))
