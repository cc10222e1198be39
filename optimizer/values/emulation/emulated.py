"""One op, and a whole graph, as a device computes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optimizer import families
from optimizer.errors import ExecutionError
from optimizer.ir.dtype import DType
from optimizer.ir.vocabulary import opdef
from optimizer.opmodel.base import OpQuery
from optimizer.values.emulation.kinds import AnyArray, Rule, Step


def result_dtypes(query: OpQuery) -> tuple[DType, ...]:
    """Element types of a query's results."""
    row = opdef(query.op)
    count = row.num_outputs or 3
    found = row.result_dtypes(query.attr.get("dtype"), tuple(x.dtype for x in query.inputs), count)
    return found if query.output_dtype is None else (query.output_dtype,) * count


def emulated(query: OpQuery, operands: Sequence[AnyArray]) -> list[AnyArray]:
    """The results of a query for these operands. ExecutionError when there is no rule for the op."""
    step = Step(query.op, query.attr, tuple(x.dtype for x in query.inputs), result_dtypes(query), query.config)
    return computed(step, operands)


def computed(step: Step, operands: Sequence[AnyArray]) -> list[AnyArray]:
    """The results of an op."""
    rule: Rule | None = families.entry("EMULATIONS", step.op)
    if rule is None:
        raise ExecutionError(f"there is no emulation of {step.op}", node=step.op)
    with np.errstate(all="ignore"):
        return list(rule(step, operands))
