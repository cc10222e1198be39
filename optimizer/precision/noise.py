"""How exact one run of an op is: what it adds to its result besides the errors that its operands came with.

Operands are normal-like and of mixed signs, so that a sum of K products has a mean square of K times a product's; then
relative errors of the products are those of the sum, whatever K is. What the units of a core do is in
docs/tensix-values.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any

from optimizer.ir.compute_config import COMPUTE
from optimizer.ir.dtype import DType
from optimizer.ir.opdef import CostClass, Elements, short_name
from optimizer.ir.vocabulary import CAST, CONV2D, opdef
from optimizer.layouts.conv_configs import is_pointwise
from optimizer.layouts.stated_compute import in0_block_w
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.precision.blocks import TILE, Blocks, conv_blocks, matmul_blocks
from optimizer.precision.measured import BLOCKS, op_noise, packed, sums_of_16_bits
from optimizer.precision.storing import BLOCK, EXACT, Noise, cutting_noise, rounding_noise

__all__ = ["Noise", "added_noise", "packing_noise", "rounding_noise", "sharing_weights"]

_SUMS = (CostClass.MATMUL, CostClass.CONV)
SOURCE_A_BITS = {"LoFi": 5, "HiFi2": 10, "HiFi3": 10, "HiFi4": 10}
"""Bits of a significand that all passes together take of source register A, which holds a matmul's operand B."""
_SOURCE_B_BITS = {"LoFi": 7, "HiFi2": 7, "HiFi3": 11, "HiFi4": 11}
"""The same of source register B, which holds its operand A."""
_ALIGNED = Noise(4e-5, 1e-7)
"""Of sums of 32 bits: the eight products of half an instruction are added at the exponent of the largest, with 12 bits
each (measured on the simulator: bf16 operands, f32 result)."""
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
        tilized, query = _tilized(query, result)
        inside = tilized.then(_products(query, compute)).then(_sums(query, compute))
        return inside.then(packing_noise(result, compute.wide))
    operand = next(spec.dtype for spec in query.inputs if spec.dtype.is_float)
    if row.elements is not Elements.COMPUTED or query.op == CAST:
        return _handed_on(query, operand, result)
    name, depth = short_name(query.op), _depth(query)
    inside = op_noise(name, compute.fidelity, compute.wide, compute.approximate, depth) or EXACT
    return inside.then(_stored(result, compute.wide))


def _tilized(query: OpQuery, result: DType) -> tuple[Noise, OpQuery]:
    """What a convolution's windows lose by being tilized into the result's element type, and the query with such."""
    x = query.inputs[0]
    if query.op != CONV2D or not result.is_block_float or x.dtype.is_block_float or is_pointwise(query.attr):
        return EXACT, query
    typed = replace(query, inputs=(TensorSpec(x.shape, result, x.layout), *query.inputs[1:]))
    return packing_noise(result, x.dtype is DType.F32), typed


def packing_noise(dtype: DType, wide: bool = True, way: str = "result") -> Noise:
    """What the packer of a core makes of numbers in destination registers of 32 bits, or of 16.

    Unlike the host it rounds ties away from zero, block formats twice but for those of a `cast`, and cuts bfp4_b off
    (docs/tensix-values.md). Of numbers of 16 bits, every second is a tie.
    """
    if dtype is DType.BF16 and not wide:
        return EXACT
    return packed(dtype.value, wide, way) or rounding_noise(dtype)


def sharing_weights(query: OpQuery) -> int:
    """Weights of a block that are not zero: those of one group, where a convolution has groups."""
    groups: Any = query.attr.get("groups", 1)
    return min(BLOCK, query.inputs[1].shape[0] // int(groups)) if query.op == CONV2D else BLOCK


def _handed_on(query: OpQuery, operand: DType, result: DType) -> Noise:
    """Elements of the operand: packed again in a narrower type, or where others come to share their exponents."""
    if not _holds(result, operand):
        return packing_noise(result, operand is DType.F32, "cast" if query.op == CAST else "result")
    return packing_noise(result, False, "turned") if result.is_block_float and _turns(query) else EXACT


def _turns(query: OpQuery) -> bool:
    """Whether the last dim of the operand is another dim of the result."""
    last = len(query.inputs[0].shape) - 1
    dims: Any = query.attr.get("dims")
    if dims is not None:
        return int(dims[-1]) % (last + 1) != last
    turned: list[Any] = [query.attr[name] for name in ("dim0", "dim1") if name in query.attr]
    return last in [int(d) % (last + 1) for d in turned]


def _holds(result: DType, operand: DType) -> bool:
    """Whether an element type holds all numbers of another."""
    order = (DType.BFP4_B, DType.BFP8_B, DType.BF16, DType.F32)
    return order.index(result) >= order.index(operand)


def _stored(result: DType, wide: bool) -> Noise:
    """A computed result on its way out: 16-bit registers round it before the packer does."""
    return packing_noise(result) if wide else rounding_noise(DType.BF16).then(packing_noise(result, wide))


def _cut(dtype: DType, wide: bool, bits: int) -> Noise:
    """An operand cut off at what its source register holds and at what all passes take of it."""
    held = _HELD_BITS[wide] if dtype is DType.F32 else bits
    return cutting_noise(dtype, min(bits, held))


def _products(query: OpQuery, compute: _Compute) -> Noise:
    """What the passes of a fidelity leave out of the products."""
    a, b = query.inputs[0].dtype, query.inputs[1].dtype
    fidelity = compute.fidelity
    taken_a = _cut(a, compute.wide, _SOURCE_B_BITS[fidelity])
    taken_b = _cut(b, compute.wide, SOURCE_A_BITS[fidelity])
    if fidelity != "HiFi3":
        return taken_a.then(taken_b)
    rest_a, rest_b = _cut(a, compute.wide, 7), _cut(b, compute.wide, 5)  # what only the fourth pass multiplies
    return taken_a.then(taken_b).then(Noise(-rest_a.gain * rest_b.gain, rest_a.variance * rest_b.variance))


def _depth(query: OpQuery) -> int:
    """Terms that make an element of the result, or the statistics that it is scaled by."""
    shapes = [spec.shape for spec in query.inputs]
    kind = opdef(query.op).cost_class
    if kind is CostClass.MATMUL:
        return shapes[0][-2 if query.attr.get("transpose_a") else -1]
    if kind is CostClass.CONV:
        return prod(shapes[1][1:]) if query.op == CONV2D else prod(shapes[1]) // shapes[1][1]
    if kind is CostClass.SDPA:
        return shapes[1][-2]
    dim: Any = query.attr.get("dim", -1)
    dims = range(len(shapes[0])) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    return prod(shapes[0][int(d)] for d in dims)


def _passes_that_add(query: OpQuery, fidelity: str) -> str:
    """The fidelity whose passes find bits in operands of these types; the other passes add zeros."""
    if query.inputs[1].dtype is DType.BFP4_B:
        return "LoFi"
    return "HiFi2" if fidelity != "LoFi" and query.inputs[0].dtype.is_block_float else fidelity


def _blocks(query: OpQuery, compute: _Compute) -> Blocks:
    bias = len(query.inputs) > 2
    if opdef(query.op).cost_class is CostClass.CONV:
        weight = query.inputs[1].shape
        shards = getattr(query.config, "shard_layout", None)
        return conv_blocks((weight[2], weight[3]), weight[1], shards, compute.packer_adds, bias)
    return matmul_blocks(_depth(query), in0_block_w(query.config), compute.packer_adds, bias)


def _sums(query: OpQuery, compute: _Compute) -> Noise:
    """Rounding in the destination registers, and of partial sums that the packer adds in L1."""
    if compute.wide:
        return _ALIGNED
    passes = _passes_that_add(query, compute.fidelity)
    tiles, blocks = ceil(_depth(query) / TILE), _blocks(query, compute)
    count = ceil(tiles / blocks.tiles) if blocks.tiles else 1
    if not blocks.packer_adds or count < 2:
        return sums_of_16_bits(passes, "alone", tiles)
    measured = sums_of_16_bits(passes, "reloaded" if blocks.last_reloads else "added", blocks.tiles)
    more = (count - BLOCKS) / 2 * rounding_noise(DType.BF16).variance  # what the packer rounds for further blocks
    return Noise(measured.gain, max(0.0, measured.variance + more))
