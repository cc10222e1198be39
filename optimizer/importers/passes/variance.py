"""Variances that exporters write as the difference of two means, computed from centred values instead."""

from __future__ import annotations

from optimizer.importers.passes.rewriting import emit, fuse, produced_by, rewrites_each
from optimizer.ir.graph import Attr, Graph, Op
from optimizer.ir.vocabulary import opdef


@rewrites_each("centred-variance", "subtract")
def centred_variance(graph: Graph, root: Op) -> int:
    """mean(x^2) - mean(x)^2 -> mean((x - mean(x))^2): the same number, of which bf16 keeps what the difference loses.

    Runs where arithmetic is in one spelling (x*x is a square), before the patterns of norms, which then find it.
    """
    if len(root.inputs) != 2 or root.attrs.get("activations"):
        return 0
    squares, squared_mean = produced_by(graph, root.inputs[0], "mean"), produced_by(graph, root.inputs[1], "square")
    square = None if squares is None else produced_by(graph, squares.inputs[0], "square")
    mean = None if squared_mean is None else produced_by(graph, squared_mean.inputs[0], "mean")
    if squares is None or squared_mean is None or square is None or mean is None:
        return 0
    x = square.inputs[0]
    if mean.inputs[0] != x or _dims(graph, mean) != _dims(graph, squares):
        return 0
    keep = bool(opdef(squares.op).attr(squares, "keepdim"))
    if bool(opdef(mean.op).attr(mean, "keepdim")) is not keep:
        return 0
    dims: Attr = _dims(graph, mean)
    kept = mean.outputs[0] if keep else emit(graph, root, "mean", [x], {"dim": dims, "keepdim": True})
    spread = emit(graph, root, "square", [_centred(graph, root, x, kept)], {})
    absorbed = [squares, square, squared_mean, mean]
    fuse(graph, root, root, "mean", [spread], {"dim": dims, "keepdim": keep}, absorbed)
    return 1


def _dims(graph: Graph, op: Op) -> tuple[int, ...]:
    """The dims that a mean is over, counted from the front."""
    rank = len(graph.value(op.inputs[0]).shape)
    dim = opdef(op.op).attr(op, "dim")
    given = range(rank) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    return tuple(sorted(int(d) % rank for d in given))  # type: ignore[arg-type]


def _centred(graph: Graph, like: Op, x: str, mean: str) -> str:
    """x - mean, of the graph's own op for it where there is one."""
    for op in graph.consumers(x):
        if op.op == "ttnn.subtract" and op.inputs == (x, mean) and not op.attrs.get("activations"):
            return op.outputs[0]
    return emit(graph, like, "subtract", [x, mean], {})
