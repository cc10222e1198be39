"""Element-wise ops: sums, differences and products on the matrix unit, all else on the vector unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from optimizer import families
from optimizer.families.elementwise.reference import RULES
from optimizer.families.elementwise.rows import BINARY, ROWS, UNARY, UNARY_PARAMS
from optimizer.families.movement.emulation import kept, moved
from optimizer.ir.activations import OPERAND_ACTIVATIONS
from optimizer.ir.dtype import DType
from optimizer.ir.opdef import ON_HOST, Elements, short_name
from optimizer.ir.vocabulary import opdef
from optimizer.kernels.tensix.device.formats import truncated
from optimizer.kernels.tensix.rounding import BLOCK_BITS, Array, round_bf16
from optimizer.values.emulation import functions
from optimizer.values.emulation.functions import CUT_OFF, activation
from optimizer.values.emulation.kinds import AnyArray, Rule, Step, in_f32
from optimizer.values.emulation.units import BLOCK, Units, by_rows, converted, whole_blocks
from optimizer.values.reference.kinds import Computed

_ON_MATRIX_UNIT = ("add", "subtract", "multiply")
_UPPER = np.uint32(0xFFFF0000)


def value_of(result: Any) -> AnyArray:
    return np.asarray(result.value if isinstance(result, Computed) else result)


def rounded_once(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    """The exact value, rounded as the vector unit and the packer round."""
    rule: Callable[..., Any] = families.entry("RULES", step.op)
    found = [value_of(r) for r in rule(step.attrs, [_double(x) for x in operands])]
    nearest = short_name(step.op) not in CUT_OFF
    return [_out(step, x, dtype, nearest) for x, dtype in zip(found, step.results, strict=False)]


def _double(x: AnyArray) -> AnyArray:
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def _out(step: Step, values: AnyArray, dtype: DType, nearest: bool = True) -> AnyArray:
    if not dtype.is_float:
        return values
    units = step.units
    return units.packed(units.function(values, nearest), dtype)


def _unary(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    if operands[0].dtype.kind != "f":
        return rounded_once(step, operands)
    rule: Callable[..., Any] = RULES[step.op]
    x, units, result = in_f32(operands[0]), step.units, step.results[0]

    def exactly(v: AnyArray) -> AnyArray:
        return value_of(rule(step.attrs, [v])[0])

    if not result.is_float:
        return [exactly(x.astype(np.float64))]
    return [units.packed(functions.computed(units, x, short_name(step.op), exactly), result)]


# -- two operands ---------------------------------------------------------------------------------------------
def _binary(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    name = short_name(step.op)
    if operands[0].dtype.kind != "f" or not step.results[0].is_float:
        return rounded_once(step, operands)
    units = step.units
    (a, b), dtypes = _operands(step, units, operands)
    if name in _ON_MATRIX_UNIT and not _precise(name, dtypes):
        held = _on_matrix_unit(name, units, a, b, dtypes)
    elif name == "squared_difference" and not _precise(name, dtypes):
        held = units.function(units.minus(a, b, dtypes) ** 2)
    else:
        held = units.function(_of_two(step.op, units, a.astype(np.float64), b.astype(np.float64)), name not in CUT_OFF)
    for named in step.attrs.get("activations") or ():
        held = activation(units, held, named)
    return [units.packed(held, step.results[0])]


def _of_two(op: str, units: Units, a: AnyArray, b: AnyArray) -> AnyArray:
    """A function of two operands, in float64. Powers of 16 bits are made as exponentials are."""
    if op == "ttnn.pow" and not units.wide:
        return np.where(a > 0, functions.exp_of_16_bits(b * np.log(np.abs(a))), np.power(a, b))
    rule: Callable[..., Any] = RULES[op]
    return value_of(rule({}, [a, b])[0])


def _precise(name: str, dtypes: tuple[DType, DType]) -> bool:
    """Whether the vector unit does what the matrix unit could: of f32 alone, and products without block floats."""
    return set(dtypes) == {DType.F32} or (name == "multiply" and not BLOCK_BITS.keys() & set(dtypes))


def _operands(step: Step, units: Units, operands: Sequence[AnyArray]) -> tuple[list[Array], tuple[DType, DType]]:
    """Both, with what the op applies to them first."""
    given = [in_f32(x) for x in operands]
    dtypes = list(step.dtypes)
    if len(given) == 1:
        kind = DType.F32 if step.dtypes[0] is DType.F32 else DType.BF16
        given.append(_scalar(step, kind))
        dtypes.append(kind)
    for index, attribute in enumerate(OPERAND_ACTIVATIONS):
        for named in step.attrs.get(attribute) or ():
            kept = DType.BF16 if dtypes[index] in BLOCK_BITS else dtypes[index]
            given[index] = units.packed(activation(units, given[index], named), kept)
    return given, (dtypes[0], dtypes[1])


def _scalar(step: Step, kind: DType) -> Array:
    """A number comes as bf16 beside operands of 16 bits or fewer; to the kernels that select one, cut off."""
    number = np.asarray(step.attrs["scalar"], np.float32)
    if kind is DType.BF16 and opdef(step.op).elements is Elements.SELECTED:
        return (number.view(np.uint32) & _UPPER).view(np.float32)
    return converted(number, kind)


def _on_matrix_unit(name: str, units: Units, a: Array, b: Array, dtypes: tuple[DType, DType]) -> Array:
    if name == "multiply":
        return units.times(a, b, dtypes)
    return units.plus(a, b, dtypes) if name == "add" else units.minus(a, b, dtypes)


def _typecast(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    """f32 becomes bf16 by the vector unit, to the nearest even; block floats are made by the packer, which here rounds
    but once, or by the host."""
    source, target = step.dtypes[0], step.results[0]
    if not source.is_float or not target.is_float:
        return moved(step, operands)
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


EMULATIONS: Mapping[str, Rule] = {
    **dict.fromkeys(ROWS, rounded_once),
    **{f"ttnn.{name}": _unary for name in (*UNARY, *UNARY_PARAMS)},
    **{f"ttnn.{name}": _binary for name in BINARY},
    "ttnn.identity": moved,
    "ttnn.typecast": _typecast,
}
