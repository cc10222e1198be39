"""Ops that write their result into an operand, or free it: whether anything still needs what was there.

Read off the finished graph alone, in the order of its ops. Every value is noted with the buffer that it may lie in and
how often that had been written over when it came to be; a reader that comes after another writing reads something else,
one that comes after a freeing nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.ir.graph import Op, ValueKind
from optimizer.layouts.aliases import frees_operand, may_alias
from optimizer.layouts.op_config import overwritten_operand
from optimizer.result import Role
from optimizer.verify.subject import Error, Subject


def reads_what_is_there(subject: Subject) -> Iterator[Error]:
    """An op writes over, or frees, only what nothing reads afterwards and the next run does not need."""
    yield from _Losses(subject).errors()


class _Losses:
    def __init__(self, subject: Subject) -> None:
        self.result, self.graph = subject.result, subject.graph
        self.place: dict[str, tuple[str, int]] = {}
        """Value -> its buffer, and how often that had been written over."""
        self.writers: dict[str, list[str]] = {}
        """Buffer -> ops that wrote over it."""
        self.freed: dict[str, str] = {}
        """Buffer -> the op that freed it."""

    def errors(self) -> Iterator[Error]:
        for op in self.graph.ops():
            for v in dict.fromkeys(op.inputs):
                yield from self._read(op.id, v)
            into = overwritten_operand(self.result.records[op.id].config)
            if into is not None:
                yield from self._write(op, into)
            elif op.inputs and self._may_share(op):
                self.place[op.outputs[0]] = self._place(op.inputs[0])
            if op.inputs and frees_operand(self.result.records[op.id].config, self.result.layouts[op.inputs[0]]):
                yield from self._free(op)
        for v in self.graph.outputs:
            yield from self._read(v, v)

    def _place(self, value_id: str) -> tuple[str, int]:
        return self.place.get(value_id, (value_id, 0))

    def _read(self, reader: str, value_id: str) -> Iterator[Error]:
        buffer, before = self._place(value_id)
        since = self.writers.get(buffer, [])[before:]
        if since:
            yield reader, f"reads '{value_id}', which '{since[0]}' has written over"
        if buffer in self.freed:
            yield reader, f"reads '{value_id}', which '{self.freed[buffer]}' has freed"

    def _write(self, op: Op, position: int) -> Iterator[Error]:
        if position >= len(op.inputs) or len(op.outputs) != 1:
            yield op.id, f"{op.op} cannot write its result into operand {position}"
            return
        source, target = op.inputs[position], op.outputs[0]
        if not self._same(source, target):
            yield (
                op.id,
                f"writes its result into '{source}', which is not in L1 with the result's shape, type and layout",
            )
        buffer, _ = self._place(source)
        if op.inputs.count(source) > 1:
            yield op.id, f"writes its result into '{source}', which it reads twice"
        if any(self.graph.value(v).kind is not ValueKind.ACTIVATION for v in (source, buffer)):
            yield op.id, f"writes its result into '{source}', which is there for every run"
        self.writers.setdefault(buffer, []).append(op.id)
        self.place[target] = buffer, len(self.writers[buffer])

    def _free(self, op: Op) -> Iterator[Error]:
        source = op.inputs[0]
        buffer, _ = self._place(source)
        if any(self.graph.value(v).kind is not ValueKind.ACTIVATION for v in (source, buffer)):
            yield op.id, f"frees '{source}', which is there for every run"
        self.freed[buffer] = op.id

    def _same(self, source: str, target: str) -> bool:
        x, y, layouts = self.graph.value(source), self.graph.value(target), self.result.layouts
        return (x.shape, x.dtype, layouts[source]) == (y.shape, y.dtype, layouts[target]) and layouts[source].is_l1

    def _may_share(self, op: Op) -> bool:
        """Whether the first result may lie in the first operand's buffer."""
        if self.result.records[op.id].role is Role.VIEW:
            return True
        layouts = self.result.layouts
        return may_alias(self.graph, op, layouts[op.inputs[0]], layouts[op.outputs[0]])
