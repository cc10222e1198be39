"""The verifier's look at ops that write their result into an operand: whether anything still needs what was there.

Read off the finished graph alone, in the order of its ops. Every value is noted with the buffer that it may lie in and
how often that had been written over when it came to be; a reader that comes after another writing reads something else.
"""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.export.aliases import may_alias
from optimizer.ir.graph import Op, ValueKind
from optimizer.layouts.op_config import overwritten_operand
from optimizer.result import OptimizedGraph, Role

Error = tuple[str, str]
"""(op or value id, message)."""


def broken_overwrites(result: OptimizedGraph) -> Iterator[Error]:
    """Every op that overwrites what it may not, and every later read of what is overwritten."""
    yield from _Overwrites(result).errors()


class _Overwrites:
    def __init__(self, result: OptimizedGraph) -> None:
        self.result, self.graph = result, result.graph
        self.place: dict[str, tuple[str, int]] = {}
        """Value -> its buffer, and how often that had been written over."""
        self.writers: dict[str, list[str]] = {}
        """Buffer -> ops that wrote over it."""

    def errors(self) -> Iterator[Error]:
        for op in self.graph.ops():
            for v in dict.fromkeys(op.inputs):
                yield from self._read(op.id, v)
            into = overwritten_operand(self.result.records[op.id].config)
            if into is not None:
                yield from self._write(op, into)
            elif op.inputs and self._may_share(op):
                self.place[op.outputs[0]] = self._place(op.inputs[0])
        for v in self.graph.outputs:
            yield from self._read(v, v)

    def _place(self, value_id: str) -> tuple[str, int]:
        return self.place.get(value_id, (value_id, 0))

    def _read(self, reader: str, value_id: str) -> Iterator[Error]:
        buffer, before = self._place(value_id)
        since = self.writers.get(buffer, [])[before:]
        if since:
            yield reader, f"reads '{value_id}', which '{since[0]}' has written over"

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

    def _same(self, source: str, target: str) -> bool:
        x, y, layouts = self.graph.value(source), self.graph.value(target), self.result.layouts
        return (x.shape, x.dtype, layouts[source]) == (y.shape, y.dtype, layouts[target]) and layouts[source].is_l1

    def _may_share(self, op: Op) -> bool:
        """Whether the first result may lie in the first operand's buffer."""
        if self.result.records[op.id].role is Role.VIEW:
            return True
        layouts = self.result.layouts
        return may_alias(self.graph, op, layouts[op.inputs[0]], layouts[op.outputs[0]])
