"""How exact one run of an op is: what it adds to its result besides the errors that its operands came with.

Operands are normal-like and of mixed signs, so that a sum of K products has a mean square of K times a product's; then
relative errors of the products are those of the sum, whatever K is. What the units of a core do is in
docs/tensix-values.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, prod
from typing import Any

from optimizer.ir.compute_config import COMPUTE
from optimizer.ir.dtype import DType
from optimizer.ir.opdef import CostClass, Elements
from optimizer.ir.vocabulary import CAST, opdef, short_name
from optimizer.opmodel.base import OpQuery
from optimizer.precision.storing import EXACT, Noise, cutting_noise, packing_noise, rounding_noise

__all__ = ["Noise", "added_noise", "packing_noise", "rounding_noise"]

_TILE = 32
_SUMS = (CostClass.MATMUL, CostClass.CONV)
_SOURCE_A_BITS = {"LoFi": 5, "HiFi2": 10, "HiFi3": 10, "HiFi4": 10}
"""Bits of a significand that all passes together take of source register A, which holds a matmul's operand B."""
_SOURCE_B_BITS = {"LoFi": 7, "HiFi2": 7, "HiFi3": 11, "HiFi4": 11}
"""The same of source register B, which holds its operand A."""
_PASSES = {"LoFi": 1, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4}
_ADDITIONS_PER_TILE = 2
"""Sums of 16 products that a pass adds to a destination register for a tile along K."""
_ALIGNED = 6e-8
"""Of the eight products that are added at the exponent of the largest, with 12 bits each; per pass."""
_NARROW_GAIN = ((0, 0.0), (8, 0.0031), (16, 0.0062), (32, 0.0108), (64, 0.0171), (128, 0.0174))
"""Additions to a register of 16 bits -> gain, as they round ties away from zero. Measured with HiFi2 and operands of
mixed signs (docs/cost-model.md, "Fidelity"), the passes' own loss taken off."""
_NARROW_VARIANCE = rounding_noise(DType.BF16).variance / 2
"""Of one addition to a register of 16 bits: it rounds a sum that is on average half as large (mean square) as the
last."""
_HELD_BITS = {True: 11, False: 8}
"""Bits of an f32 significand that a source register holds, by whether destination registers have 32 bits."""


@dataclass(frozen=True)
class _Compute:
    """The compute config of a query; of one that states none, TTNN's usual one for element-wise ops."""

    fidelity: str = "HiFi4"
    wide: bool = False
    packer_adds: bool = False
    approximate: bool = False

    @staticmethod
    def of(query: OpQuery) -> _Compute:
        given: Any = query.attr.get(COMPUTE)
        if not given:
            return _Compute()
        stated: Mapping[str, Any] = dict(given)
        return _Compute(
            str(stated.get("fid", "HiFi4")),
            bool(stated.get("fp32")),
            bool(stated.get("l1acc")),
            bool(stated.get("approx")),
        )


def added_noise(query: OpQuery, result: DType) -> Noise:
    """What one run of this query adds to its result, its operands taken as they are stored; storing it included."""
    if not result.is_float or not any(spec.dtype.is_float for spec in query.inputs):
        return EXACT
    row, compute = opdef(query.op), _Compute.of(query)
    if row.cost_class in _SUMS:
        inside = _products(query, compute).then(_sums(query, compute))
        return inside.then(_stored(result, compute.wide))
    operand = next(spec.dtype for spec in query.inputs if spec.dtype.is_float)
    if row.elements is not Elements.COMPUTED or query.op == CAST:
        return EXACT if _holds(result, operand) else packing_noise(result)
    inside = _MEASURED.get((short_name(query.op), compute.wide)) or _MEASURED.get((row.cost_class, compute.wide), EXACT)
    return inside.then(_stored(result, compute.wide))


def _holds(result: DType, operand: DType) -> bool:
    """Whether an element type holds all numbers of another."""
    order = (DType.BFP4_B, DType.BFP8_B, DType.BF16, DType.F32)
    return order.index(result) >= order.index(operand)


def _stored(result: DType, wide: bool) -> Noise:
    """A computed result on its way out: 16-bit registers round it before the packer does."""
    if wide or result is DType.BF16:
        return packing_noise(result)
    return rounding_noise(DType.BF16).then(packing_noise(result))


def _cut(dtype: DType, wide: bool, bits: int) -> Noise:
    """An operand cut off at what its source register holds and at what all passes take of it."""
    held = _HELD_BITS[wide] if dtype is DType.F32 else bits
    return cutting_noise(dtype, min(bits, held))


def _products(query: OpQuery, compute: _Compute) -> Noise:
    """What the passes of a fidelity leave out of the products."""
    a, b = query.inputs[0].dtype, query.inputs[1].dtype
    fidelity = compute.fidelity
    taken_a = _cut(a, compute.wide, _SOURCE_B_BITS[fidelity])
    taken_b = _cut(b, compute.wide, _SOURCE_A_BITS[fidelity])
    if fidelity != "HiFi3":
        return taken_a.then(taken_b)
    rest_a, rest_b = _cut(a, compute.wide, 7), _cut(b, compute.wide, 5)  # what only the fourth pass multiplies
    return taken_a.then(taken_b).then(Noise(-rest_a.gain * rest_b.gain, rest_a.variance * rest_b.variance))


def _depth(query: OpQuery) -> int:
    """Products that make an element of the result."""
    x, weight = query.inputs[0].shape, query.inputs[1].shape
    if opdef(query.op).cost_class is CostClass.MATMUL:
        return x[-2 if query.attr.get("transpose_a") else -1]
    if query.op == "ttnn.conv2d":
        return prod(weight[1:])
    return prod(weight) // weight[1]


def _sums(query: OpQuery, compute: _Compute) -> Noise:
    """Rounding in the destination registers, and of partial sums that the packer adds in L1."""
    passes = _PASSES[compute.fidelity]
    if compute.wide:
        return Noise(0.0, passes * _ALIGNED)
    tiles = ceil(_depth(query) / _TILE)
    block = min(tiles, getattr(query.config, "in0_block_w", 0) or tiles)
    blocks = ceil(tiles / block)
    in_a_row = block if compute.packer_adds else tiles
    additions = _ADDITIONS_PER_TILE * passes * in_a_row
    partial = (blocks - 1) * _NARROW_VARIANCE if compute.packer_adds else 0.0
    return Noise(_between(_NARROW_GAIN, additions), additions * _NARROW_VARIANCE + partial)


def _between(points: tuple[tuple[int, float], ...], x: int) -> float:
    """Linear between the points, flat beyond the last."""
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return points[-1][1]


_MEASURED: Mapping[tuple[str, bool], Noise] = {
    (CostClass.SDPA, True): Noise(-0.0005, 0.003**2),
    (CostClass.SDPA, False): Noise(-0.0036, 0.022**2),
    (CostClass.SOFTMAX, True): Noise(-0.0005, 0.0012**2),
    (CostClass.SOFTMAX, False): Noise(-0.0038, 0.02**2),
    (CostClass.NORM, True): Noise(0.0005, 0.003**2),
    (CostClass.NORM, False): Noise(-0.0005, 0.004**2),
    ("group_norm", True): Noise(0.004, 0.006**2),
    ("group_norm", False): Noise(0.004, 0.008**2),
    ("rotary_embedding", True): Noise(0.0, 2 * rounding_noise(DType.BF16).variance),
    ("rotary_embedding", False): Noise(0.0, 2 * rounding_noise(DType.BF16).variance),
    (CostClass.REDUCE, False): Noise(0.003, 0.01**2),
}
"""Op or cost class and whether sums have 32 bits -> error before the result is stored. Measured on the simulator with
functions exact: docs/cost-model.md, "Fidelity", and docs/values.md."""
