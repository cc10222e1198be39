"""Element-wise ops in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from optimizer.errors import ExecutionError
from optimizer.values.reference.kinds import Array, Attrs, Computed, Rule, alike, of_one

Function = Callable[[Array], Array]
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _sigmoid(x: Array) -> Array:
    result: Array = np.exp(-np.logaddexp(0.0, -x))
    return result


def gelu(x: Array) -> Array:
    """x * Phi(x), by the error function."""
    result: Array = 0.5 * x * _erfc(-x / math.sqrt(2.0))
    return result


def _erfinv(x: Array) -> Any:
    """Newton's method on erf from a rational start (S. Winitzki's)."""
    logs = np.log1p(-x * x)
    a = 2 / (math.pi * 0.147) + logs / 2
    y = np.sign(x) * np.sqrt(np.sqrt(a * a - logs / 0.147) - a)
    for _ in range(4):
        y = np.subtract(y, (_erf(y) - x) / (2 / math.sqrt(math.pi) * np.exp(-y * y)))
    return y


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _hardsigmoid(x: Array) -> Array:
    return np.clip(x / 6 + 0.5, 0, 1)


def _as_float(test: Function) -> Function:
    return lambda x: test(x).astype(np.float64)


_NUMPY_UNARY = (
    "tanh", "exp", "sqrt", "abs", "log", "square", "sin", "cos", "tan", "sinh", "cosh", "floor", "ceil", "round",
    "trunc", "sign", "log1p", "log2", "log10", "expm1", "exp2", "cbrt", "bitwise_not",
)  # fmt: skip
_NUMPY_BINARY = (
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "logical_and", "logical_or", "logical_xor", "fmod",
    "remainder", "bitwise_and", "bitwise_or", "bitwise_xor",
)  # fmt: skip
"""Ops that NumPy has by the same name."""

UNARY: Mapping[str, Function] = {
    **{name: getattr(np, name) for name in _NUMPY_UNARY},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: _as_float(getattr(np, name)) for name in ("isnan", "isinf", "isposinf", "isneginf")},
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "gelu": gelu,
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * _sigmoid(x),
    "sigmoid": _sigmoid,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "neg": np.negative,
    "reciprocal": lambda x: 1 / x,
    "erf": _erf,
    "erfc": _erfc,
    "erfinv": _erfinv,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "mish": lambda x: x * np.tanh(np.logaddexp(0.0, x)),
    "hardswish": lambda x: x * _hardsigmoid(x),
    "hardsigmoid": _hardsigmoid,
    "hardtanh": lambda x: np.clip(x, -1, 1),
    "selu": lambda x: _SELU_SCALE * _elu(x, _SELU_ALPHA),
    "frac": lambda x: x - np.trunc(x),
    "logical_not": _as_float(lambda x: x == 0),
    "gtz": _as_float(lambda x: x > 0),
    "ltz": _as_float(lambda x: x < 0),
    "eqz": _as_float(lambda x: x == 0),
    "nez": _as_float(lambda x: x != 0),
    "log_sigmoid": lambda x: -np.logaddexp(0.0, -x),
    "identity": lambda x: x,
}

PARAMETERS: Mapping[str, Callable[[Array, Attrs], Array]] = {
    "leaky_relu": lambda x, a: np.where(x >= 0, x, a["negative_slope"] * x),
    "elu": lambda x, a: _elu(x, a["alpha"]),
    "celu": lambda x, a: np.maximum(x, 0) + np.minimum(0, a["alpha"] * np.expm1(np.minimum(x, 0) / a["alpha"])),
    "softplus": lambda x, a: np.where(a["beta"] * x > a["threshold"], x, np.logaddexp(0.0, a["beta"] * x) / a["beta"]),
    "clamp": lambda x, a: np.clip(x, a["min"], a["max"]),
    "pow_scalar": lambda x, a: np.power(x, float(a["exponent"])),
    "rsub": lambda x, a: a["scalar"] - x,
    "rdiv": lambda x, a: a["scalar"] / x,
    "hardshrink": lambda x, a: np.where(np.abs(x) > a["lambd"], x, 0.0),
    "softshrink": lambda x, a: np.sign(x) * np.maximum(np.abs(x) - a["lambd"], 0.0),
    "heaviside": lambda x, a: np.heaviside(x, a["value"]),
    "threshold": lambda x, a: np.where(x > a["threshold"], x, a["value"]),
    "prelu_scalar": lambda x, a: np.where(x >= 0, x, a["weight"] * x),
}

BINARY: Mapping[str, Callable[[Array, Array], Array]] = {
    **{name: getattr(np, name) for name in _NUMPY_BINARY},
    "pow": np.power,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "gt": np.greater,
    "le": np.less_equal,
    "ge": np.greater_equal,
    "squared_difference": lambda a, b: (a - b) ** 2,
    "atan2": np.arctan2,
    "prelu": lambda a, b: np.where(a >= 0, a, a * b),
    "bitwise_left_shift": np.left_shift,
    "logical_right_shift": lambda a, b: (a.astype(np.uint32) >> b.astype(np.uint32)).astype(a.dtype),
}
_SUMS = ("add", "subtract", "squared_difference")


def activated(x: Array, activation: Any) -> Array:
    """A fused activation: its name, or `NAME(number, ...)` as configs spell those with parameters."""
    if not activation:
        return x
    name, _, rest = str(activation).partition("(")
    numbers = [float(n) for n in rest.rstrip(")").split(",") if n.strip()]
    if name in UNARY and not numbers:
        return UNARY[name](x)
    if name == "leaky_relu":
        return np.where(x >= 0, x, numbers[0] * x)
    if name == "elu":
        return _elu(x, numbers[0])
    if name in ("clamp", "clip", "hardtanh") and len(numbers) == 2:
        return np.clip(x, numbers[0], numbers[1])
    raise ExecutionError(f"there is no reference for the fused activation {activation!r}")


def _all(x: Array, activations: Sequence[Any] | None) -> Array:
    for activation in activations or ():
        x = activated(x, activation)
    return x


def _binary(function: Callable[[Array, Array], Array], is_sum: bool) -> Rule:
    def rule(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array | Computed]:
        a = operands[0]
        b = operands[1] if len(operands) > 1 else np.asarray(attrs["scalar"], dtype=a.dtype)
        a, b = _all(a, attrs.get("input_tensor_a_activations")), _all(b, attrs.get("input_tensor_b_activations"))
        result = function(a, b)
        if result.dtype == np.bool_:
            result = result.astype(a.dtype)
        result = _all(result, attrs.get("activations"))
        if not is_sum or result.dtype.kind != "f":
            return [result]
        size = np.maximum(np.abs(result), np.broadcast_to(np.abs(a) + np.abs(b), result.shape))
        return [Computed(result, lambda: alike(size))]

    return rule


def _where(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array]:
    rest = list(operands[1:])
    chosen: list[Any] = []
    for name in ("x", "y"):
        value = attrs.get(name)
        chosen.append(rest.pop(0) if rest and (value is None or len(rest) == 2) else value)
    return [np.asarray(np.where(operands[0] != 0, chosen[0], chosen[1]))]


def _alone(function: Function) -> Callable[[Array, Attrs], Array]:
    return lambda x, _: function(x)


def _ternary(function: Callable[[Array, Array, Array, float], Array]) -> Rule:
    def rule(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
        a, b, c = operands
        value = float(attrs.get("value", 1.0))
        result = function(a, b, c, value)
        size = np.maximum(np.abs(result), np.broadcast_to(np.abs(a), result.shape))
        return [Computed(result, lambda: alike(size))]

    return rule


def _typecast(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array]:
    x, target = operands[0], str(attrs["dtype"])
    if target.startswith(("u", "i")) and x.dtype.kind == "f":
        return [np.trunc(x).astype(np.int64)]
    return [x.astype(np.float64) if x.dtype.kind != "f" and not target.startswith(("u", "i")) else x]


RULES: Mapping[str, Rule] = {
    **{f"ttnn.{name}": of_one(_alone(function)) for name, function in UNARY.items()},
    **{f"ttnn.{name}": of_one(function) for name, function in PARAMETERS.items()},
    **{f"ttnn.{name}": _binary(function, name in _SUMS) for name, function in BINARY.items()},
    "ttnn.where": _where,
    "ttnn.addcmul": _ternary(lambda a, b, c, value: a + value * b * c),
    "ttnn.addcdiv": _ternary(lambda a, b, c, value: a + value * b / c),
    "ttnn.lerp": _ternary(lambda a, b, c, _: a + c * (b - a)),
    "ttnn.mac": _ternary(lambda a, b, c, _: a * b + c),
    "ttnn.typecast": _typecast,
    "ttnn.tril": of_one(lambda x, attrs: np.tril(x, attrs.get("diagonal", 0))),
    "ttnn.triu": of_one(lambda x, attrs: np.triu(x, attrs.get("diagonal", 0))),
}
