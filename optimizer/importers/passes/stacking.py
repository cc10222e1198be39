"""Tensors stacked along a new dim, and columns picked out one by one, with whole tiles moved where that can be."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import partial

from optimizer.importers.passes.rewriting import (
    Pass,
    Shape,
    drop_dead,
    emit,
    finish,
    fuse,
    is_static,
    only_use,
    origins,
    permute,
    produced_by,
    reshape,
    rewrites_each,
)
from optimizer.ir.graph import Graph, Op
from optimizer.layouts.tiling import TILE


@rewrites_each("stack-rows", "concat")
def stack_rows(graph: Graph, joined: Op) -> int:
    """Rows [.., C] that each become [.., 1, C], joined to [.., N, C] -> joined to [.., N*C], then cut into rows.

    One reshape in place of N; C must be whole tiles.
    """
    if len(joined.inputs) < 2:
        return 0
    shape = graph.value(joined.outputs[0]).shape
    axis = int(joined.attr("dim")) % len(shape)
    spreads = [produced_by(graph, v, "reshape") for v in joined.inputs]
    found = [s for s in spreads if s is not None and _becomes_row(graph, s)]
    if axis != len(shape) - 2 or len(found) != len(joined.inputs) or shape[-1] % TILE:
        return 0
    attrs = {"dim": len(shape) - 2}
    like = replace(joined, origin=origins([*found, joined]))
    wide = emit(graph, like, "concat", [s.inputs[0] for s in found], attrs)
    fuse(graph, joined, joined, "reshape", [wide], {"shape": shape}, found)
    return 1


def _becomes_row(graph: Graph, spread: Op) -> bool:
    """[.., C] to [.., 1, C], of something to compute and with rows to gather."""
    before, after = (graph.value(v).shape for v in (spread.inputs[0], spread.outputs[0]))
    return after == (*before[:-1], 1, before[-1]) and len(before) > 1 and not is_static(graph, spread.inputs[0])


@partial(Pass, "pick-columns")
def pick_columns(graph: Graph) -> int:
    """Columns [R, 1] of one matrix, each reshaped to [R] -> rows of the transposed matrix, whose reshapes are views."""
    picked: dict[str, list[tuple[Op, Op]]] = defaultdict(list)
    for op in graph.ops():
        after = only_use(graph, op.outputs[0]) if op.op == "ttnn.slice" else None
        if after is not None and after.op == "ttnn.reshape" and _is_column(graph, op):
            rows = graph.value(after.inputs[0]).shape[0]
            if graph.value(after.outputs[0]).shape in ((rows,), (1, rows)):
                picked[op.inputs[0]].append((op, after))
    pairs = [(x, columns) for x, columns in picked.items() if len(columns) > 1]
    return finish(graph, sum(_turn(graph, x, columns) for x, columns in pairs))


def _turn(graph: Graph, x: str, columns: list[tuple[Op, Op]]) -> int:
    turned = permute(graph, columns[0][0], x, (1, 0))
    rows = graph.value(turned).shape[1]
    for cut, flat in columns:
        index = cut.attr("begins")[1]
        attrs = {"begins": (index, 0), "ends": (index + 1, rows), "steps": (1, 1)}
        like = replace(cut, origin=origins([cut, flat]))
        row = emit(graph, like, "slice", [turned], attrs)
        graph.remove_op(flat.id)
        reshape(graph, like, row, graph.value(flat.outputs[0]).shape, output=flat.outputs[0])
        drop_dead(graph, [cut.id])
    return len(columns)


def _is_column(graph: Graph, cut: Op) -> bool:
    whole: Shape = graph.value(cut.inputs[0]).shape
    steps = cut.attrs.get("steps") or (1, 1)
    column = len(whole) == 2 and graph.value(cut.outputs[0]).shape == (whole[0], 1) and whole[1] > 1
    return column and steps == (1, 1) and not is_static(graph, cut.inputs[0])
