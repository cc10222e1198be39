"""What every tile op computes, in C++, for the executor: written apart from the numpy meanings, to witness them.

Elementwise ops are expressions of operands `a`, `b`, `c` and attributes as the API takes them, all `long double`, and
are rounded once to float32; the others name a function of whole tiles.
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
        "rsqrt": "1 / std::sqrt(a)",
        "cbrt": "std::cbrt(a)",
        "recip": "1 / a",
        "relu": "tensix::larger(a, 0)",
        "gelu": "0.5L * a * std::erfc(double(-a / std::sqrt(2.0)))",
        "gelu_tanh": "a / (1 + std::exp(-2 * 0.79788456080286535587989L * a * (1 + 0.044715L * a * a)))",
        "sigmoid": "1 / (1 + std::exp(-a))",
        "silu": "a * (1 / (1 + std::exp(-a)))",
        "tanh": "std::tanh(a)",
        "hardsigmoid": "tensix::smaller(tensix::larger(a / 6 + 0.5L, 0), 1)",
        "softsign": "a / (1 + std::fabs(a))",
        "abs": "std::fabs(a)",
        "neg": "-a",
        "sign": "std::isnan(a) ? a : (a > 0) - (a < 0)",
        "signbit": "std::signbit(a) ? 1 : 0",
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
        "erf": "std::erf(double(a))",
        "erfc": "std::erfc(double(a))",
        "floor": "std::floor(a)",
        "ceil": "std::ceil(a)",
        "trunc": "std::trunc(a)",
        "frac": "a - std::trunc(a)",
        "eqz": "a == 0 ? 1 : 0",
        "nez": "a != 0 ? 1 : 0",
        "gtz": "a > 0 ? 1 : 0",
        "gez": "a >= 0 ? 1 : 0",
        "ltz": "a < 0 ? 1 : 0",
        "lez": "a <= 0 ? 1 : 0",
        "isnan": "std::isnan(a) ? 1 : 0",
        "isinf": "std::isinf(a) ? 1 : 0",
        "add_scalar": "a + value",
        "sub_scalar": "a - value",
        "mul_scalar": "a * value",
        "div_scalar": "a * value",
        "rsub_scalar": "value - a",
        "max_scalar": "tensix::larger(a, value)",
        "min_scalar": "tensix::smaller(a, value)",
        "clamp": "tensix::smaller(tensix::larger(a, low), high)",
        "leaky_relu": "a > 0 ? a : slope * a",
        "elu": "a > 0 ? a : alpha * std::expm1(a)",
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
        "max": "tensix::max_of(a, b)",
        "min": "tensix::min_of(a, b)",
        "eq": "a == b ? 1 : 0",
        "ne": "a != b ? 1 : 0",
        "lt": "a < b ? 1 : 0",
        "gt": "a > b ? 1 : 0",
        "le": "a <= b ? 1 : 0",
        "ge": "a >= b ? 1 : 0",
        "atan2": "std::atan2(a, b)",
        "fmod": "std::fmod(a, b)",
        "remainder": "tensix::remainder(a, b)",
        "logaddexp": "a == b ? a + std::log(2.0L) : tensix::larger(a, b) + std::log1p(std::exp(-std::fabs(a - b)))",
        "xlogy": "a == 0 ? 0 : a * std::log(b)",
        "where": "tensix::holds(a) ? b : c",
    }
)
"""Ops by element. `where` chooses by its first operand."""

_SPREAD = {"row": "x(0, j)", "col": "x(i, 0)", "scalar": "x(0, 0)"}
SPREAD: Mapping[str, str] = MappingProxyType(
    {f"{name}_bcast_{which}": at.replace("x", "y") for name in ("add", "sub", "mul") for which, at in _SPREAD.items()}
)
"""The second operand of a broadcasting op at `(i, j)`."""
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
