"""Types and attributes in the kernel IR's text: numbers, strings, lists and index maps."""

from __future__ import annotations

import re
from collections.abc import Mapping

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.index_expr import IndexExpr, IndexMap, const, dim
from optimizer.kernels.tensix.ir import Attr
from optimizer.kernels.tensix.tokens import Tokens
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
