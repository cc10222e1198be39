"""Many short matrices as one: what works on rows of the last dim alone sees [1, 1, rows, width].

Tiles have 32 rows. Of a batch of 32 tokens, [32, 1, width], each is a matrix of one row and fills a tile by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from optimizer.importers.passes.rewriting import by_weights, emit, finish, reshape
from optimizer.ir.graph import Attr, Graph, Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.tiling import TILE, round_up
from optimizer.rewrites.way import Site

_PRODUCTS = ("ttnn.linear", "ttnn.matmul")
_NORMS = ("ttnn.layer_norm", "ttnn.rms_norm")
LEAST_OPS = 2
"""Ops that have to be in a part: a reshape on both sides costs more than one op gains."""


def _lead(graph: Graph, value_id: str) -> tuple[int, ...]:
    return graph.value(value_id).shape[:-1]


def _wastes(graph: Graph, op: Op) -> bool:
    """Whether most rows of the result's tiles are padding that one matrix would not have."""
    lead = _lead(graph, op.outputs[0])
    if len(lead) < 2:
        return False
    return 2 * round_up(prod(lead), TILE) <= prod(lead[:-1]) * round_up(lead[-1], TILE)


def _works_on_rows(graph: Graph, op: Op) -> bool:
    """Whether every row of the result is made of the same row of the operands, and of weights."""
    if opdef(op.op).opaque or len(op.outputs) != 1 or graph.is_const_eval(op):
        return False
    lead = _lead(graph, op.outputs[0])
    if op.op in _PRODUCTS:
        return not op.attrs.get("transpose_a") and by_weights(graph, op) and _lead(graph, op.inputs[0]) == lead
    if op.op in _NORMS:
        return len(op.inputs) < 4 and all(map(graph.is_static, op.inputs[1:]))
    if op.op == "ttnn.concat":
        last = int(op.attr("dim")) % (len(lead) + 1) == len(lead)
        return last and not any(map(graph.is_static, op.inputs))
    return opdef(op.op).in_place and all(_fits(graph, v, lead) for v in op.inputs)


def _fits(graph: Graph, value_id: str, lead: tuple[int, ...]) -> bool:
    """Whether an operand of an element-wise op has the same rows, or is a weight with one row for all."""
    if graph.is_static(value_id):
        return prod(_lead(graph, value_id)) == 1
    return _lead(graph, value_id) == lead


def part_around(graph: Graph, start: Op) -> tuple[Op, ...]:
    """The ops on the same rows that an op is connected with, in schedule order."""
    lead, found, stack = _lead(graph, start.outputs[0]), {start.id}, [start]
    while stack:
        op = stack.pop()
        makers = (graph.producer(v) for v in op.inputs if not graph.is_static(v))
        for other in (*makers, *graph.consumers(op.outputs[0])):
            if other is None or other.id in found or not _works_on_rows(graph, other):
                continue
            if _lead(graph, other.outputs[0]) == lead:
                found.add(other.id)
                stack.append(other)
    return tuple(op for op in graph.ops() if op.id in found)


@dataclass(frozen=True)
class FoldRows:
    """All ops on the same rows around one op, on one matrix."""

    op_id: str
    name: ClassVar[str] = "fold-rows"

    def apply(self, graph: Graph) -> int:
        start = graph.op(self.op_id)
        if not (_works_on_rows(graph, start) and _wastes(graph, start)):
            return 0
        part = part_around(graph, start)
        rows = prod(_lead(graph, start.outputs[0]))
        inside = {op.id for op in part}
        folded: dict[str, str] = {}
        for op in part:
            operands = [v if graph.is_static(v) else self._matrix(graph, op, v, rows, folded) for v in op.inputs]
            operands = [self._row(graph, op, v) if graph.is_static(v) else v for v in operands]
            made = emit(graph, op, op.op.removeprefix("ttnn."), operands, self._attrs(op))
            folded[op.outputs[0]] = made
        for op in part:
            self._unfold(graph, op, folded[op.outputs[0]], inside)
        return finish(graph, 1)

    @staticmethod
    def _matrix(graph: Graph, op: Op, value_id: str, rows: int, folded: dict[str, str]) -> str:
        if value_id not in folded:
            folded[value_id] = reshape(graph, op, value_id, (1, 1, rows, graph.value(value_id).shape[-1]))
        return folded[value_id]

    @staticmethod
    def _row(graph: Graph, op: Op, weight: str) -> str:
        """A weight of an element-wise op of more dims than the matrix has."""
        shape = graph.value(weight).shape
        return reshape(graph, op, weight, (1, 1, 1, shape[-1])) if len(shape) > 4 else weight

    @staticmethod
    def _attrs(op: Op) -> dict[str, Attr]:
        return {**op.attrs, "dim": 3} if op.op == "ttnn.concat" else dict(op.attrs)

    @staticmethod
    def _unfold(graph: Graph, op: Op, made: str, inside: set[str]) -> None:
        """The op's result in its own shape, where something outside reads it; the op goes."""
        result = op.outputs[0]
        needed = graph.is_output(result) or any(other.id not in inside for other in graph.consumers(result))
        graph.remove_op(op.id)
        maker = graph.producer(made)
        assert maker is not None
        value = graph.value(made)
        if graph.value(result).stands_for is not None:
            graph.set_value(replace(value, stands_for=graph.value(result).stands_for))
        if needed:
            emit(graph, maker, "reshape", [made], {"shape": graph.value(result).shape}, output=result)


def folded(graph: Graph, op: Op) -> Iterator[Site]:
    """The part around an op whose rows waste tiles, where the op is the first of it."""
    if not (_works_on_rows(graph, op) and _wastes(graph, op)):
        return
    part = part_around(graph, op)
    if part[0].id == op.id and len(part) >= LEAST_OPS:
        yield Site(FoldRows(op.id), tuple(other.id for other in part))
