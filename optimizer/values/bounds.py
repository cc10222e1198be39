"""How far a device's result may be from float64: from element types, math fidelity and the size of the sums.

Two limits. Every element: half a unit (one, where hardware truncates) in the last place of the result, and the worst
case of the products' and partial sums' rounding, relative to the sum of the terms' magnitudes. All elements together
(L2): the same with errors of random sign, relative to the root of the sum of squares; a bias or a lost operand shows
there long before one element exceeds its worst case. Error analysis: N. J. Higham, Accuracy and Stability of Numerical
Algorithms, 2nd ed., 2.8 (random signs) and 4.2 (sums).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizer.ir.compute_config import COMPUTE
from optimizer.ir.dtype import DType
from optimizer.ir.opdef import CostClass, Elements, short_name
from optimizer.ir.vocabulary import CAST, opdef
from optimizer.layouts.op_config import MatmulMultiCoreReuseProgramConfig
from optimizer.layouts.stated_compute import in0_block_w
from optimizer.opmodel.base import OpQuery
from optimizer.precision.blocks import matmul_blocks
from optimizer.values.reference.kinds import Computed

Array = NDArray[Any]
_UNITS = {DType.BF16: 2.0**-8, DType.F32: 2.0**-10, DType.BFP8_B: 2.0**-6, DType.BFP4_B: 2.0**-2}
"""One unit in the last place, relative: f32 results come through 19-bit source registers and SFPU polynomials. Block
floats share an exponent among 16 elements: relative to the largest of them."""
_PRODUCTS = {"lofi": 2.0**-4 + 2.0**-6, "hifi2": 2.0**-6, "hifi3": 2.0**-7, "hifi4": 2.0**-9}
"""Largest relative error of one product: LoFi reads 5 bits of one significand and 7 of the other, HiFi2 the whole of
the first, HiFi3 the second's rest with it, HiFi4 all (Tensix ISA documentation, MVMUL)."""
_USUAL_PRODUCTS = {"lofi": 2.0**-5, "hifi2": 2.0**-7, "hifi3": 2.0**-8, "hifi4": 2.0**-10}
"""The same as a root mean square."""
_SUMMED = {False: (2.0**-8, 2.0**-9), True: (2.0**-12, 2.0**-13)}
"""Of one addition in a destination register of 16 or of 32 bits, at most and as a root mean square."""
_TILE_TERMS = 32
"""Products that one pass of the matrix unit adds up before it rounds."""
_MARGIN = 1.25
_COARSE = ("gelu", "gelu_tanh", "erf", "erfc", "erfinv", "mish", "tan", "sinh", "cosh", "atan2", "softplus")
_COARSER = ("asin", "acos", "asinh", "acosh", "atanh", "pow", "pow_scalar", "log1p", "expm1")
_TOLERANCE = {**dict.fromkeys(_COARSE, 2.0**-5), **dict.fromkeys(_COARSER, 2.0**-4)}
"""Of SFPU polynomials and tables, in units of max(1, |result|), where they are coarser than the rest's 2^-6."""
_PLAIN = 2.0**-6


@dataclass(frozen=True)
class Verdict:
    """One result against its limits."""

    worst: float
    """Largest error of one element over its limit; above 1 it is wrong."""
    together: float
    """L2 norm of the error over its limit; above 1 it is wrong."""
    wrong: int
    """Elements beyond their limit."""

    @property
    def ok(self) -> bool:
        return self.worst <= 1.0 and self.together <= 1.0


def judge(query: OpQuery, dtype: DType, got: Array, computed: Computed) -> Verdict:
    """A result of this type against its reference."""
    want = computed.value
    if want.dtype.kind != "f" or not dtype.is_float:
        wrong = int((got.astype(np.int64) != want.astype(np.int64)).sum())
        return Verdict(float("inf") if wrong else 0.0, float("inf") if wrong else 0.0, wrong)
    want, got = want.astype(np.float64), got.astype(np.float64)
    each, usual = _limits(query, dtype, computed)
    with np.errstate(invalid="ignore"):
        error = np.abs(got - want)
    agree = (got == want) | (np.isnan(got) & np.isnan(want)) | _overflows(got, want)
    error = np.where(agree, 0.0, np.where(np.isnan(error), np.inf, error))
    ratio = np.divide(error, each, out=np.where(error > 0, np.inf, 0.0), where=each > 0)
    limit = float(np.sqrt((usual**2).sum()))
    whole = float(np.sqrt((error**2).sum()))
    return Verdict(float(ratio.max(initial=0.0)), whole / limit if limit else (np.inf if whole else 0.0),
                   int((ratio > 1).sum()))  # fmt: skip


def _overflows(got: Array, want: Array) -> Any:
    """Beyond bf16's and f32's range: infinity and the largest number are both right."""
    most = 3.3e38
    return (np.abs(want) > most) & (np.abs(got) > most) & (np.sign(got) == np.sign(want))


def _limits(query: OpQuery, dtype: DType, computed: Computed) -> tuple[Array, Array]:
    """Per element the worst case, and the standard error."""
    size = _last_place(computed.value, dtype)
    if _hands_on(query) and computed.terms == 1:
        if "scalar" in query.attr and dtype is not DType.F32:
            size = 2 * size  # TTNN cuts a number off to bf16 where it selects the larger or smaller one
        if _turns_there_and_back(query) and dtype.is_block_float:
            size = size + np.swapaxes(_last_place(np.swapaxes(computed.value, -2, -1), dtype), -2, -1)
        return size, size
    name, stated = short_name(query.op), _stated(query)
    size = size + _kept_between(query, dtype, computed)
    within = computed.roundings * _UNITS[dtype] * (0.5 if stated.in_f32 else 1.0)  # registers of 16 bits truncate
    within += computed.inexact
    within += _rounded_windows(query, dtype)
    if computed.terms > 1:
        sums = max(1.0, computed.terms / _TILE_TERMS)
        each, rms = _SUMMED[stated.in_f32]
        slack = _tolerance_of_activation(query) * np.maximum(1.0, np.abs(computed.value))
        most = _PRODUCTS[stated.fidelity] + (np.log2(computed.terms) + 2) * each + within
        usual = _MARGIN * (_USUAL_PRODUCTS[stated.fidelity] + np.sqrt(sums) * rms + within / 2)
        return size + slack + most * computed.most, size / 2 + slack / 2 + usual * computed.usual
    slack = max(_TOLERANCE.get(name, _PLAIN), within) * np.maximum(1.0, computed.most)
    return size + slack + _tolerance_of_activation(query), size / 2 + slack / 2


def _kept_between(query: OpQuery, dtype: DType, computed: Computed) -> Array | float:
    """What blocks lose of a product that lies in them before its bias, and with that before its activation.

    Without a program config both may be programs of their own; with one, a bias is added to what was packed unless the
    registers are wide or the packer adds up.
    """
    if not dtype.is_block_float or not computed.before:
        return 0.0
    product, biased = computed.before
    apart = query.config is None or isinstance(query.config, MatmulMultiCoreReuseProgramConfig)
    given: Any = query.attr.get(COMPUTE)
    has_bias, compute = len(query.inputs) > 2, dict(given or ())
    depth = query.inputs[0].shape[-2 if query.attr.get("transpose_a") else -1]
    blocks = matmul_blocks(depth, in0_block_w(query.config), bool(compute.get("l1acc")), has_bias)
    lost: Array | float = 0.0
    if has_bias and (apart or not (compute.get("fp32") or blocks.packer_adds)):
        lost = lost + _last_place(product, dtype)
    if apart and query.attr.get("activation"):
        lost = lost + _last_place(biased, dtype)
    return lost


def _rounded_windows(query: OpQuery, dtype: DType) -> float:
    """A convolution brings its windows into the result's element type before it multiplies."""
    return _UNITS[dtype] if dtype.is_block_float and opdef(query.op).cost_class is CostClass.CONV else 0.0


def _turns_there_and_back(query: OpQuery) -> bool:
    """Whether TTNN turns rows into columns, and back, inside: blocks are of elements below each other in between."""
    rank = len(query.inputs[0].shape)
    return opdef(query.op).turns_rows and query.attr["dim"] in (-1, rank - 1)


def _hands_on(query: OpQuery) -> bool:
    """Whether the result is made of elements of the operands or their negative: only its rounding may differ."""
    return query.op != CAST and opdef(query.op).elements is not Elements.COMPUTED


@dataclass(frozen=True)
class _Stated:
    """What a query says of the math engine."""

    fidelity: str
    in_f32: bool


def _stated(query: OpQuery) -> _Stated:
    """Its compute config, else TTNN's usual one for a matmul with a fidelity."""
    given: Any = query.attr.get(COMPUTE)
    if given:
        compute = dict(given)
        return _Stated(str(compute.get("fid", "HiFi4")).lower(), bool(compute.get("fp32")))
    return _Stated(str(query.attr.get("math_fidelity") or "hifi2").lower(), in_f32=False)


def _tolerance_of_activation(query: OpQuery) -> float:
    attrs = query.attr
    fused: Any = (getattr(query.config, "fused_activation", None), getattr(query.config, "activation", None),
                  attrs.get("activation"), *(attrs.get("activations") or ()))  # type: ignore[misc]  # fmt: skip
    return _PLAIN if any(name and not str(name).startswith("relu") for name in fused) else 0.0


def _last_place(value: Array, dtype: DType) -> Array:
    size = np.abs(value).astype(np.float64)
    if dtype.is_block_float and value.ndim:
        width = value.shape[-1]
        padded = np.pad(size, [(0, 0)] * (value.ndim - 1) + [(0, -width % 16)])
        blocks = padded.reshape(*padded.shape[:-1], -1, 16)
        size = np.broadcast_to(blocks.max(axis=-1, keepdims=True), blocks.shape).reshape(padded.shape)[..., :width]
    return size * _UNITS[dtype] + 1e-30
