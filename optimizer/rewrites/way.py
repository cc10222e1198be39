"""A rewrite of one part of a graph, and the rules that find them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from optimizer.importers.passes.convolution_ways import Way
from optimizer.importers.passes.rewriting import finish
from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import RESHAPE


@dataclass(frozen=True)
class Site:
    """A part of a graph that may be computed in another way."""

    way: Way
    ops: tuple[str, ...]
    """Ids of the ops that it takes the place of, in schedule order."""

    @property
    def parts(self) -> int | None:
        """In how many parts, where the way is open in several."""
        return getattr(self.way, "parts", None)

    def apply(self, graph: Graph) -> int:
        """Rewrite in place, with one reshape for several in a row; 0 where the way is not open."""
        if not self.way.apply(graph):
            return 0
        for op in graph.ops():
            if op.op == RESHAPE:
                _join(graph, op)
        return finish(graph, 1)


def _join(graph: Graph, op: Op) -> None:
    """A reshape of a reshape as one, or as none."""
    source = op.inputs[0]
    while (maker := graph.producer(source)) is not None and maker.op == RESHAPE:
        source = maker.inputs[0]
    result = op.outputs[0]
    if graph.value(source).shape == graph.value(result).shape and not graph.is_output(result):
        graph.replace_uses(result, source)
        graph.remove_op(op.id)
    elif source != op.inputs[0]:
        graph.replace_op(replace(op, inputs=(source,)))


Rule = Callable[[Graph, Op], Iterable[Site]]
"""The sites that begin at an op."""
