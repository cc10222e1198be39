"""TTNN-dialect ops as ops of our vocabulary: one rule per op (`compute_rules`, `movement_rules`).

A rule reads one op of a plan and says which of our ops does the same, on which operands and with which attributes
and config. `translate` raises UnsupportedOpError, naming the op, for what the vocabulary lacks.
"""

from __future__ import annotations

from optimizer.errors import GraphError, UnsupportedOpError
from optimizer.ir.dtype import DType
from tt_mlir.compute_rules import COMPUTE_RULES
from tt_mlir.document import PlanFunction, PlanOp, PlanTensor
from tt_mlir.movement_rules import MOVEMENT_RULES
from tt_mlir.site import Site, Translation

_RULES = {**COMPUTE_RULES, **MOVEMENT_RULES}


def translate(function: PlanFunction, op: PlanOp, notes: list[str]) -> Translation:
    """Our op for an op of a plan; UnsupportedOpError or GraphError names it.

    What is not taken over as it stands is added to `notes`.
    """
    site = Site(function, op, notes)
    rule = _RULES.get(op.op)
    if rule is None:
        raise UnsupportedOpError("the vocabulary has no such op", node=site.place)
    try:
        return rule(site)
    except (AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise GraphError(f"operands or attributes do not fit: {error!r}", node=site.place) from error


def translated_ops() -> tuple[str, ...]:
    """Names of the ops that have a rule, sorted."""
    return tuple(sorted(_RULES))


def result_dtype(tensor: PlanTensor) -> DType:
    """Element type of a tensor; GraphError for what is none."""
    if tensor.dtype is None:
        raise GraphError("not a tensor", node=tensor.id)
    return tensor.dtype
