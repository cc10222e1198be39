"""Words of the kernel IR's text, taken one by one, and what they make: types, numbers, strings, lists, index maps.

What is not as expected is an error with line and column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from optimizer.errors import FormatError, LimitError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.index_expr import IndexExpr, IndexMap, const, dim
from optimizer.kernels.tensix.ir import Attr
from optimizer.kernels.tensix.types import (
    HALF,
    NO_HALF,
    BlockType,
    CircularBufferType,
    IndexType,
    PipeNetType,
    PipeType,
    SemaphoreType,
    TensorType,
    TileType,
    TransferType,
    Type,
)

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


MAX_TERMS = 500
"""Operators of one index map."""
MAX_DIGITS = 19
"""Of whole numbers."""
_SHAPED = re.compile(r"(block|cb|tensor)<([0-9]{1,9})x([0-9]{1,9})x([a-z0-9_]+)(?:,\s*([0-9]{1,9}))?>", re.ASCII)
_TILE = re.compile(r"(?:!ttcore\.)?tile<(?:32x32,\s*)?([a-z0-9_]+)>")
_PLAIN: Mapping[str, Type] = {
    str(t): t for t in (IndexType(), TransferType(), SemaphoreType(), PipeType(), PipeNetType())
}
"""Types without parameters."""


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else match[2]


_WHOLE = re.compile(r"-?[0-9]+")
_ESCAPE = re.compile(r"\\(?:u\{((?:10|[0-9a-f])?[0-9a-f]{1,4})\}|(.))")


def read_types(tokens: Tokens) -> tuple[Type, ...]:
    """One or more types."""
    types = [read_type(tokens)]
    while tokens.accept(","):
        types.append(read_type(tokens))
    return tuple(types)


def read_type(tokens: Tokens) -> Type:
    """One type. FormatError if there is none."""
    token = tokens.take()
    if token.text in _PLAIN:
        return _PLAIN[token.text]
    shaped, tile = _SHAPED.fullmatch(token.text), _TILE.fullmatch(token.text)
    dtype = shaped[4] if shaped else tile[1] if tile else ""
    if dtype not in {d.value for d in DType}:
        reason = f": {NO_HALF}" if dtype == HALF else ""
        raise tokens.error(f"'{token.text}' is no type{reason}", token.at)
    if shaped is None:
        return TileType(DType(dtype))
    shape = (int(shaped[2]), int(shaped[3]))
    if shaped[1] == "cb":
        return CircularBufferType(shape, DType(dtype), int(shaped[5] or 2))
    return BlockType(shape, DType(dtype)) if shaped[1] == "block" else TensorType(shape, DType(dtype))


def read_attributes(tokens: Tokens) -> dict[str, Attr]:
    """Attributes in braces, by name."""
    found: dict[str, Attr] = {}
    tokens.expect("mark", "{")
    for _ in tokens.listed("}"):
        name = tokens.expect("name").text
        tokens.expect("mark", "=")
        found[name] = _attr(tokens)
    return found


def _attr(tokens: Tokens) -> Attr:
    token = tokens.next
    if token.kind == "string":
        return _ESCAPE.sub(_unescaped, tokens.take().text[1:-1])
    if token.kind == "number":
        return _integer(tokens) if _WHOLE.fullmatch(token.text) else float(tokens.take().text)
    if token.kind in ("type", "value"):  # a spelling, which no op keeps
        return str(read_type(tokens)) if token.kind == "type" else tokens.take().text
    if token.text in ("true", "false"):
        return tokens.take().text == "true"
    if token.text in ("inf", "nan"):
        return float(tokens.take().text)
    if tokens.accept("["):
        items: list[Attr] = []
        for _ in tokens.listed("]"):
            with tokens.deeper():
                items.append(_attr(tokens))
        return tuple(items)
    if not tokens.at("("):
        told = 'a number, "text", true, false, a list, an index map or a !type of tiles is due'
        raise tokens.error(f"{told}, found '{token.text}'", token.at)
    return _Map(tokens).read()


def _integer(tokens: Tokens) -> int:
    """A whole number of at most 64 bits, with its sign."""
    token = tokens.expect("number")
    if not _WHOLE.fullmatch(token.text):
        raise tokens.error(f"expected a whole number, found '{token.text}'", token.at)
    if len(token.text) > MAX_DIGITS:
        raise tokens.too_many(f"a number of {len(token.text)} digits", token.at, MAX_DIGITS)
    return int(token.text)


class _Map:
    """An index map: dimensions, and a number made of them for every result."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._terms = 0
        self._dims: list[str] = []

    def read(self) -> IndexMap:
        self._tokens.expect("mark", "(")
        for _ in self._tokens.listed(")"):
            self._dims.append(self._tokens.expect("name").text)
        self._tokens.expect("arrow")
        self._tokens.expect("mark", "(")
        results: list[IndexExpr] = []
        for _ in self._tokens.listed(")"):
            results.append(self._sum())
        return IndexMap(len(self._dims), tuple(results))

    def _count_term(self) -> None:
        self._terms += 1
        if self._terms > MAX_TERMS:
            raise self._tokens.too_many("an index map of too many terms", self._tokens.next.at, MAX_TERMS)

    def _sum(self) -> IndexExpr:
        total = self._product()
        while self._tokens.accept("+"):
            self._count_term()
            total = IndexExpr("add", 0, (total, self._product()))
        return total

    def _product(self) -> IndexExpr:
        value = self._atom()
        while self._tokens.at("*", "floordiv", "mod"):
            self._count_term()
            sign = self._tokens.take().text
            constant = const(_integer(self._tokens))
            kind = "mul" if sign == "*" else "floordiv" if sign == "floordiv" else "mod"
            value = IndexExpr(kind, 0, (value, constant))  # type: ignore[arg-type]
        return value

    def _atom(self) -> IndexExpr:
        token = self._tokens.next
        if self._tokens.accept("("):
            with self._tokens.deeper():
                inner = self._sum()
            self._tokens.expect("mark", ")")
            return inner
        if token.kind == "number":
            return const(_integer(self._tokens))
        if token.text not in self._dims:
            raise self._tokens.error(f"'{token.text}' is no dimension of this map", token.at)
        return dim(self._dims.index(self._tokens.take().text))
