"""Where residual branches end: the products whose results are added to what they were made of.

Such a product's random weights are scaled by one over the root of the number of branches behind each other, as GPT-2 is
initialised (Radford et al. 2019, "Language models are unsupervised multitask learners", section 2.3). Without that the
rows of a deep network's values grow alike, and an output around its mean is nearly nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from optimizer.ir.graph import Graph, Op, ValueKind
from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef

_ADD = "ttnn.add"
_PRODUCTS = (CostClass.MATMUL, CostClass.CONV)


def branch_ends(graph: Graph) -> dict[str, int]:
    """Product at the end of a residual branch -> how many branches lie behind each other where it is."""
    branches = _branches(graph)
    before, behind = _levels(graph, branches), _levels(graph, branches, backwards=True)
    found: dict[str, int] = {}
    for add, branch in branches.items():
        end = _end(graph, branch)
        if end is not None:
            found[end] = before[add] + behind[add] - 1
    return found


def _branches(graph: Graph) -> dict[str, str]:
    """Residual addition -> its operand that is made of the other one."""
    made_of: dict[str, int] = {v: 1 << k for k, v in enumerate(graph.inputs)}
    found = {}
    for number, op in enumerate(graph.ops(), len(graph.inputs)):
        if op.op == _ADD and len(op.inputs) == 2 and all(_computed(graph, v) for v in op.inputs):
            first, second = (_unmoved(graph, v) for v in op.inputs)
            if made_of[first] | made_of[second] == made_of[first] != made_of[second]:
                found[op.id] = op.inputs[0]
            elif made_of[first] | made_of[second] == made_of[second] != made_of[first]:
                found[op.id] = op.inputs[1]
        history = 1 << number
        for v in op.inputs:
            history |= made_of.get(v, 0)
        made_of.update(dict.fromkeys(op.outputs, history))
    return found


def _levels(graph: Graph, counted: Iterable[str], *, backwards: bool = False) -> dict[str, int]:
    """Counted op -> most counted ops on a way to it, itself among them; or on a way from it."""
    ops, counted = list(graph.ops()), set(counted)
    level: dict[str, int] = {}
    found = {}
    for op in reversed(ops) if backwards else ops:
        read, given = (op.outputs, op.inputs) if backwards else (op.inputs, op.outputs)
        own = max((level.get(v, 0) for v in read), default=0) + (op.id in counted)
        if op.id in counted:
            found[op.id] = own
        for v in given:
            level[v] = max(level.get(v, 0), own)
    return found


def _end(graph: Graph, value_id: str) -> str | None:
    """The product that a branch ends with, looked for behind ops of one computed operand that keep a factor."""
    op = graph.producer(value_id)
    while op is not None:
        if opdef(op.op).cost_class in _PRODUCTS:
            return op.id
        computed = [v for v in op.inputs if _computed(graph, v)]
        if len(computed) != 1 or not _keeps_a_factor(op):
            return None
        op = graph.producer(computed[0])
    return None


def _keeps_a_factor(op: Op) -> bool:
    return opdef(op.op).moves_elements or op.op in (_ADD, "ttnn.multiply")


def _computed(graph: Graph, value_id: str) -> bool:
    """Whether a value is computed of inputs, or one."""
    return graph.value(value_id).kind in (ValueKind.ACTIVATION, ValueKind.INPUT)


def _unmoved(graph: Graph, value_id: str) -> str:
    """The value whose elements another one's are, as they are."""
    op = graph.producer(value_id)
    while op is not None and opdef(op.op).moves_elements and len(op.inputs) == 1:
        value_id = op.inputs[0]
        op = graph.producer(value_id)
    return value_id
