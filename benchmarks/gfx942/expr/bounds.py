"""What values an integer expression can take, and which of its bits can be set.

Expressions are SymPy's: integers, symbols, sums, products, powers, floor, ceiling, Mod, Min and Max. Every symbol
stands for an integer between bounds; every division is the argument of a floor (`numerator`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import lcm
from operator import add, mul, or_
from typing import Any

import sympy

from gfx942.expr.errors import ExpressionError

Expr = Any
"""A SymPy expression; the library has no types."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lowest and highest value, both possible as far as is known."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ExpressionError(f"bounds {self.low}..{self.high} hold no value")

    def __add__(self, other: Bounds) -> Bounds:
        return Bounds(self.low + other.low, self.high + other.high)

    def __mul__(self, other: Bounds) -> Bounds:
        corners = [a * b for a, b in product((self.low, self.high), (other.low, other.high))]
        return Bounds(min(corners), max(corners))

    def within(self, low: int, high: int) -> bool:
        return low <= self.low and self.high <= high

    @property
    def is_unsigned(self) -> bool:
        """Whether 32 bits read without a sign hold every value."""
        return self.within(0, (1 << 32) - 1)

    @property
    def is_signed(self) -> bool:
        """Whether 32 bits in two's complement hold every value."""
        return self.within(-(1 << 31), (1 << 31) - 1)

    def __str__(self) -> str:
        return f"{self.low}..{self.high}"


def terms(expression: Expr) -> dict[Expr, Any]:
    """A sum as coefficient by term, ascending by the term's text; the constant stands under 1."""
    found = expression.as_coefficients_dict()
    return {term: found[term] for term in sorted(found, key=str)}


def fraction(argument: Expr) -> tuple[Expr, int]:
    """The argument of a floor as integer numerator and denominator. ExpressionError where it is no such quotient."""
    coefficients = terms(argument)
    if not all(c.is_Rational for c in coefficients.values()):
        raise ExpressionError(f"coefficients of {argument} are not rational", node=str(argument))
    denominator = lcm(*(int(c.q) for c in coefficients.values()))
    return sympy.Add(*(c * denominator * term for term, c in coefficients.items())), denominator


def divisor(expression: Expr) -> int:
    """The modulus of a Mod."""
    modulus = expression.args[1]
    if not modulus.is_Integer or modulus <= 0:
        raise ExpressionError(
            f"modulus {modulus} is no positive integer", node=str(expression), alternatives=("a constant modulus",)
        )
    return int(modulus)


class Ranges:
    """Bounds and bits of expressions over symbols of known bounds."""

    def __init__(self, symbols: Mapping[Expr, Bounds]) -> None:
        self._symbols = symbols

    def of(self, expression: Expr) -> Bounds:
        """Bounds by interval arithmetic (Moore, "Interval Analysis", 1966): never too narrow, perhaps too wide."""
        if expression.is_Integer:
            return Bounds(int(expression), int(expression))
        if expression.is_Symbol:
            if expression not in self._symbols:
                raise ExpressionError(
                    f"symbol '{expression}' is not bound", node=str(expression), alternatives=map(str, self._symbols)
                )
            return self._symbols[expression]
        if isinstance(expression, sympy.floor):
            numerator, denominator = fraction(expression.args[0])
            inner = self.of(numerator)
            return Bounds(inner.low // denominator, inner.high // denominator)
        if isinstance(expression, sympy.Mod):
            modulus, inner = divisor(expression), self.of(expression.args[0])
            same_period = inner.low // modulus == inner.high // modulus
            return Bounds(inner.low % modulus, inner.high % modulus) if same_period else Bounds(0, modulus - 1)
        if expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
            return self._power(self.of(expression.base), int(expression.exp))
        parts = [self.of(part) for part in expression.args]
        if expression.is_Add:
            return reduce(add, parts)
        if expression.is_Mul:
            return reduce(mul, parts)
        if isinstance(expression, sympy.Max | sympy.Min):
            pick = max if isinstance(expression, sympy.Max) else min
            return Bounds(pick(p.low for p in parts), pick(p.high for p in parts))
        raise ExpressionError(
            f"no instructions for {expression}",
            node=str(expression),
            alternatives=("sums", "products", "floor of a quotient by a constant", "Mod by a constant", "Min", "Max"),
        )

    @staticmethod
    def _power(base: Bounds, exponent: int) -> Bounds:
        corners = (base.low**exponent, base.high**exponent)
        zero = exponent % 2 == 0 and base.low < 0 < base.high
        return Bounds(0 if zero else min(corners), max(corners))

    def bits(self, expression: Expr) -> int | None:
        """A mask of the bits that can be set; None where the value may be negative or need more than 32 bits."""
        bounds = self.of(expression)
        if not bounds.is_unsigned:
            return None
        if bounds.low == bounds.high:
            return bounds.low
        full = (1 << bounds.high.bit_length()) - 1
        if expression.is_Add:
            return full & self._sum_bits([self.bits(part) for part in expression.args])
        if expression.is_Mul:
            return full & -self._power_of_two(expression)
        if isinstance(expression, sympy.floor):
            numerator, denominator = fraction(expression.args[0])
            inner = self.bits(numerator)
            if inner is not None and denominator & (denominator - 1) == 0:
                return full & inner >> (denominator.bit_length() - 1)
        if isinstance(expression, sympy.Mod):
            inner, modulus = self.bits(expression.args[0]), divisor(expression)
            if inner is not None and modulus & (modulus - 1) == 0:
                return full & inner & (modulus - 1)
        return full

    @staticmethod
    def _sum_bits(parts: list[int | None]) -> int:
        """Disjoint parts keep their bits; otherwise carries may set any bit from the lowest one on."""
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return -1
        lowest = min((part & -part for part in known if part), default=1)
        return reduce(or_, known) if disjoint(*known) else -lowest

    def _power_of_two(self, expression: Expr) -> int:
        """The greatest power of two known to divide a product."""
        found = 1
        for factor in expression.args:
            bits = abs(int(factor)) if factor.is_Integer else self.bits(factor)
            found *= bits & -bits if bits else 1
        return found


def disjoint(*masks: int | None) -> bool:
    """Whether no two masks share a bit, so that a sum carries nothing and is an or."""
    total = 0
    for mask in masks:
        if mask is None or total & mask:
            return False
        total |= mask
    return True
