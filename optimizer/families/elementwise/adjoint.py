"""Elementwise ops and activations: slopes by central differences of the reference, element by element, in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from optimizer.families.elementwise.reference import activated
from optimizer.families.elementwise.rows import ROWS
from optimizer.families.movement.adjoint import in_order
from optimizer.ir.opdef import short_name
from optimizer.values.adjoint.kinds import Call, Maps, Rule, nothing, one_result, summed_to
from optimizer.values.reference import computed
from optimizer.values.reference.kinds import Array

_STEP = 2.0**-17
"""Relative to an element: its square is far below the digits of float32, and float64 has 36 more bits."""
_SMALL = 2.0**-14
"""Elements below it are moved by as much as this one is."""
_STEPS = frozenset({
    "floor", "ceil", "round", "trunc", "sign", "isnan", "isinf", "isposinf", "isneginf", "logical_not", "gtz", "ltz",
    "eqz", "nez", "bitwise_not", "heaviside", "logical_and", "logical_or", "logical_xor", "eq", "ne", "lt", "gt", "le",
    "ge", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "logical_right_shift",
})  # fmt: skip
"""Ops whose results only jump."""
_FUSED = ("activations", "input_tensor_a_activations", "input_tensor_b_activations")


def slope(function: Callable[[Array], Array], x: Array) -> Array:
    """d function / dx, element by element; zero where there is no number (at a pole, or under a mask of infinities)."""
    exact = x.astype(np.float64)
    size = np.abs(exact)
    with np.errstate(all="ignore"):
        found = _difference(function, exact, _STEP * np.maximum(size, _SMALL))
        if not np.isfinite(found).all():  # close to the end of the function's domain
            found = np.where(np.isfinite(found), found, _difference(function, exact, _STEP * size))
    return np.nan_to_num(found, nan=0.0, posinf=0.0, neginf=0.0).astype(x.dtype)


def _difference(function: Callable[[Array], Array], x: Array, step: Array) -> Array:
    after, before = x + step, x - step
    return np.divide(function(after) - function(before), after - before)


def slope_of_activation(call: Call, activation: object, product: Callable[[], Array]) -> Array | None:
    """The slope of an activation that an op fuses; None where there is none. `product` is what it is applied to."""
    if not activation:
        return None
    if activation == "relu":
        return (call.results[0] > 0).astype(call.results[0].dtype)
    return slope(lambda x: activated(x, activation), product())


def _elementwise(call: Call) -> Maps:
    slopes = _known_slopes(call) or {}
    shape = call.results[0].shape

    def of(k: int) -> Callable[[Array], Array]:
        factor = slopes[k] if k in slopes else _partial(call, k, shape)
        return lambda gradient: summed_to(gradient * factor, call.operands[k].shape)

    return {k: of(k) for k in call.wanted}


def _partial(call: Call, k: int, shape: tuple[int, ...]) -> Array:
    operands = list(call.operands)

    def function(x: Array) -> Array:
        return computed(call.op, call.attrs, [*operands[:k], x, *operands[k + 1 :]])[0].value

    return slope(function, np.broadcast_to(operands[k], shape))


def _known_slopes(call: Call) -> Mapping[int, Array] | None:
    """Of sums, differences and products with at most a ReLU behind them; None of others."""
    fused = [list(call.attrs.get(name) or ()) for name in _FUSED]
    if call.op not in ("ttnn.add", "ttnn.subtract", "ttnn.multiply") or fused not in ([[], [], []], [["relu"], [], []]):
        return None
    one = np.ones((), call.results[0].dtype)
    a = call.operands[0]
    b = call.operands[1] if len(call.operands) > 1 else np.asarray(call.attrs["scalar"], a.dtype)
    first, second = (b, a) if call.op == "ttnn.multiply" else (one, -one if call.op == "ttnn.subtract" else one)
    passed = (call.results[0] > 0).astype(a.dtype) if fused[0] else one
    return {0: first * passed, 1: second * passed}


def _where(call: Call) -> Maps:
    """The condition only chooses."""
    maps = _elementwise(Call(call.op, call.attrs, call.operands, call.results, call.wanted - {0}))
    return {0: lambda _: np.zeros_like(call.operands[0]), **maps}


def _triangle(function: Callable[[Array, int], Array]) -> Rule:
    return one_result(lambda call: {0: lambda gradient: function(gradient, int(call.attrs.get("diagonal", 0)))})


ADJOINTS: Mapping[str, Rule] = {
    **{name: nothing if short_name(name) in _STEPS else one_result(_elementwise) for name in ROWS},
    "ttnn.where": one_result(_where),
    "ttnn.typecast": one_result(in_order),
    "ttnn.tril": _triangle(np.tril),
    "ttnn.triu": _triangle(np.triu),
}
