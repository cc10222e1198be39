"""What is selected by its size is computed in f32, back to the inputs, where little leads to it.

Scores that bf16 makes equal, or turns round, select other rows than the model does, and no later op mends that. In f32
few are near enough to each other. Back through a whole network it would cost half of its speed, hence the limits: what
lies beyond them stays a numeric risk (`selection-of-rounded-scores`).
"""

from __future__ import annotations

from functools import partial

from optimizer.importers.passes.rewriting import Pass, finish
from optimizer.importers.passes.wider_values import can_widen, widen
from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import opdef

SELECTING = ("ttnn.topk", "ttnn.sort")
MOST_OPS = 48
"""Ops that lead to a selection,"""
MOST_PRODUCTS = 1 << 24
"""and their multiply-adds, up to which they are computed in f32: programs of this size take their start's time."""


@partial(Pass, "exact-selection")
def exact_selection(graph: Graph) -> int:
    """Compute what is selected from in f32; rewrites are the selecting ops."""
    done = 0
    for op_id in [op.id for op in graph.ops() if op.op in SELECTING]:
        root = graph.op(op_id)
        before = _leading_to(graph, root)
        products = sum(_products(graph, op) for op in before)
        if not can_widen(graph, root) or len(before) > MOST_OPS or products > MOST_PRODUCTS:
            continue
        widen(graph, [op_id, *(op.id for op in before)], inputs=True)
        done += 1
    return finish(graph, done)


def _leading_to(graph: Graph, root: Op) -> list[Op]:
    """All ops that an op depends on; those that only weights lead to do not run."""
    found, stack = dict[str, Op](), list(root.inputs)
    while stack:
        op = graph.producer(stack.pop())
        if op is not None and op.id not in found:
            found[op.id] = op
            stack += op.inputs
    runs = {op.id for op in graph.run_ops()}
    return [op for op in found.values() if op.id in runs]


def _products(graph: Graph, op: Op) -> int:
    """Multiply-adds of an op."""
    row = opdef(op.op)
    if row.products is None:
        return 0
    return row.products(row.full_attrs(op), [graph.value(v).shape for v in op.inputs]).multiply_adds
