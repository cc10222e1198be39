"""Elementwise ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from interpreter import BINARY, UNARY, softplus

from ttnn_standin.context import Context, Op, broadcast, on_device
from ttnn_standin.errors import Refused, Unmodelled
from ttnn_standin.signatures import Arguments
from ttnn_standin.tensor import Array, Tensor
from ttnn_standin.values import FLOATS, INTEGERS, Member, Value

ACTIVATIONS = {
    **{name.upper(): function for name, function in UNARY.items()},
    "LOGICAL_NOT_UNARY": UNARY["logical_not"],
    "RECIP": UNARY["reciprocal"],
}
"""`ttnn.UnaryOpType` -> function, of those without parameters."""


ACCURATE = 0.0
"""Parameter of a fused GELU that asks for its accurate form."""


def activation(given: Value | str | None) -> Callable[[Array], Array]:
    """The function of a `UnaryWithParam`, or of its name; the identity for None."""
    if given is None:
        return UNARY["identity"]
    if isinstance(given, str):
        if given not in UNARY:
            raise Refused(f"{given!r} is no activation")
        return UNARY[given]
    kind, *parameters = given.fields.values()
    if isinstance(kind, Member) and kind.name == "GELU" and parameters == [ACCURATE]:
        return UNARY["gelu"]
    if len(given.fields) != 1 or not isinstance(kind, Member) or kind.name not in ACTIVATIONS:
        raise Unmodelled(f"activation {given}")
    return ACTIVATIONS[kind.name]


def _unary(function: Callable[[Array], Array]) -> Op:
    def op(c: Context, a: Arguments) -> Tensor:
        x = a.first
        on_device(a, x)
        return c.alike(a, function(x.read()), x)

    return op


def _gelu(c: Context, a: Arguments) -> Tensor:
    """By the error function, or by tanh where the variant says so; the table is not what a program should use."""
    x, variant = a.first, a.get("variant")
    on_device(a, x)
    name = "Accurate" if variant is None else variant.name
    if a.get("fast_and_approximate_mode") or name not in ("Accurate", "Tanh"):
        raise Unmodelled(f"ttnn.gelu: {variant or 'fast_and_approximate_mode'}")
    return c.alike(a, UNARY["gelu_tanh" if name == "Tanh" else "gelu"](x.read()), x)


def _with(function: Callable[..., Array], *names: str) -> Op:
    """A unary op whose scalars are the parameters of these names."""

    def op(c: Context, a: Arguments) -> Tensor:
        x = a.first
        on_device(a, x)
        return c.alike(a, function(x.read(), *(a[name] for name in names)), x)

    return op


def _binary(function: Callable[..., Array]) -> Op:
    """An op of two operands, either of which may be a number where a signature says so."""

    def op(c: Context, a: Arguments) -> Tensor:
        first, second = list(a)[:2]
        left, right = a[first], a[second]
        tensors = [t for t in (left, right) if isinstance(t, Tensor)]
        on_device(a, *tensors)
        broadcast(a, *(t.shape for t in tensors))
        if len({t.layout for t in tensors}) > 1:
            raise Refused(f"ttnn.{a.function}: operands of different page layouts")
        if len({t.dtype in FLOATS for t in tensors}) > 1:
            raise Refused(f"ttnn.{a.function}: {left.dtype} with {right.dtype}")
        operands = [
            _activated(a, f"input_tensor_{side}_activations", t.read() if isinstance(t, Tensor) else t)
            for side, t in zip("ab", (left, right), strict=True)
        ]
        made = _activated(a, "activations", function(*operands))
        return c.result(a, made, a.get("dtype") or tensors[0].dtype, tensors[0].layout, tensors[0].memory)

    return op


def _activated(a: Arguments, name: str, values: Any) -> Any:
    for given in a.get(name) or ():
        values = activation(given)(values)
    return values


def _where(c: Context, a: Arguments) -> Tensor:
    choice, first, second = a["predicate"], a["true_value"], a["false_value"]
    tensors = [t for t in (first, second) if isinstance(t, Tensor)]
    on_device(a, choice, *tensors)
    broadcast(a, *(t.shape for t in (choice, *tensors)))
    if len({t.layout for t in (choice, *tensors)}) > 1:
        raise Refused("ttnn.where: operands of different page layouts")
    values = [t.read() if isinstance(t, Tensor) else np.asarray(t, choice.read().dtype) for t in (first, second)]
    kind = tensors[0].dtype if tensors else choice.dtype
    return c.result(a, np.where(choice.read() != 0, *values), kind, choice.layout, choice.memory)


def _typecast(c: Context, a: Arguments) -> Tensor:
    x = a["input_tensor"]
    wanted = a["dtype"] if "dtype" in a else a["output_dtype"]
    values = x.read()
    if wanted in INTEGERS and x.dtype in FLOATS:
        values = np.trunc(values)
    return c.alike(a, values, x, wanted)


def _ternary(function: Callable[..., Array], *extra: str) -> Op:
    def op(c: Context, a: Arguments) -> Tensor:
        operands = [a[name] for name in list(a)[:3]]
        on_device(a, *operands)
        tensors = [t for t in operands if isinstance(t, Tensor)]
        broadcast(a, *(t.shape for t in tensors))
        values = [t.read() if isinstance(t, Tensor) else t for t in operands]
        return c.alike(a, function(*values, *(a[name] for name in extra)), tensors[0])

    return op


def _clamp(x: Array, least: Any, most: Any) -> Array:
    if isinstance(least, Tensor) or isinstance(most, Tensor):
        raise Unmodelled("ttnn.clamp between tensors")
    return np.clip(x, least, most)


OPS: dict[str, Op] = {
    **{name: _unary(function) for name, function in UNARY.items() if name != "gelu_tanh"},
    "gelu": _gelu,
    **{name: _binary(function) for name, function in BINARY.items() if name != "prelu"},
    "rsub": _binary(lambda x, y: y - x),
    "leaky_relu": _with(lambda x, slope: np.where(x >= 0, x, x * slope), "negative_slope"),
    "elu": _with(lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))), "alpha"),
    "celu": _with(lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)), "alpha"),
    "softplus": _with(softplus, "beta", "threshold"),
    "threshold": _with(lambda x, least, value: np.where(x > least, x, value), "threshold", "value"),
    "clamp": _with(_clamp, "min", "max"),
    "rdiv": _with(lambda x, value: value / x, "value"),
    "tril": _with(np.tril, "diagonal"),
    "triu": _with(np.triu, "diagonal"),
    "where": _where,
    "typecast": _typecast,
    "addcmul": _ternary(lambda x, y, z, value: x + value * y * z, "value"),
    "addcdiv": _ternary(lambda x, y, z, value: x + value * y / z, "value"),
    "mac": _ternary(lambda x, y, z: x * y + z),
    "lerp": _ternary(lambda x, end, weight: x + weight * (end - x)),
}
"""Function of `ttnn` -> what it does."""
