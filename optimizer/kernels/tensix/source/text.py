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
from collections.abc import Iterator

from optimizer.errors import FormatError
from optimizer.kernels.tensix.ir import Attr, Op, Region, Value
from optimizer.kernels.tensix.source.spellings import Spellings, Written, settled
from optimizer.kernels.tensix.source.terms import Token, Tokens, read_attributes, read_type, read_types
from optimizer.process.identifiers import Spelling

IR_NAMES = Spelling(re.compile(r"[0-9A-Za-z_.$]+"), lambda _: False)
"""Names of values and symbols, without `%` and `@`."""


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


# -- parsing --------------------------------------------------------------------------------------------
def parse(text: str) -> Op:
    """The one op of a text. FormatError names line and column."""
    tokens = Tokens(text)
    ops = _Parser(tokens).ops({})
    tokens.expect("end")
    if len(ops) != 1:
        raise FormatError(f"a text holds one op, not {len(ops)}", node="line 1, column 1")
    return settled(ops[0])


class _Parser:
    """Ops and regions."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._spellings = Spellings()

    def ops(self, known: dict[str, Value]) -> tuple[Op, ...]:
        """One op as it is written, which may be several; their results are added to `known`."""
        names = self._result_names()
        begin = self._tokens.expect("name")
        attrs: dict[str, Attr] = {}
        if self._tokens.next.kind == "symbol":
            attrs["sym_name"] = self._tokens.take().text[1:]
        operands = self._operands(known, "ins") or self._bare_operands(known, begin)
        rooms = self._operands(known, "outs")
        if self._tokens.at("{") and self._starts_attributes():
            attrs |= read_attributes(self._tokens)
        types = read_types(self._tokens) if self._tokens.accept(":") else ()
        regions = []
        while self._tokens.at("{") and not self._starts_attributes():
            with self._tokens.deeper():
                regions.append(self._region(dict(known), operands))
        if self._tokens.at("{"):
            attrs |= read_attributes(self._tokens)
        written = Written(begin.text, operands, tuple(names), types, attrs, tuple(regions), rooms)
        try:
            ops = self._spellings.ops(written)
        except FormatError as error:
            raise self._tokens.error(error.message, begin.at) from error
        known |= {v.name: v for op in ops for v in op.results}
        known |= {name: self._spellings.same[name] for name in names if name in self._spellings.same}
        return ops

    def _result_names(self) -> list[str]:
        names = []
        while self._tokens.next.kind == "value":
            names.append(self._tokens.take().text[1:])
            if not self._tokens.accept(","):
                self._tokens.expect("mark", "=")
                break
        return names

    def _operands(self, known: dict[str, Value], called: str) -> tuple[Value, ...]:
        """Values in parentheses, which may be called `ins` or `outs`; those called `outs` only if they are."""
        found: list[Value] = []
        named = self._tokens.accept(called)
        if (named or called == "ins") and self._tokens.accept("("):
            for _ in self._tokens.listed(")"):
                found.append(self._operand(known))
        return tuple(found)

    def _bare_operands(self, known: dict[str, Value], begin: Token) -> tuple[Value, ...]:
        """Values without parentheses, on the line of the op's name."""
        if self._tokens.next.kind != "value" or "\n" in self._tokens.text[begin.at : self._tokens.next.at]:
            return ()
        found = [self._operand(known)]
        while self._tokens.accept(","):
            found.append(self._operand(known))
        return tuple(found)

    def _operand(self, known: dict[str, Value]) -> Value:
        token = self._tokens.expect("value")
        if token.text[1:] not in known:
            raise self._tokens.error(f"{token.text} is not defined here", token.at)
        return known[token.text[1:]]

    def _starts_attributes(self) -> bool:
        following = self._tokens.following
        return len(following) == 2 and following[0].kind == "name" and following[1].text == "="

    def _region(self, known: dict[str, Value], given: tuple[Value, ...]) -> Region:
        """A region; arguments without a type have that of the operand in their place."""
        self._tokens.expect("mark", "{")
        args: list[Value] = []
        if self._tokens.accept("^"):
            if self._tokens.next.kind == "name":
                self._tokens.take()
            self._tokens.expect("mark", "(")
            for _ in self._tokens.listed(")"):
                token = self._tokens.expect("value")
                typed = self._tokens.accept(":")
                if not typed and len(args) >= len(given):
                    raise self._tokens.error(f"{token.text} has no type", token.at)
                args.append(Value(token.text[1:], read_type(self._tokens) if typed else given[len(args)].type))
            self._tokens.expect("mark", ":")
        known |= {v.name: v for v in args}
        ops: list[Op] = []
        while not self._tokens.accept("}"):
            ops += self.ops(known)
        return Region(tuple(args), tuple(ops))
