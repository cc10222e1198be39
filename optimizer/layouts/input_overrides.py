"""Overrides of operands and graph inputs: a copy of its own for each, an op that the override is then about.

`override-output-layout` may name a graph input, or operand K of an op as tt-mlir names the conversion in front of it,
`OP_in_K_layout`. The caller hands inputs over in DRAM, so what the override says is true of the copy.
"""

from __future__ import annotations

import re
from dataclasses import replace

from optimizer.errors import OptionError
from optimizer.ir.graph import STATIC, Graph, Op, ValueKind
from optimizer.ir.vocabulary import COPY
from optimizer.layouts.overrides import entries, ids_by_name

_OPERAND = re.compile(r"(.+)_in_([0-9]{1,9})_layout$")


def with_overridden_inputs(graph: Graph, output_layout: str) -> None:
    """Insert the copies that an `override-output-layout` names; names of ops and unknown ones are left alone.

    OptionError for an operand that the op does not have.
    """
    ids = ids_by_name(graph)
    for name, _ in entries("override-output-layout", output_layout):
        found = _OPERAND.match(name)
        if name in ids:
            continue
        if name in graph.inputs:
            copy = _copied(graph, name, name, f"{name}_layout")
            graph.replace_uses(name, copy.outputs[0])
            graph.add_op(copy)
        elif found and found[1] in ids:
            _copy_operand(graph, graph.op(ids[found[1]]), int(found[2]), name)
    graph.sort()


def _copy_operand(graph: Graph, op: Op, position: int, name: str) -> None:
    if position >= len(op.inputs):
        message = f"override-output-layout names operand {position} of {len(op.inputs)}"
        raise OptionError(message, node=op.id, alternatives=[f"{op.name}_in_{k}_layout" for k in range(len(op.inputs))])
    copy = _copied(graph, op.inputs[position], name, name)
    graph.add_op(copy, at=op.id)
    inputs = (*op.inputs[:position], copy.outputs[0], *op.inputs[position + 1 :])
    graph.replace_op(replace(graph.op(op.id), inputs=inputs))


def _copied(graph: Graph, value_id: str, name: str, op_id: str) -> Op:
    """An op that copies a value, and the value that it gives."""
    op_id, source = graph.fresh_id(op_id), graph.value(value_id)
    weight = source.kind in STATIC
    kind = ValueKind.PARAMETER if weight else ValueKind.ACTIVATION
    copy = replace(source, id=graph.fresh_id(f"{op_id}_out"), kind=kind, data=None)
    graph.add_value(copy)
    return Op(op_id, COPY, (value_id,), (copy.id,), {}, name)
