"""Element-wise ops that write their result into an operand (`output_tensor=`).

The program, its buffers and its time are those of the op with a result of its own; nothing is allocated.
Source: answers of mock devices for every unary and binary op, native and foreign shards, broadcasts, all three types.
"""

from __future__ import annotations

from dataclasses import replace

from optimizer.ir.vocabulary import opdef
from optimizer.layouts.op_config import InPlaceConfig
from optimizer.opmodel.analytical.case import Case, Usage, need


def in_place(case: Case, usage: Usage, config: InPlaceConfig) -> Usage:
    """Usage of the op with the operand as its result; refused where that is not what the op gives."""
    name, k = case.query.op, config.operand
    need(opdef(name).in_place, f"{name} cannot write its result into an operand")
    need(k < len(case.inputs), f"{name} has no operand {k} to write its result into")
    need(all(t.layout.is_tile for t in case.inputs), "a result is written into an operand in tiles only")
    need(usage.outputs == (case.inputs[k],), f"the result of {name} is not laid out like operand {k}")
    made = case.l1(case.inputs[k])
    allocated = made if usage.l1 is None else usage.l1
    need(allocated == made, f"{name} makes other tensors before its result")
    peak = usage.cb + made if usage.peak is None else usage.peak
    return replace(usage, l1=0, peak=peak - made)
