"""Tokens of the kernel IR's text, taken one by one; what is not as expected is an error with line and column."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from optimizer.errors import FormatError, LimitError

_TOKENS = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
      | (?P<type>(?:block|cb|tensor|(?:!ttcore\.)?tile)<[^>]*>)
      | (?P<arrow>->)
      | (?P<value>%[A-Za-z0-9_.$]+)
      | (?P<symbol>@[A-Za-z0-9_.$]+)
      | (?P<number>-?(?:inf|nan|[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?))
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<name>[A-Za-z_][A-Za-z0-9_.$]*)
      | (?P<mark>[(){}\[\]^:,=+*])
    """,
    re.VERBOSE | re.ASCII,
)
MAX_TOKENS = 200_000
"""Of a text, which are 100 per op that a program may have."""
MAX_DEPTH = 50
"""Of regions, lists and parentheses within each other."""


@dataclass(frozen=True)
class Token:
    """A piece of the text, of one of the kinds in `_TOKENS`; the last one is the `end`."""

    kind: str
    text: str
    at: int


class Tokens:
    """A text from its first token on."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = [*self._split(), Token("end", "", len(text))]
        self._taken = 0
        self._depth = 0

    def _split(self) -> Iterator[Token]:
        at = count = 0
        while at < len(self.text):
            found = _TOKENS.match(self.text, at)
            if found is None:
                raise self.error(f"unexpected character {self.text[at]!r}", at)
            if found.lastgroup != "space":
                count += 1
                if count > MAX_TOKENS:
                    raise self.too_many(f"more than {MAX_TOKENS:,} words, numbers and marks", at, MAX_TOKENS)
                yield Token(str(found.lastgroup), found.group(), at)
            at = found.end()

    def error(self, message: str, at: int) -> FormatError:
        """What is wrong at a place of the text."""
        return FormatError(message, node=self._place(at))

    def too_many(self, message: str, at: int, limit: int) -> LimitError:
        """What is more than the limit at a place of the text."""
        return LimitError(message, node=self._place(at), limit=limit)

    def _place(self, at: int) -> str:
        before = self.text[:at]
        line, column = before.count("\n") + 1, at - before.rfind("\n")
        return f"line {line}, column {column}"

    @property
    def next(self) -> Token:
        """The next token, which stays."""
        return self._tokens[self._taken]

    @property
    def following(self) -> tuple[Token, ...]:
        """The two after the next one, or as many as there are."""
        return tuple(self._tokens[self._taken + 1 : self._taken + 3])

    def at(self, *texts: str) -> bool:
        """Whether the next token reads like one of these."""
        return self.next.text in texts and self.next.kind != "string"

    def take(self) -> Token:
        """The next token; the end is never taken."""
        token = self.next
        if token.kind != "end":
            self._taken += 1
        return token

    def accept(self, text: str) -> bool:
        """Take the next token if it reads so."""
        if self.at(text):
            self._taken += 1
            return True
        return False

    def expect(self, kind: str, text: str | None = None) -> Token:
        """The next token, which must be of a kind (and read so)."""
        token = self.next
        if token.kind != kind or (text is not None and token.text != text):
            wanted = kind if text is None else f"'{text}'"
            raise self.error(f"expected {wanted}, found '{token.text or 'the end'}'", token.at)
        return self.take()

    def listed(self, end: str) -> Iterator[None]:
        """A round for each of what commas separate, up to the end, which is taken."""
        while not self.accept(end):
            yield
            if not self.at(end):
                self.expect("mark", ",")

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Around what may hold itself."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.too_many("nested too deeply", self.next.at, MAX_DEPTH)
        yield
        self._depth -= 1
