"""Names from users' files as names in our own files: identifiers of emitted languages, and names of folders.

Texts from anywhere (tensors, ops, cases) become names through an `Identifiers`, which gives each its own and never one
that its language or the emitted file uses itself. Letters, digits and underscores of ASCII are all that is left, so no
language's idea of equal names (Python's normal form KC, file systems without case) can make two of them one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

LONGEST = 50
"""Characters of an identifier that is made; longer names keep their end, which tells them apart."""
LONGEST_COMMENT = 200
"""Characters of a text in a comment."""
_OTHER = re.compile(r"[^0-9A-Za-z_]")
_UNDERSCORES = re.compile(r"_+")
_RISKY = re.compile(r"\*(?=/)|/(?=\*)|\?(?=\?)")
"""Characters that must not meet what follows them: ends and beginnings of comments, trigraphs."""


def resembling(text: str, before_digit: str = "v_", longest: int = LONGEST) -> str:
    """Letters, digits and single underscores that resemble a text: `/layer1/conv1/Conv` -> `layer1_conv1_Conv`.

    What would begin with a digit, or be empty, begins with `before_digit`.
    """
    name = _UNDERSCORES.sub("_", _OTHER.sub("_", text)).strip("_")
    if len(name) > longest:
        name = name[-longest:].partition("_")[2] or name[-longest:]
    if not name or name[0].isdigit():
        name = f"{before_digit}{name}".rstrip("_")
    return name


@dataclass(frozen=True)
class Spelling:
    """What the names of one language look like."""

    kept: re.Pattern[str]
    """Whole names that stay as they are; others are made to resemble them."""
    taken: Callable[[str], bool]
    """Whether the language, or the file itself, uses a name already."""
    before_digit: str = "v_"
    same: Callable[[str], str] = str
    """Names that the language takes for one are equal after this."""


class Identifiers:
    """Hands out names of one scope. Two different names never get the same one; the order of asking decides who keeps
    its own."""

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        self._used: set[str] = set()
        self._next: dict[str, int] = {}
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The identifier of a name: the same for the same name."""
        if name not in self._known:
            self._known[name] = self.fresh(name)
        return self._known[name]

    def fresh(self, text: str) -> str:
        """A name that was not handed out before: the text's own, else with `_1`, `_2`, ..."""
        spelling = self._spelling
        keeps = len(text) <= LONGEST and spelling.kept.fullmatch(text) is not None
        stem = text if keeps else resembling(text, spelling.before_digit)
        name = stem
        while spelling.same(name) in self._used or spelling.taken(name):
            self._next[stem] = self._next.get(stem, 0) + 1
            name = f"{stem}_{self._next[stem]}"
        self._used.add(spelling.same(name))
        return name


_DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?")
FILE_NAMES = Spelling(
    kept=re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.+=-]*(?<!\.)"),
    taken=lambda name: _DEVICES.fullmatch(name.lower()) is not None,
    same=str.lower,
)
"""Names of files and folders: no separator, nothing hidden, no device, equal on no file system."""


def printable(text: str, longest: int = LONGEST_COMMENT) -> str:
    """A text from anywhere as one line of printable ASCII, for comments of any emitted language.

    What could end a comment or go on behind it (`*/`, `??/`, a backslash at the end) is not in it.
    """
    line = " ".join("".join(c if " " <= c <= "~" else "?" if c.isprintable() else " " for c in text).split())
    line = _RISKY.sub(r"\g<0> ", line.replace("\\", "/"))
    return line if len(line) <= longest else f"{line[: longest - 3]}..."
