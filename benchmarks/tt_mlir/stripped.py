"""A plan as the problem it solves: the same ops without layouts, copies and configs."""

from __future__ import annotations

from dataclasses import replace

from optimizer.ir.graph import Graph, Op, ValueKind
from optimizer.ir.opdef import Page
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import PageLayout
from tt_mlir.configs import CONV_EXTRAS
from tt_mlir.program import COPY, RETILE, PlanProgram

_PLACES = (*CONV_EXTRAS, "applied_shard_scheme")
"""Attributes that say how an op is run, not what it computes."""


def stripped(program: PlanProgram) -> Graph:
    """The ops of a plan, in its order, free of layouts.

    Copies between memories go, and conversions between tiles and rows that the plan makes on its way: whoever lays the
    graph out makes those that its ops need. Where the caller hands a tensor over in rows, its conversion stays: that
    is part of the problem.
    """
    graph = program.graph.copy()
    for op in program.graph.ops():
        if op.op == COPY or (op.op == RETILE and not _of_input(graph, program, op)):
            graph.replace_uses(op.outputs[0], graph.op(op.id).inputs[0])
            graph.remove_op(op.id)
        elif any(name in op.attrs for name in _PLACES):
            kept = {k: v for k, v in op.attrs.items() if k not in _PLACES}
            graph.replace_op(replace(graph.op(op.id), attrs=kept))
    for op in list(graph.ops()):
        if op.op == RETILE:
            _read_rows(graph, op)
    graph.prune()
    graph.sort()
    return graph


def _of_input(graph: Graph, program: PlanProgram, op: Op) -> bool:
    """Whether an op tiles what the caller hands over in rows."""
    source = graph.op(op.id).inputs[0]
    rows = program.layouts[source].page_layout is PageLayout.ROW_MAJOR
    return graph.value(source).kind is ValueKind.INPUT and rows and op.attrs["layout"] == PageLayout.TILE.value


def _read_rows(graph: Graph, retile: Op) -> None:
    """Ops that take rows read an input as it comes, not its tiles."""
    raw, tiled = retile.inputs[0], retile.outputs[0]
    for op in graph.consumers(tiled):
        row = opdef(op.op)
        inputs = tuple(
            raw if v == tiled and row.required_page(op, k) is Page.ROW_MAJOR else v for k, v in enumerate(op.inputs)
        )
        if inputs != op.inputs:
            graph.replace_op(replace(op, inputs=inputs))
