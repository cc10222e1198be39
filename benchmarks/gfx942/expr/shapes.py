"""Shapes of expressions that both units look for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy

from gfx942.expr.bounds import Bounds, Expr, divisor, fraction
from gfx942.expr.errors import ExpressionError
from gfx942.expr.values import Values


def log2(number: Any) -> int | None:
    """The exponent of a power of two; None for other numbers."""
    value = int(number)
    return value.bit_length() - 1 if value > 0 and value & (value - 1) == 0 else None


def bit_field(expression: Expr, values: Values) -> tuple[Expr, int, int] | None:
    """`Mod(floor(x/2^a), 2^b)` as `x`, `a`, `b`, unless the floor is there already: bits a .. a+b-1 of x."""
    value, width = expression.args[0], log2(divisor(expression))
    if width is None or not isinstance(value, sympy.floor) or values.is_known(value):
        return None
    source, denominator = fraction(value.args[0])
    first = log2(denominator)
    if first is None or first + width > 32:
        return None
    values.check_word(source)
    return source, first, width


def outer_sums(coefficients: Mapping[Expr, Any], values: Values, depth: int, least: int) -> list[tuple[Any, Expr]]:
    """(coefficient, term) pairs of a sum that is computed at `depth`.

    What only depends on scopes further out becomes one pair, if it has at least `least` operations.
    """
    inner = {t: c for t, c in coefficients.items() if values.scopes.depth_of(t) == depth}
    outer = {t: c for t, c in coefficients.items() if t not in inner}
    symbolic = [c for t, c in outer.items() if t != 1]
    operations = len(outer) - 1 + sum(c != 1 for c in symbolic)
    if not symbolic or operations < least:
        return [(c, t) for t, c in coefficients.items()]
    hoisted = sympy.Add(*(c * t for t, c in outer.items()))
    return [(sympy.Integer(1), hoisted), *((c, t) for t, c in inner.items())]


def shifted_range(bounds: Bounds, denominator: int) -> tuple[int, int]:
    """How many periods make a value that may be negative positive, and the highest value then."""
    periods = -(bounds.low // denominator)
    return periods, bounds.high + periods * denominator


def extreme_name(unit: str, expression: Expr, values: Values) -> str:
    """The instruction for Min or Max of a unit. ExpressionError where no comparison of words is right."""
    if not isinstance(expression, sympy.Max | sympy.Min):
        raise ExpressionError(f"no instructions for {expression}", node=str(expression))
    stem = "max" if isinstance(expression, sympy.Max) else "min"
    bounds = [values.check_word(part) for part in expression.args]
    if all(b.is_unsigned for b in bounds):
        return f"{unit}_{stem}_u32"
    if all(b.is_signed for b in bounds):
        return f"{unit}_{stem}_i32"
    raise ExpressionError(
        f"{expression} compares a negative value with one above 2^31 - 1", node=str(expression), limit=32
    )
