"""Questions that tt-metal answers with yes and whose kernels then give wrong values, or write beyond their result.

Each rule was found on tt-metal's simulator (`benchmarks/layout_values.py`: values against float64, canaries around
every L1 tensor); its docstring names the C++ behind it, where that is known, and what was run. Every backend asks here
before it answers: validation and allocation on a mock device cannot see any of this.
"""

from __future__ import annotations

from optimizer import families
from optimizer.families.elementwise.faults import element_wise
from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.fault_rules import Rule


def fault(query: OpQuery) -> str | None:
    """What goes wrong when tt-metal runs an op so; None where nothing is known to."""
    if not query.inputs or not query.inputs[0].shape:
        return None
    rule: Rule | None = families.entry("FAULTS", query.op)
    if rule is not None:
        return rule(query)
    return element_wise(query) if opdef(query.op).cost_class is CostClass.ELTWISE else None
