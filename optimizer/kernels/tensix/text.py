"""The kernel IR as text, and back.

    ttl.program @add {grid = [1, 1]} {
      ^(%lhs: tensor<2x2xbf16>):
      %0 = ttl.bind_cb {index = 0} : cb<2x2xbf16, 2>
      ttl.compute_thread @math {
        %1 = ttl.cb_wait(%0) : block<2x2xbf16>
        ...
      }
    }

An op is `results = name @symbol (operands) {attributes} : result types { region }`; what it lacks is left out. Types of
operands are those of their definitions. `parse(text_of(op)) == op` for every op. `spellings.py` lists what may be
written otherwise, and left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from optimizer.errors import FormatError, LimitError
from optimizer.identifiers import Spelling
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.index_expr import IndexExpr, IndexMap, const, dim
from optimizer.kernels.tensix.ir import Attr, Op, Region, Value
from optimizer.kernels.tensix.program_spellings import settled
from optimizer.kernels.tensix.spellings import Spellings, Written
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


# -- printing -------------------------------------------------------------------------------------------
def text_of(op: Op) -> str:
    """The op and everything in it, one op per line, with a newline at the end."""
    return "".join(f"{line}\n" for line in _lines(op, 0))


def _lines(op: Op, depth: int) -> Iterator[str]:
    pad = "  " * depth
    head = pad + _head(op)
    if not op.regions:
        yield head
        return
    for number, region in enumerate(op.regions):
        yield f"{head} {{" if number == 0 else f"{pad}}} {{"
        if region.args:
            args = ", ".join(f"{v}: {v.type}" for v in region.args)
            yield f"{pad}  ^({args}):"
        for inner in region.ops:
            yield from _lines(inner, depth + 1)
    yield f"{pad}}}"


def _head(op: Op) -> str:
    attrs = dict(op.attrs)
    symbol = attrs.pop("sym_name", None)
    text = f"{', '.join(map(str, op.results))} = " if op.results else ""
    text += op.name
    text += f" @{symbol}" if symbol is not None else ""
    text += f"({', '.join(map(str, op.operands))})" if op.operands else ""
    if attrs:
        text += f" {{{', '.join(f'{name} = {_attr_text(value)}' for name, value in sorted(attrs.items()))}}}"
    return text + (f" : {', '.join(str(v.type) for v in op.results)}" if op.results else "")


def _attr_text(value: Attr) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(value)
        case tuple():
            return f"[{', '.join(map(_attr_text, value))}]"
    return str(value)


def _quoted(text: str) -> str:
    """A string on one line, of printable ASCII."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return char if " " <= char <= "~" else f"\\u{{{ord(char):x}}}"


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else match[2]


_ESCAPE = re.compile(r"\\(?:u\{((?:10|[0-9a-f])?[0-9a-f]{1,4})\}|(.))")


# -- parsing --------------------------------------------------------------------------------------------
def parse(text: str) -> Op:
    """The one op of a text. FormatError names line and column."""
    parser = _Parser(text)
    ops = parser.ops({})
    parser.expect("end")
    if len(ops) != 1:
        raise FormatError(f"a text holds one op, not {len(ops)}", node="line 1, column 1")
    return settled(ops[0])


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
IR_NAMES = Spelling(re.compile(r"[0-9A-Za-z_.$]+"), lambda _: False)
"""Names of values and symbols, without `%` and `@`."""
MAX_DEPTH = 50
"""Of regions, lists and parentheses within each other."""
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


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [*self._split(), _Token("end", "", len(text))]
        self._next = 0
        self._depth = 0
        self._terms = 0
        self._spellings = Spellings()

    def _split(self) -> Iterator[_Token]:
        at = 0
        while at < len(self._text):
            found = _TOKENS.match(self._text, at)
            if found is None:
                raise self._error(f"unexpected character {self._text[at]!r}", at)
            if found.lastgroup != "space":
                yield _Token(str(found.lastgroup), found.group(), at)
            at = found.end()

    def _error(self, message: str, at: int) -> FormatError:
        before = self._text[:at]
        line, column = before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1
        return FormatError(message, node=f"line {line}, column {column}")

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _at(self, *texts: str) -> bool:
        return self._token.text in texts and self._token.kind != "string"

    def _take(self) -> _Token:
        token = self._token
        if token.kind != "end":
            self._next += 1
        return token

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        """Around what may hold itself."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise LimitError("nested too deeply", node=self._error("", self._token.at).node, limit=MAX_DEPTH)
        yield
        self._depth -= 1

    def _accept(self, text: str) -> bool:
        if self._at(text):
            self._next += 1
            return True
        return False

    def expect(self, kind: str, text: str | None = None) -> _Token:
        """The next token, which must be of a kind (and read so)."""
        token = self._token
        if token.kind != kind or (text is not None and token.text != text):
            wanted = kind if text is None else f"'{text}'"
            raise self._error(f"expected {wanted}, found '{token.text or 'the end'}'", token.at)
        return self._take()

    # -- ops -----------------------------------------------------------------------------------------
    def ops(self, known: dict[str, Value]) -> tuple[Op, ...]:
        """One op as it is written, which may be several; their results are added to `known`."""
        names = self._result_names()
        begin = self.expect("name")
        attrs: dict[str, Attr] = {}
        if self._token.kind == "symbol":
            attrs["sym_name"] = self._take().text[1:]
        operands = self._operands(known, "ins") or self._bare_operands(known, begin)
        rooms = self._operands(known, "outs")
        if self._at("{") and self._starts_attributes():
            attrs |= self._attributes()
        types = tuple(self._types()) if self._accept(":") else ()
        regions = []
        while self._at("{") and not self._starts_attributes():
            with self._deeper():
                regions.append(self._region(dict(known), operands))
        if self._at("{"):
            attrs |= self._attributes()
        written = Written(begin.text, operands, tuple(names), types, attrs, tuple(regions), rooms)
        try:
            ops = self._spellings.ops(written)
        except FormatError as error:
            raise self._error(error.message, begin.at) from error
        known |= {v.name: v for op in ops for v in op.results} | self._spellings.same
        return ops

    def _result_names(self) -> list[str]:
        names = []
        while self._token.kind == "value":
            names.append(self._take().text[1:])
            if not self._accept(","):
                self.expect("mark", "=")
                break
        return names

    def _operands(self, known: dict[str, Value], called: str) -> tuple[Value, ...]:
        """Values in parentheses, which may be called `ins` or `outs`; those called `outs` only if they are."""
        found: list[Value] = []
        named = self._accept(called)
        if (named or called == "ins") and self._accept("("):
            while not self._accept(")"):
                found.append(self._operand(known))
                if not self._at(")"):
                    self.expect("mark", ",")
        return tuple(found)

    def _bare_operands(self, known: dict[str, Value], begin: _Token) -> tuple[Value, ...]:
        """Values without parentheses, on the line of the op's name."""
        if self._token.kind != "value" or "\n" in self._text[begin.at : self._token.at]:
            return ()
        found = [self._operand(known)]
        while self._accept(","):
            found.append(self._operand(known))
        return tuple(found)

    def _operand(self, known: dict[str, Value]) -> Value:
        token = self.expect("value")
        if token.text[1:] not in known:
            raise self._error(f"{token.text} is not defined here", token.at)
        return known[token.text[1:]]

    def _starts_attributes(self) -> bool:
        following = self._tokens[self._next + 1 : self._next + 3]
        return len(following) == 2 and following[0].kind == "name" and following[1].text == "="

    def _region(self, known: dict[str, Value], given: tuple[Value, ...]) -> Region:
        """A region; arguments without a type have that of the operand in their place."""
        self.expect("mark", "{")
        args: list[Value] = []
        if self._accept("^"):
            if self._token.kind == "name":
                self._take()
            self.expect("mark", "(")
            while not self._accept(")"):
                token = self.expect("value")
                typed = self._accept(":")
                if not typed and len(args) >= len(given):
                    raise self._error(f"{token.text} has no type", token.at)
                args.append(Value(token.text[1:], self._type() if typed else given[len(args)].type))
                if not self._at(")"):
                    self.expect("mark", ",")
            self.expect("mark", ":")
        known |= {v.name: v for v in args}
        ops: list[Op] = []
        while not self._accept("}"):
            ops += self.ops(known)
        return Region(tuple(args), tuple(ops))

    # -- types ---------------------------------------------------------------------------------------
    def _types(self) -> list[Type]:
        types = [self._type()]
        while self._accept(","):
            types.append(self._type())
        return types

    def _type(self) -> Type:
        token = self._take()
        if token.text in _PLAIN:
            return _PLAIN[token.text]
        shaped, tile = _SHAPED.fullmatch(token.text), _TILE.fullmatch(token.text)
        dtype = shaped[4] if shaped else tile[1] if tile else ""
        if dtype not in {d.value for d in DType}:
            reason = f": {NO_HALF}" if dtype == HALF else ""
            raise self._error(f"'{token.text}' is no type{reason}", token.at)
        if shaped is None:
            return TileType(DType(dtype))
        shape = (int(shaped[2]), int(shaped[3]))
        if shaped[1] == "cb":
            return CircularBufferType(shape, DType(dtype), int(shaped[5] or 2))
        return BlockType(shape, DType(dtype)) if shaped[1] == "block" else TensorType(shape, DType(dtype))

    # -- attributes ----------------------------------------------------------------------------------
    def _attributes(self) -> dict[str, Attr]:
        found: dict[str, Attr] = {}
        self.expect("mark", "{")
        while not self._accept("}"):
            name = self.expect("name").text
            self.expect("mark", "=")
            found[name] = self._attr()
            if not self._at("}"):
                self.expect("mark", ",")
        return found

    def _attr(self) -> Attr:
        token = self._token
        if token.kind == "string":
            return _ESCAPE.sub(_unescaped, self._take().text[1:-1])
        if token.kind == "number":
            number = self._token.text
            return self._integer() if re.fullmatch(r"-?[0-9]+", number) else float(self._take().text)
        if token.kind in ("type", "value"):  # a spelling, which no op keeps
            return str(self._type()) if token.kind == "type" else self._take().text
        if token.text in ("true", "false"):
            return self._take().text == "true"
        if token.text in ("inf", "nan"):
            return float(self._take().text)
        if self._accept("["):
            items: list[Attr] = []
            while not self._accept("]"):
                with self._deeper():
                    items.append(self._attr())
                if not self._at("]"):
                    self.expect("mark", ",")
            return tuple(items)
        return self._map()

    def _integer(self) -> int:
        """A whole number of at most 64 bits, with its sign."""
        token = self.expect("number")
        if not re.fullmatch(r"-?[0-9]+", token.text):
            raise self._error(f"expected a whole number, found '{token.text}'", token.at)
        if len(token.text) > MAX_DIGITS:
            raise LimitError(
                f"a number of {len(token.text)} digits", node=self._error("", token.at).node, limit=MAX_DIGITS
            )
        return int(token.text)

    def _map(self) -> IndexMap:
        self.expect("mark", "(")
        self._terms = 0
        dims: list[str] = []
        while not self._accept(")"):
            dims.append(self.expect("name").text)
            if not self._at(")"):
                self.expect("mark", ",")
        self.expect("arrow")
        self.expect("mark", "(")
        results: list[IndexExpr] = []
        while not self._accept(")"):
            results.append(self._sum(dims))
            if not self._at(")"):
                self.expect("mark", ",")
        return IndexMap(len(dims), tuple(results))

    def _count_term(self) -> None:
        self._terms += 1
        if self._terms > MAX_TERMS:
            raise LimitError(
                "an index map of too many terms", node=self._error("", self._token.at).node, limit=MAX_TERMS
            )

    def _sum(self, dims: list[str]) -> IndexExpr:
        total = self._product(dims)
        while self._accept("+"):
            self._count_term()
            total = IndexExpr("add", 0, (total, self._product(dims)))
        return total

    def _product(self, dims: list[str]) -> IndexExpr:
        value = self._atom(dims)
        while self._at("*", "floordiv", "mod"):
            self._count_term()
            sign = self._take().text
            constant = const(self._integer())
            kind = "mul" if sign == "*" else "floordiv" if sign == "floordiv" else "mod"
            value = IndexExpr(kind, 0, (value, constant))  # type: ignore[arg-type]
        return value

    def _atom(self, dims: list[str]) -> IndexExpr:
        token = self._token
        if self._accept("("):
            with self._deeper():
                inner = self._sum(dims)
            self.expect("mark", ")")
            return inner
        if token.kind == "number":
            return const(self._integer())
        if token.text not in dims:
            raise self._error(f"'{token.text}' is no dimension of this map", token.at)
        return dim(dims.index(self._take().text))
