"""A graph as text, one line an op, printed and parsed.

    graph "mlp" {
      %x = input : bf16[64,256]
      %w = parameter : bf16[256,512]
      %h = ttnn.matmul(%x, %w) {transpose_b: false} : bf16[64,512] @ l1 height_sharded 2x1 [32, 512] tile op "mm"
      return %h
    }

Ids and names that are no plain words are written in quotes, as JSON has them; so are the values of attributes. What
follows a type: `stands for` the tensor of the model, `op` the op's id where it is not its first result's, `name` what a
person calls it, `from` the foreign nodes. Layouts, behind `@`, are printed for whoever reads them and not
parsed; lines that begin with `#` are remarks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from optimizer.errors import FormatError
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr, ForeignTensor, Graph, Op, Value, ValueKind
from optimizer.ir.sizes import check_shape

_PLAIN = re.compile(r"[A-Za-z0-9_][\w.$-]*", re.ASCII)
_TYPE = re.compile(r"([a-z0-9_]+)\[([\d,]*)\]")
_LAYOUT = re.compile(r"@ [a-z0-9_]+ [a-z_]+(?: \d+x\d+ \[\d+, \d+\])? [a-z_]+")
_DECODER = json.JSONDecoder()


# -- printing ---------------------------------------------------------------------------------------------
def graph_text(graph: Graph, layouts: Mapping[str, str] = MappingProxyType({})) -> str:
    """The text of a graph; `layouts` says of values where they lie, as far as that is known."""
    lines = [f"graph {_quoted(graph.name)} {{"]
    lines += [f"  {line}" for line in _source_lines(graph, layouts)]
    lines += [f"  {_op_line(graph, op, layouts)}" for op in graph.ops()]
    lines.append(f"  return {', '.join(map(_value, graph.outputs))}".rstrip())
    return "\n".join((*lines, "}")) + "\n"


def _source_lines(graph: Graph, layouts: Mapping[str, str]) -> Iterator[str]:
    """Inputs in call order, then what else no op computes."""
    others = (v for v in graph.values if v not in graph.inputs and graph.producer(v) is None)
    for v in (*graph.inputs, *others):
        value = graph.value(v)
        data = "" if value.data is None else f" {json.dumps(list(value.data))}"
        yield f"{_value(v)} = {value.kind.value}{data} : {_type(value, layouts)}"


def _op_line(graph: Graph, op: Op, layouts: Mapping[str, str]) -> str:
    attrs = ", ".join(f"{_word(k)}: {_quoted(v)}" for k, v in op.attrs.items())
    results = [graph.value(v) for v in op.outputs]
    prepared = "prepared " if results and graph.is_const_eval(op) else ""
    parts = [f"{', '.join(map(_value, op.outputs))} = {prepared}{op.op}({', '.join(map(_value, op.inputs))})"]
    parts += [f"{{{attrs}}}"] if attrs else []
    parts.append(f": {', '.join(_type(value, layouts) for value in results)}")
    parts += [] if op.outputs[:1] == (op.id,) else [f"op {_quoted(op.id)}"]
    parts += [f"name {_quoted(op.name)}"] if op.name else []
    parts += [f"from {_quoted(list(op.origin))}"] if op.origin else []
    return " ".join(parts)


def _type(value: Value, layouts: Mapping[str, str]) -> str:
    text = f"{value.dtype.value}[{','.join(map(str, value.shape))}]"
    text += f" @ {layouts[value.id]}" if value.id in layouts else ""
    held = value.stands_for
    if held is None:
        return text
    as_it_is = held == ForeignTensor.whole(value.id, value.shape)
    return f"{text} stands for " + ("itself" if as_it_is else _quoted([held.name, held.shape, held.dims]))


def _value(value_id: str) -> str:
    return f"%{_word(value_id)}"


def _word(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else _quoted(text)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# -- parsing ----------------------------------------------------------------------------------------------
def parse_graph(text: str) -> Graph:
    """The graph of a text. FormatError names the line; whether ops get what they need is `check_graph`'s to say."""
    return _Parser(text).graph()


class _Parser:
    """One text, and how far it is read; lines are read one by one."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._number = 0
        self._line = ""
        self._at = 0

    def graph(self) -> Graph:
        self._next()
        self._expect("graph")
        graph = Graph(self._json(str))
        self._expect("{")
        while not self._next().startswith("return"):
            self._statement(graph)
        self._expect("return")
        graph.outputs = tuple(self._values()) if self._at < len(self._line) else ()
        for value_id in graph.outputs:
            self._known(graph, value_id)
        self._next()
        self._expect("}")
        return graph

    def _statement(self, graph: Graph) -> None:
        results = self._values()
        self._expect("=")
        for kind in (ValueKind.INPUT, ValueKind.PARAMETER, ValueKind.CONSTANT, ValueKind.ACTIVATION):
            if self._taken(f"{kind.value} "):
                data = None if self._line[self._at] == ":" else tuple(self._json(list))
                self._expect(":")
                graph.add_value(self._described(results[0], kind, data))
                if kind is ValueKind.INPUT:
                    graph.inputs.append(results[0])
                self._end()
                return
        self._op(graph, results)

    def _op(self, graph: Graph, results: list[str]) -> None:
        kind = ValueKind.PARAMETER if self._taken("prepared ") else ValueKind.ACTIVATION
        name = self._match(re.compile(r"[^\s(]+"), "an op")
        self._expect("(")
        inputs = [] if self._taken(")") else self._values()
        if inputs:
            self._expect(")")
        for value_id in inputs:
            self._known(graph, value_id)
        attrs = self._attrs() if self._taken("{") else {}
        self._expect(":")
        for n, value_id in enumerate(results):
            if n:
                self._expect(",")
            graph.add_value(self._described(value_id, kind, None))
        op_id = self._json(str) if self._taken("op ") else results[0]
        called = self._json(str) if self._taken("name ") else ""
        origin = tuple(self._json(list)) if self._taken("from ") else ()
        self._end()
        graph.add_op(Op(op_id, name, tuple(inputs), tuple(results), attrs, called, origin))

    def _attrs(self) -> dict[str, Attr]:
        found: dict[str, Attr] = {}
        while not self._taken("}"):
            if found:
                self._expect(",")
            key = self._word()
            self._expect(":")
            found[key] = _attr(self._json(object))
        return found

    def _described(self, value_id: str, kind: ValueKind, data: tuple[float, ...] | None) -> Value:
        found = _TYPE.match(self._line, self._at)
        if found is None or found[1] not in list(DType):
            raise self._wrong("a type such as bf16[1,64]")
        shape = tuple(int(size) for size in found[2].split(",") if size)
        check_shape(value_id, shape, empty=True)
        self._at = found.end()
        self._skip()
        layout = _LAYOUT.match(self._line, self._at)
        self._at = self._at if layout is None else layout.end()
        self._skip()
        stands_for = None
        if self._taken("stands for "):
            if self._taken("itself"):
                stands_for = ForeignTensor.whole(value_id, shape)
            else:
                record = dict(zip(("name", "shape", "dims"), self._json(list), strict=False))
                stands_for = ForeignTensor.from_json(record, value_id, shape)
        return Value(value_id, shape, DType(found[1]), kind, data, stands_for)

    # -- words ------------------------------------------------------------------------------------
    def _values(self) -> list[str]:
        found: list[str] = []
        while not found or self._taken(","):
            self._expect("%")
            found.append(self._word())
        return found

    def _word(self) -> str:
        if self._line[self._at : self._at + 1] == '"':
            return str(self._json(str))
        return self._match(_PLAIN, "a name")

    def _json(self, kind: type) -> Any:
        try:
            value, self._at = _DECODER.raw_decode(self._line, self._at)
        except json.JSONDecodeError:
            raise self._wrong("a value as JSON writes it") from None
        except RecursionError:
            raise self._wrong("a value of fewer levels") from None
        if not isinstance(value, kind):
            raise self._wrong(f"a {kind.__name__}")
        self._skip()
        return value

    def _match(self, pattern: re.Pattern[str], what: str) -> str:
        found = pattern.match(self._line, self._at)
        if found is None:
            raise self._wrong(what)
        self._at = found.end()
        self._skip()
        return found[0]

    def _taken(self, text: str) -> bool:
        if not self._line.startswith(text, self._at):
            return False
        self._at += len(text)
        self._skip()
        return True

    def _expect(self, text: str) -> None:
        if not self._taken(text):
            raise self._wrong(f"'{text}'")

    def _skip(self) -> None:
        while self._line[self._at : self._at + 1] == " ":
            self._at += 1

    def _next(self) -> str:
        """The next line that holds anything."""
        while self._number < len(self._lines):
            self._line, self._at = self._lines[self._number].strip(" \r"), 0
            self._number += 1
            if self._line and not self._line.startswith("#"):
                return self._line
        self._line, self._at = "", 0
        raise self._wrong("more lines")

    def _end(self) -> None:
        if self._at != len(self._line):
            raise self._wrong("the end of the line")

    def _known(self, graph: Graph, value_id: str) -> None:
        if value_id not in graph.values:
            raise self._wrong(f"a value that a line above gives, not '%{value_id}',")

    def _wrong(self, wanted: str) -> FormatError:
        rest = self._line[self._at :][:40]
        return FormatError(f"{wanted} is due at '{rest}'", node=f"line {self._number}")


def _attr(value: Any) -> Attr:
    return tuple(map(_attr, value)) if isinstance(value, list) else value
