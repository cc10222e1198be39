"""A reader of MLIR text in the form that tt-mlir prints: modules of functions of ops in generic form.

It knows nothing of the writer: tokens, attributes, types and ops as MLIR's language reference and tt-mlir's attribute
definitions have them. What it cannot read is a `Malformed`, with the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
      | (?P<string>"(?:[^"\\\n]|\\(?:["\\nt]|[0-9A-Fa-f]{2}))*")
      | (?P<value>%[A-Za-z0-9_$.-]+(?:\#\d+)?)
      | (?P<symbol>@(?:[A-Za-z_][A-Za-z0-9_$.]*|"(?:[^"\\\n]|\\(?:["\\nt]|[0-9A-Fa-f]{2}))*"))
      | (?P<hash>\#[A-Za-z_][A-Za-z0-9_$.]*)
      | (?P<bang>![A-Za-z_][A-Za-z0-9_$.]*)
      | (?P<arrow>->)
      | (?P<number>-?(?:0x[0-9A-Fa-f]+|\d+\.\d*(?:[eE][-+]?\d+)?|\d+))
      | (?P<word>[A-Za-z_][A-Za-z0-9_$.]*)
      | (?P<punctuation>[<>(){}\[\],:=*+])""",
    re.VERBOSE,
)


class Malformed(Exception):
    """Text that is not such a module, and the line."""


@dataclass(frozen=True)
class Typed:
    """A number with its type."""

    value: float
    type: str


@dataclass(frozen=True)
class Array:
    """`array<i32: 1, 2>`."""

    type: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class Symbol:
    name: str


@dataclass(frozen=True)
class Custom:
    """An attribute or type of a dialect: its name and what stands between its angle brackets."""

    name: str
    fields: dict[str, Any] = field(default_factory=dict)
    parts: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Layout:
    """`#ttnn.ttnn_layout`: the map as factors of each dim in rows and columns, grid, memref, place."""

    dims: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    grid: tuple[int, ...]
    held: tuple[int, ...]
    element: str
    tiled: bool
    space: str
    memory: str | None
    core_ranges: tuple[tuple[int, int, int, int], ...] | None


@dataclass(frozen=True)
class Tensor:
    shape: tuple[int, ...]
    element: str
    layout: Layout


@dataclass(frozen=True)
class Operation:
    line: int
    name: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    properties: dict[str, Any]
    attributes: dict[str, Any]
    takes: tuple[Any, ...]
    gives: tuple[Any, ...]
    location: str | None


@dataclass(frozen=True)
class Function:
    line: int
    name: str
    private: bool
    arguments: tuple[str, ...]
    takes: tuple[Any, ...]
    said_of_arguments: tuple[dict[str, Any], ...]
    gives: tuple[Any, ...]
    attributes: dict[str, Any]
    body: tuple[Operation, ...] | None
    """None of a declaration."""


@dataclass(frozen=True)
class Module:
    name: str
    attributes: dict[str, Any]
    functions: dict[str, Function]


_HOST_ELEMENTS = frozenset({"f32", "bf16", "ui32", "si32", "ui16", "ui8"})
DATA_TYPES = frozenset({"f32", "bf16", "bfp_bf8", "bfp_bf4", "u32", "si32", "u16", "u8"})
_NUMBER_TYPES = re.compile(r"(?:[us]?i(?:1|8|16|32|64)|f32)")
SPACES = ("dram", "l1", "system_memory")
MEMORIES = ("interleaved", "height_sharded", "width_sharded", "block_sharded")


class Reader:
    """Reads one text, from the front."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str, int]] = []
        at, line = 0, 1
        while at < len(text):
            found = TOKEN.match(text, at)
            if found is None:
                raise Malformed(f"line {line}: no token: {text[at : at + 20]!r}")
            kind = str(found.lastgroup)
            if kind != "space":
                self.tokens.append((kind, found[0], line))
            line += found[0].count("\n")
            at = found.end()
        self.at = 0
        self.aliases: dict[str, Any] = {}
        self.locations: dict[str, str] = {}
        self._ahead()

    # -- tokens ----------------------------------------------------------------------------------------
    @property
    def line(self) -> int:
        return self.tokens[min(self.at, len(self.tokens) - 1)][2]

    def fail(self, problem: str) -> Malformed:
        return Malformed(f"line {self.line}: {problem}, at {' '.join(t for _, t, _ in self.tokens[self.at :][:6])!r}")

    def peek(self, offset: int = 0) -> str:
        at = self.at + offset
        return self.tokens[at][1] if at < len(self.tokens) else ""

    def take(self, *texts: str) -> str:
        """The next tokens, which must be these."""
        for text in texts:
            if self.peek() != text:
                raise self.fail(f"{text!r} expected")
            self.at += 1
        return texts[-1]

    def given(self, text: str) -> bool:
        """Whether the next token is this one, which is taken then."""
        found = self.peek() == text
        self.at += found
        return found

    def of(self, kind: str) -> str:
        """The next token, which must be of a kind."""
        if self.at >= len(self.tokens) or self.tokens[self.at][0] != kind:
            raise self.fail(f"a {kind} expected")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def listed(self, item: Callable[[], Any], opening: str, closing: str) -> list[Any]:
        self.take(opening)
        found: list[Any] = []
        while not self.given(closing):
            if found:
                self.take(",")
            found.append(item())
        return found

    def integer(self) -> int:
        text = self.of("number")
        if not re.fullmatch(r"-?\d+", text):
            raise self.fail(f"{text} is no integer")
        return int(text)

    def one_of(self, words: tuple[str, ...] | frozenset[str]) -> str:
        word = self.of("word")
        if word not in words:
            raise self.fail(f"{word!r} is none of {sorted(words)}")
        return word

    def dimensions(self) -> tuple[int, ...]:
        """`8x1`: the tokens `8` and `x1`; `0x0` is one number to a tokenizer."""
        text = self.of("number")
        while self.tokens[self.at][0] == "word" and re.fullmatch(r"(x\d+)+", self.peek()):
            text += self.of("word")
        return tuple(int(size) for size in text.split("x"))

    # -- the module ------------------------------------------------------------------------------------
    def _ahead(self) -> None:
        """The locations, which are defined behind their uses."""
        for at, (kind, text, _) in enumerate(self.tokens[:-4]):
            if kind == "hash" and text.startswith("#loc") and self.tokens[at + 1][1] == "=":
                if text in self.locations:
                    raise Malformed(f"{text} is defined twice")
                self.locations[text] = unquoted(self.tokens[at + 4][1])

    def module(self) -> Module:
        while self.peek().startswith("#"):
            self.alias()
        self.take("module")
        name = unquoted(self.of("symbol")[1:])
        self.take("attributes")
        attributes = self.dictionary()
        functions: dict[str, Function] = {}
        self.take("{")
        while not self.given("}"):
            function = self.function()
            if function.name in functions:
                raise self.fail(f"a second function {function.name}")
            functions[function.name] = function
        self.location()
        while self.at < len(self.tokens):
            self.of("hash")
            self.take("=")
            self.take("loc", "(")
            self.of("string")
            self.take(")")
        return Module(name, attributes, functions)

    def alias(self) -> None:
        name = self.of("hash")
        if name in self.aliases or "." in name:
            raise self.fail(f"{name} is defined twice, or is a dialect's name")
        self.take("=")
        self.aliases[name] = self.attribute()

    def location(self) -> str | None:
        self.take("loc", "(")
        if self.given("unknown"):
            self.take(")")
            return None
        alias = self.of("hash")
        self.take(")")
        if alias not in self.locations:
            raise self.fail(f"{alias} is not defined")
        return self.locations[alias]

    def function(self) -> Function:
        line = self.line
        self.take("func.func")
        private = self.given("private")
        name = unquoted(self.of("symbol")[1:])
        names: list[str] = []
        said: list[dict[str, Any]] = []
        defined = self.peek(1).startswith("%")

        def argument() -> Any:
            if not defined:
                return self.type()
            names.append(self.of("value"))
            self.take(":")
            kind = self.type()
            said.append(self.dictionary())
            return kind

        takes = tuple(self.listed(argument, "(", ")"))
        gives = tuple(self.listed(self.type, "(", ")")) if self.given("->") else ()
        attributes = self.dictionary() if self.given("attributes") else {}
        body: list[Operation] | None = None
        if self.given("{"):
            body = []
            while not self.given("}"):
                body.append(self.operation())
        self.location()
        found = None if body is None else tuple(body)
        return Function(line, name, private, tuple(names), takes, tuple(said), gives, attributes, found)

    def operation(self) -> Operation:
        line, results = self.line, ()
        if self.peek().startswith("%"):
            results = self._results()
        name = unquoted(self.of("string"))
        operands = tuple(self.listed(lambda: self.of("value"), "(", ")"))
        properties: dict[str, Any] = {}
        if self.given("<"):
            properties = self.dictionary()
            self.take(">")
        attributes = self.dictionary() if self.peek() == "{" else {}
        self.take(":")
        takes = tuple(self.listed(self.type, "(", ")"))
        self.take("->")
        gives = tuple(self.listed(self.type, "(", ")")) if self.peek() == "(" else (self.type(),)
        if len(results) != len(gives) or len(operands) != len(takes):
            raise self.fail(f"{name} has another number of values than of types")
        return Operation(line, name, results, operands, properties, attributes, takes, gives, self.location())

    def _results(self) -> tuple[str, ...]:
        base = self.of("value")
        count = self.integer() if self.given(":") else 1
        self.take("=")
        return (base,) if count == 1 else tuple(f"{base}#{k}" for k in range(count))

    # -- attributes ------------------------------------------------------------------------------------
    def dictionary(self) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def entry() -> None:
            key = unquoted(self.of("string")) if self.peek().startswith('"') else self.of("word")
            self.take("=")
            if key in found:
                raise self.fail(f"a second {key}")
            found[key] = self.attribute()

        self.listed(entry, "{", "}")
        return found

    def attribute(self) -> Any:
        kind, text, _ = self.tokens[self.at]
        if kind == "number":
            return self._number()
        if kind == "string":
            return unquoted(self.of("string"))
        if kind == "symbol":
            return Symbol(unquoted(self.of("symbol")[1:]))
        if text == "[":
            return self.listed(self.attribute, "[", "]")
        if text == "array":
            return self._array()
        if text in ("true", "false"):
            return self.of("word") == "true"
        if kind != "hash":
            raise self.fail("an attribute expected")
        if text in self.aliases:
            return self.aliases[self.of("hash")]
        name = self.of("hash")[1:]
        if name == "ttnn":  # `#ttnn<mesh_shape 1x1>`
            self.take("<")
            word, sizes = self.one_of(("mesh_offset", "mesh_shape")), self.dimensions()
            self.take(">")
            if len(sizes) != 2:
                raise self.fail("a mesh has two dims")
            return Custom(f"ttnn.{word}", parts=(sizes,))
        return self.custom(name)

    def _number(self) -> Typed:
        text = self.of("number")
        self.take(":")
        kind = self.of("word")
        if not _NUMBER_TYPES.fullmatch(kind) or ("." in text and not kind.startswith("f")):
            raise self.fail(f"{text} : {kind}")
        if kind == "f32":
            if re.fullmatch(r"-?\d+", text):
                raise self.fail(f"{text} is no float")
            return Typed(float.fromhex(text) if "x" in text else float(text), kind)
        return Typed(int(text), kind)

    def _array(self) -> Array:
        self.take("array", "<")
        kind = self.one_of(("i32", "i64"))
        found: list[int] = []
        if self.given(":"):
            while True:
                found.append(self.integer())
                if not self.given(","):
                    break
        self.take(">")
        return Array(kind, tuple(found))

    def custom(self, name: str) -> Any:
        """The body of a dialect's attribute, by its name."""
        from tests.export.mlir.dialect import BODIES

        if name not in BODIES:
            raise self.fail(f"no attribute is called {name}")
        self.take("<")
        found = BODIES[name](self, name)
        self.take(">")
        return found

    # -- types -----------------------------------------------------------------------------------------
    def type(self) -> Any:
        if self.peek() == "!ttnn.device":
            return Custom(self.of("bang")[1:])
        self.take("tensor", "<")
        shape, element = self.sized()
        self.take(",")
        layout = self.attribute()
        self.take(">")
        if not isinstance(layout, Layout):
            raise self.fail("a tensor's encoding is no layout")
        return Tensor(shape, element, layout)

    def sized(self) -> tuple[tuple[int, ...], str]:
        """`1x32xbf16` or `4x2x!ttcore.tile<32x32, bf16>`: sizes, and an element of numbers or of tiles."""
        text = ""
        while self.tokens[self.at][0] in ("number", "word"):
            text += self.of(self.tokens[self.at][0])
        sizes, _, element = text.rpartition("x")
        if not re.fullmatch(r"(\d+(x\d+)*)?", sizes):
            raise self.fail(f"{text!r} has no sizes")
        shape = tuple(int(size) for size in sizes.split("x")) if sizes else ()
        if element:
            if element not in _HOST_ELEMENTS:
                raise self.fail(f"{element!r} is no element")
            return shape, element
        if self.of("bang") != "!ttcore.tile":
            raise self.fail("an element expected")
        self.take("<")
        if self.dimensions() != (32, 32):
            raise self.fail("tiles are 32x32")
        self.take(",")
        kind = self.one_of(DATA_TYPES)
        self.take(">")
        return shape, f"tile {kind}"


def unquoted(text: str) -> str:
    """A string or symbol as what it means."""
    if not text.startswith('"'):
        return text
    plain = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
    data = bytearray()
    at = 1
    while at < len(text) - 1:
        if text[at] != "\\":
            data += text[at].encode()
            at += 1
        elif text[at + 1] in plain:
            data += plain[text[at + 1]].encode()
            at += 2
        else:
            data.append(int(text[at + 1 : at + 3], 16))
            at += 3
    return data.decode("utf-8")


def read(text: str) -> Module:
    """The module that a text is."""
    return Reader(text).module()
