"""What every tile op computes, in C++, for the executor: written apart from the numpy meanings, to witness them.

Elementwise ops are expressions of floats `a`, `b`, `c` and attributes; the others name a function of whole tiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ELEMENTWISE: Mapping[str, str] = MappingProxyType(
    {
        "exp": "std::exp(a)",
        "exp2": "std::exp2(a)",
        "expm1": "std::expm1(a)",
        "log": "std::log(a)",
        "log1p": "std::log1p(a)",
        "sqrt": "std::sqrt(a)",
        "rsqrt": "1.0f / std::sqrt(a)",
        "cbrt": "std::cbrt(a)",
        "recip": "1.0f / a",
        "relu": "a > 0.0f ? a : 0.0f",
        "gelu": "0.5f * a * (1.0f + std::erf(a * 0.70710678f))",
        "sigmoid": "1.0f / (1.0f + std::exp(-a))",
        "silu": "a / (1.0f + std::exp(-a))",
        "tanh": "std::tanh(a)",
        "hardsigmoid": "std::fmin(std::fmax(a / 6.0f + 0.5f, 0.0f), 1.0f)",
        "softsign": "a / (1.0f + std::fabs(a))",
        "abs": "std::fabs(a)",
        "neg": "-a",
        "sign": "float((a > 0.0f) - (a < 0.0f))",
        "signbit": "std::signbit(a) ? 1.0f : 0.0f",
        "square": "a * a",
        "identity": "a",
        "sin": "std::sin(a)",
        "cos": "std::cos(a)",
        "tan": "std::tan(a)",
        "asin": "std::asin(a)",
        "acos": "std::acos(a)",
        "atan": "std::atan(a)",
        "sinh": "std::sinh(a)",
        "cosh": "std::cosh(a)",
        "asinh": "std::asinh(a)",
        "acosh": "std::acosh(a)",
        "atanh": "std::atanh(a)",
        "erf": "std::erf(a)",
        "erfc": "std::erfc(a)",
        "floor": "std::floor(a)",
        "ceil": "std::ceil(a)",
        "trunc": "std::trunc(a)",
        "frac": "a - std::trunc(a)",
        "eqz": "a == 0.0f ? 1.0f : 0.0f",
        "nez": "a != 0.0f ? 1.0f : 0.0f",
        "gtz": "a > 0.0f ? 1.0f : 0.0f",
        "gez": "a >= 0.0f ? 1.0f : 0.0f",
        "ltz": "a < 0.0f ? 1.0f : 0.0f",
        "lez": "a <= 0.0f ? 1.0f : 0.0f",
        "isnan": "std::isnan(a) ? 1.0f : 0.0f",
        "isinf": "std::isinf(a) ? 1.0f : 0.0f",
        "add_scalar": "a + value",
        "sub_scalar": "a - value",
        "mul_scalar": "a * value",
        "div_scalar": "a / value",
        "rsub_scalar": "value - a",
        "max_scalar": "std::fmax(a, value)",
        "min_scalar": "std::fmin(a, value)",
        "clamp": "std::fmin(std::fmax(a, low), high)",
        "leaky_relu": "a > 0.0f ? a : slope * a",
        "elu": "a > 0.0f ? a : alpha * std::expm1(a)",
        "typecast": "tensix::round_to(a, target == 0 ? tensix::Format::Float32 : tensix::Format::Float16_b)",
        "copy_dst": "a",
        "copy": "a",
        "fill": "value",
        "add": "a + b",
        "sub": "a - b",
        "mul": "a * b",
        "div": "a / b",
        "rsub": "b - a",
        "pow": "std::pow(a, b)",
        "max": "std::fmax(a, b)",
        "min": "std::fmin(a, b)",
        "eq": "a == b ? 1.0f : 0.0f",
        "ne": "a != b ? 1.0f : 0.0f",
        "lt": "a < b ? 1.0f : 0.0f",
        "gt": "a > b ? 1.0f : 0.0f",
        "le": "a <= b ? 1.0f : 0.0f",
        "ge": "a >= b ? 1.0f : 0.0f",
        "atan2": "std::atan2(a, b)",
        "fmod": "std::fmod(a, b)",
        "remainder": "a - std::floor(a / b) * b",
        "logaddexp": "std::fmax(a, b) + std::log1p(std::exp(-std::fabs(a - b)))",
        "xlogy": "a == 0.0f ? 0.0f : a * std::log(b)",
        "where": "a != 0.0f ? b : c",
    }
)
"""Ops by element. `where` chooses by its first operand."""

_SPREAD = {"row": "x(0, j)", "col": "x(i, 0)", "scalar": "x(0, 0)"}
_SIGN = {"add": "+", "sub": "-", "mul": "*"}

WHOLE_TILE: Mapping[str, str] = MappingProxyType(
    {
        "transpose": "x(j, i)",
        **{f"bcast_{which}": at for which, at in _SPREAD.items()},
        **{
            f"{name}_bcast_{which}": f"x(i, j) {sign} {at.replace('x', 'y')}"
            for name, sign in _SIGN.items()
            for which, at in _SPREAD.items()
        },
    }
)
"""Element `(i, j)` of the result, from tiles `x` and `y`."""
