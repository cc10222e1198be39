"""Permutes that swap two blocks of dims, as the transpose of a matrix: tiles are turned, no single elements moved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from optimizer.importers.passes.convolution_ways import put
from optimizer.importers.passes.rewriting import emit, finish, permuted_dims, reshape
from optimizer.ir.graph import Graph, Op
from optimizer.rewrites.way import Site


def _swapped(shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Sizes of the dims before, and of the two blocks that a permute swaps; None if it does anything else, or nothing
    that the transpose of the last two dims does not."""
    long = [d for d in dims if shape[d] > 1]
    kept = 0
    while kept < len(long) and long[kept] == sorted(long)[kept]:
        kept += 1
    moved = long[kept:]
    cut = next((k for k in range(1, len(moved)) if moved[k] < moved[k - 1]), None)
    if cut is None or [*moved[cut:], *moved[:cut]] != sorted(moved) or (len(moved) == 2 and dims[-2:] == (
        len(dims) - 1, len(dims) - 2,
    )):  # fmt: skip
        return None
    first, second = (prod(shape[d] for d in block) for block in (moved[cut:], moved[:cut]))
    return prod(shape[d] for d in long[:kept]), first, second


@dataclass(frozen=True)
class TransposeMatrix:
    """The blocks as rows and columns of one matrix."""

    op_id: str
    name: ClassVar[str] = "transpose-matrix"

    def apply(self, graph: Graph) -> int:
        op = graph.op(self.op_id)
        found = _swapped(graph.value(op.inputs[0]).shape, permuted_dims(op)) if op.op == "ttnn.permute" else None
        if found is None:
            return 0
        matrix = reshape(graph, op, op.inputs[0], (1, *found))
        turned = emit(graph, op, "permute", [matrix], {"dims": (0, 1, 3, 2)})
        put(graph, op, reshape(graph, op, turned, graph.value(op.outputs[0]).shape))
        return finish(graph, 1)


def transposes(graph: Graph, op: Op) -> Iterator[Site]:
    """The way of a permute and the reshapes around it."""
    if op.op == "ttnn.permute" and _swapped(graph.value(op.inputs[0]).shape, permuted_dims(op)) is not None:
        yield Site(TransposeMatrix(op.id), (op.id,))
