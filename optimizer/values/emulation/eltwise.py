"""Element-wise ops: sums, differences and products on the matrix unit, all else on the vector unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from optimizer.ir.activations import OPERAND_ACTIVATIONS
from optimizer.ir.dtype import DType
from optimizer.ir.opdef import CostClass, Elements
from optimizer.ir.vocabulary import BINARY, UNARY, UNARY_PARAMS, op_names, opdef, short_name
from optimizer.kernels.tensix.rounding import BLOCK_BITS, Array
from optimizer.values.emulation import functions
from optimizer.values.emulation.functions import CUT_OFF, activation
from optimizer.values.emulation.kinds import AnyArray, Rule, Step, in_f32
from optimizer.values.emulation.units import Units, converted
from optimizer.values.reference import eltwise as exact
from optimizer.values.reference import reductions
from optimizer.values.reference.kinds import Computed

_ON_MATRIX_UNIT = ("add", "subtract", "multiply")
_UPPER = np.uint32(0xFFFF0000)


def value_of(result: Any) -> AnyArray:
    return np.asarray(result.value if isinstance(result, Computed) else result)


def rounded_once(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    """The exact value, rounded as the vector unit and the packer round."""
    rule: Callable[..., Any] = exact.RULES.get(step.op) or reductions.RULES[step.op]
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
    rule: Callable[..., Any] = exact.RULES[step.op]
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
    rule: Callable[..., Any] = exact.RULES[op]
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


def _rotary(step: Step, operands: Sequence[AnyArray]) -> Sequence[AnyArray]:
    """x * cos + rotate_half(x) * sin; both products are kept in circular buffers (`rotary_embedding.cpp`).

    Operands of 16 bits are added in registers of 16 bits, whatever the compute config says.
    """
    units, kept = Units("HiFi4", DType.F32 in step.dtypes), step.results[0]
    x, cos, sin = (in_f32(a) for a in operands)
    cos, sin = cos[..., : x.shape[-2], :], sin[..., : x.shape[-2], :]
    half = x.shape[-1] // 2
    turned = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    first = units.packed(units.times(x, cos, (step.dtypes[0], step.dtypes[1])), kept)
    second = units.packed(units.times(turned, sin, (step.dtypes[0], step.dtypes[2])), kept)
    return [units.packed(units.plus(first, second, (kept, kept)), kept)]


_OTHERS = [
    name
    for name in op_names()
    if opdef(name).cost_class is CostClass.ELTWISE and name in exact.RULES and name != "ttnn.typecast"
]
RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_OTHERS, rounded_once),
    **{f"ttnn.{name}": _unary for name in (*UNARY, *UNARY_PARAMS)},
    **{f"ttnn.{name}": _binary for name in BINARY},
    "ttnn.rotary_embedding": _rotary,
}
