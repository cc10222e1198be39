"""Norms of every channel over many rows (instance norms over time), which TTNN's `group_norm` computes slowly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from optimizer.importers.passes.convolution_ways import put
from optimizer.importers.passes.rewriting import emit, finish, permute, reshape
from optimizer.ir.graph import Attr, Graph, Op
from optimizer.rewrites.way import Site

_NORM = "ttnn.group_norm"


def _is_by_channel(graph: Graph, op: Op) -> bool:
    return op.op == _NORM and op.attr("num_groups") == graph.value(op.inputs[0]).shape[3] > 1


def _scaled(graph: Graph, op: Op, result: str) -> int:
    """Scale and shift of every channel, in the place of the norm."""
    channels = graph.value(op.inputs[0]).shape[3]
    for name, operand in zip(("multiply", "add"), op.inputs[1:], strict=False):
        result = emit(graph, op, name, [result, reshape(graph, op, operand, (1, 1, 1, channels))], {})
    put(graph, op, result)
    return finish(graph, 1)


@dataclass(frozen=True)
class NormOfRows:
    """Channels as rows: a layer norm between two transposes."""

    op_id: str
    name: ClassVar[str] = "norm-of-rows"

    def apply(self, graph: Graph) -> int:
        op = graph.op(self.op_id)
        if not _is_by_channel(graph, op):
            return 0
        rows = permute(graph, op, op.inputs[0], (0, 1, 3, 2))
        normed = emit(graph, op, "layer_norm", [rows], {"epsilon": op.attr("epsilon")})
        return _scaled(graph, op, permute(graph, op, normed, (0, 1, 3, 2)))


@dataclass(frozen=True)
class NormByMeans:
    """(x - mean) * rsqrt(mean((x - mean)^2) + epsilon), over the rows."""

    op_id: str
    name: ClassVar[str] = "norm-by-means"

    def apply(self, graph: Graph) -> int:
        op = graph.op(self.op_id)
        if not _is_by_channel(graph, op):
            return 0
        over: dict[str, Attr] = {"dim": (2,), "keepdim": True}
        mean = emit(graph, op, "mean", [op.inputs[0]], over)
        centred = emit(graph, op, "subtract", [op.inputs[0], mean], {})
        square = emit(graph, op, "square", [centred], {})
        variance = emit(graph, op, "mean", [square], over)
        above = emit(graph, op, "add", [variance], {"scalar": op.attr("epsilon")})
        return _scaled(graph, op, emit(graph, op, "multiply", [centred, emit(graph, op, "rsqrt", [above], {})], {}))


def by_channel(graph: Graph, op: Op) -> Iterator[Site]:
    """Both ways of a norm of every channel."""
    if _is_by_channel(graph, op):
        yield Site(NormOfRows(op.id), (op.id,))
        yield Site(NormByMeans(op.id), (op.id,))
