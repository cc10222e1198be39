"""Ops that move elements, and those that change their type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from optimizer import families
from optimizer.families.movement.rows import ROWS
from optimizer.ir.dtype import DType
from optimizer.values.emulation.kinds import AnyArray, Rule, Step, in_f32
from optimizer.values.emulation.units import Units
from optimizer.values.reference.kinds import Computed

NARROW = (DType.BFP4_B, DType.BFP8_B, DType.BF16, DType.F32)


def kept(values: AnyArray, source: DType, target: DType) -> AnyArray:
    """Elements of one type in tensors of another: packed again where that has fewer bits or shares exponents."""
    if not source.is_float or not target.is_float:
        return values
    if target is source and not target.is_block_float:
        return values
    return Units("HiFi4", source is DType.F32).packed(in_f32(values), target)


def moved(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    rule = families.entry("RULES", step.op)
    found = [r.value if isinstance(r, Computed) else r for r in rule(step.attrs, list(operands))]
    source = next((d for d in step.dtypes if d.is_float), DType.F32)
    return [
        kept(np.asarray(x, np.float32 if x.dtype.kind == "f" else x.dtype), source, target)
        for x, target in zip(found, step.results, strict=False)
    ]


EMULATIONS: Mapping[str, Rule] = dict.fromkeys(ROWS, moved)
