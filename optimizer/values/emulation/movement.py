"""Ops that move elements, and those that change their type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from optimizer.ir.dtype import DType
from optimizer.ir.opdef import ON_HOST, Elements
from optimizer.ir.vocabulary import op_names, opdef
from optimizer.kernels.tensix.device.formats import truncated
from optimizer.kernels.tensix.rounding import Array, round_bf16
from optimizer.values.emulation.kinds import AnyArray, Rule, Step, in_f32
from optimizer.values.emulation.units import BLOCK, Units, by_rows, converted, whole_blocks
from optimizer.values.reference import RULES as EXACT
from optimizer.values.reference.kinds import Computed

NARROW = (DType.BFP4_B, DType.BFP8_B, DType.BF16, DType.F32)


def kept(values: AnyArray, source: DType, target: DType) -> AnyArray:
    """Elements of one type in tensors of another: packed again where that has fewer bits or shares exponents."""
    if not source.is_float or not target.is_float:
        return values
    if target is source and not target.is_block_float:
        return values
    return Units("HiFi4", source is DType.F32).packed(in_f32(values), target)


def _moved(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    found = [r.value if isinstance(r, Computed) else r for r in EXACT[step.op](step.attrs, list(operands))]
    source = next((d for d in step.dtypes if d.is_float), DType.F32)
    return [
        kept(np.asarray(x, np.float32 if x.dtype.kind == "f" else x.dtype), source, target)
        for x, target in zip(found, step.results, strict=False)
    ]


def _typecast(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    """f32 becomes bf16 by the vector unit, to the nearest even; block floats are made by the packer, which here rounds
    but once, or by the host."""
    source, target = step.dtypes[0], step.results[0]
    if not source.is_float or not target.is_float:
        return _moved(step, operands)
    x = in_f32(operands[0])
    if step.attrs.get(ON_HOST):
        return [converted(x, target)]
    if (source, target) == (DType.F32, DType.BF16):
        return [round_bf16(x)]
    return [in_blocks(x, 7) if target is DType.BFP8_B else kept(x, source, target)]


def in_blocks(values: Array, bits: int) -> Array:
    """16 bits of a number to a block format, to the nearest of `bits` bits, ties away from zero."""
    return by_rows(lambda part: _in_blocks(part, bits), values)


def _in_blocks(values: Array, bits: int) -> Array:
    groups = whole_blocks(truncated(values)).astype(np.float64).reshape(*values.shape[:-1], -1, BLOCK)
    quantum = np.ldexp(1.0, np.frexp(np.abs(groups).max(axis=-1, keepdims=True))[1] - bits)
    steps = np.minimum(np.floor(np.abs(groups) / quantum + 0.5), 2**bits - 1)
    made = np.copysign(steps * quantum, groups).reshape(*values.shape[:-1], -1).astype(np.float32) + np.float32(0)
    return made[..., : values.shape[-1]]


_MADE = [name for name in op_names() if name in EXACT and opdef(name).max_inputs == 0]
RULES: Mapping[str, Rule] = {
    **dict.fromkeys((*_MADE, "ttnn.scatter_add"), _moved),
    **{n: _moved for n in op_names() if n in EXACT and opdef(n).elements in (Elements.MOVED, Elements.KEPT)},
    "ttnn.typecast": _typecast,
}
