"""Random operands under which an op's result says something: its domain, indices in range, activations of unit size."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizer.families.windows.emulation import prepared_weights
from optimizer.ir.dtype import DType
from optimizer.ir.opdef import CostClass, short_name
from optimizer.ir.padding import HIDDEN
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.values.emulation.units import converted

Array = NDArray[Any]
_POSITIVE = frozenset({"sqrt", "rsqrt", "log", "log2", "log10", "log1p", "reciprocal", "rdiv", "cbrt"})
_WITHIN_ONE = frozenset({"asin", "acos", "atanh", "erfinv"})
_FROM_ONE = frozenset({"acosh"})
_COMPARES = frozenset({"eq", "ne", "lt", "gt", "le", "ge", "logical_and", "logical_or", "logical_xor", "where"})
_CONTRACTIONS = (CostClass.MATMUL, CostClass.CONV)
TOKENS = 256
"""Integers are below this where nothing says what they count."""


_GARBAGE = (4.0, -3.0, 2.5)
"""What tiles hold beyond an operand's elements: larger than most of those, of both signs. An odd number of them, so
that columns differ from row to row."""


def paddings(query: OpQuery) -> list[tuple[float, ...]]:
    """What lies in the tiles of each operand beyond its elements: an op must not depend on it.

    Masks of attention are filled by an op of their own. Block floats keep zeros, as padding shares their exponents, and
    so do integers, which may be addresses.
    """
    found: list[tuple[float, ...]] = []
    for index, spec in enumerate(query.inputs):
        mask = index == 3 and opdef(query.op).cost_class is CostClass.SDPA
        narrow = spec.dtype.is_block_float or not spec.dtype.is_float
        found.append((HIDDEN,) if mask else () if narrow else _GARBAGE)
    return found


def random_operands(query: OpQuery, seed: int) -> list[Array]:
    """One array an operand: the same for the same query and seed."""
    rng = np.random.default_rng(seed)
    op = short_name(query.op)
    return [_operand(rng, op, query, k, spec) for k, spec in enumerate(query.inputs)]


def _operand(rng: np.random.Generator, op: str, query: OpQuery, index: int, spec: TensorSpec) -> Any:
    if not spec.dtype.is_float:
        return _integers(rng, op, query, index, spec)
    x = rng.standard_normal(spec.shape)
    if op in _POSITIVE or (op in ("divide", "pow", "atan2", "fmod", "remainder") and index == (op != "pow")):
        return np.abs(x) + 0.25
    if op == "pow_scalar" and _number(query, "exponent") % 1:
        return np.abs(x) + 0.25
    if op in _WITHIN_ONE:
        return np.clip(x / 4, -0.95, 0.95)
    if op in _FROM_ONE:
        return np.abs(x) + 1.25
    if op in _COMPARES and (index == 0 or op != "where"):
        return np.round(x) + 0.0  # no -0.0, which some of TTNN's comparisons take for true
    if op == "batch_norm" and index == 2:
        return np.abs(x) + 0.5
    if op == "prod":
        return 1 + x / 16
    if opdef(query.op).cost_class in _CONTRACTIONS and index == 1:
        x = np.asarray(x / np.sqrt(max(1, _fan_in(op, query))))
    return _as_prepared(query, x) if index and isinstance(query.config, Conv2dConfig) else np.asarray(x)


def _as_prepared(query: OpQuery, weight: Array) -> Array:
    """Numbers that the element type holds in which a convolution prepares these: rounding them is not its error."""
    stated = getattr(query.config, "weights_dtype", None)
    if stated is None or not DType(stated).is_block_float:
        return weight
    if weight.shape[:-1] == (1, 1, 1):
        return converted(weight.reshape(-1), DType(stated)).reshape(weight.shape)
    if short_name(query.op) == "conv_transpose2d":
        return prepared_weights(weight.swapaxes(0, 1), DType(stated), 1).swapaxes(0, 1)
    return prepared_weights(weight, DType(stated), int(_number(query, "groups")))


def _number(query: OpQuery, name: str) -> float:
    value: Any = query.attr[name]
    return float(value)


def _fan_in(op: str, query: OpQuery) -> int:
    x, weight = query.inputs[0].shape, query.inputs[1].shape
    if opdef(query.op).cost_class is CostClass.MATMUL:
        return x[-2 if query.attr.get("transpose_a") else -1]
    if op == "conv2d":
        return prod(weight[1:])
    return weight[0] * prod(weight[2:]) // int(_number(query, "groups"))


def _integers(rng: np.random.Generator, op: str, query: OpQuery, index: int, spec: TensorSpec) -> Array:
    most = TOKENS
    if op == "embedding":
        most = query.inputs[1].shape[0]
    elif op in ("gather", "scatter", "scatter_add") and index == 1:
        axis = int(_number(query, "dim")) % len(spec.shape)
        most = query.inputs[0].shape[axis]
        if op != "gather":  # torch leaves open which of several sources stays
            order = rng.random((*query.inputs[0].shape[:axis], most, *spec.shape[axis + 1 :]))
            picked: Array = np.argsort(order, axis=axis).take(range(spec.shape[axis]), axis)
            return picked[tuple(slice(0, n) for n in spec.shape)]
    if op in ("bitwise_left_shift", "logical_right_shift") and index == 1:
        most = 8
    return rng.integers(0, most, spec.shape)
