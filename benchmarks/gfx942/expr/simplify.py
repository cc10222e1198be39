"""Smaller expressions of the same value, by what is known of the symbols.

    floor(tid_x/64)              0 <= tid_x < 64      0
    Mod(64*a + b, 64)            0 <= b < 64          b
    floor((16*a + b)/64)         0 <= b < 16          floor(a/4)
    x - 64*floor(x/64)                                Mod(x, 64)
    64*floor(x/64) + Mod(x, 64)                       x
    floor(floor(x/4)/8)                               floor(x/32)
    floor(Mod(x, 64)/16)                              Mod(floor(x/16), 4)

Floor and Mod are those of the integers: `x == d*floor(x/d) + Mod(x, d)` and `0 <= Mod(x, d) < d`, for negative `x` too.
"""

from __future__ import annotations

from math import gcd

import sympy

from gfx942.expr.bounds import Expr, Ranges, divisor, fraction, terms


class Simplifier:
    """Simplifies expressions whose symbols `ranges` knows."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges
        self._known: dict[Expr, Expr] = {}

    def simplify(self, expression: Expr) -> Expr:
        """ExpressionError where it is no integer expression."""
        if expression not in self._known:
            self._known[expression] = self._constant(self._rebuild(expression))
        return self._known[expression]

    def _constant(self, expression: Expr) -> Expr:
        bounds = self._ranges.of(expression)
        return sympy.Integer(bounds.low) if bounds.low == bounds.high else expression

    def _rebuild(self, expression: Expr) -> Expr:
        if expression.is_Integer or expression.is_Symbol:
            return expression
        if isinstance(expression, sympy.floor):
            numerator, denominator = fraction(expression.args[0])
            return self.quotient(self.simplify(numerator), denominator)
        if isinstance(expression, sympy.ceiling):
            numerator, denominator = fraction(expression.args[0])
            return self.quotient(self.simplify(numerator + denominator - 1), denominator)
        if isinstance(expression, sympy.Mod):
            return self.remainder(self.simplify(expression.args[0]), divisor(expression))
        if isinstance(expression, sympy.Max | sympy.Min):
            return self._extreme(expression)
        if expression.is_Add:
            return self._recombine(sympy.Add(*map(self.simplify, expression.args)))
        if expression.is_Mul:
            return sympy.Mul(*map(self.simplify, expression.args))
        if expression.is_Pow:
            return sympy.Pow(self.simplify(expression.base), expression.exp)
        return expression

    def _extreme(self, expression: Expr) -> Expr:
        """Arguments that another one always beats are dropped."""
        sign = 1 if isinstance(expression, sympy.Max) else -1
        parts = [self.simplify(part) for part in expression.args]
        bounds = [self._ranges.of(sign * part) for part in parts]
        kept: list[int] = []
        for n, own in enumerate(bounds):
            beaten_later = any(own.high < other.low for other in bounds[n + 1 :])
            if not beaten_later and not any(own.high <= bounds[k].low for k in kept):
                kept = [k for k in kept if bounds[k].high > own.low] + [n]
        return type(expression)(*(parts[k] for k in kept))

    # -- sums ---------------------------------------------------------------------------------------------------------
    def _recombine(self, expression: Expr) -> Expr:
        """`d*floor(N/d)` is `N - Mod(N, d)`: put in wherever that leaves fewer operations."""
        for term, coefficient in terms(expression).items():
            if not isinstance(term, sympy.floor):
                continue
            numerator, denominator = fraction(term.args[0])
            if coefficient % denominator == 0:
                times = coefficient // denominator
                without = expression - coefficient * term
                other = without + times * numerator - times * self.remainder(numerator, denominator)
                if other.count_ops() < expression.count_ops():
                    return self._recombine(other)
        return expression

    # -- division -----------------------------------------------------------------------------------------------------
    def quotient(self, numerator: Expr, denominator: int) -> Expr:
        """`floor(numerator/denominator)`, simplified; the numerator already is."""
        outside, rest = sympy.Integer(0), sympy.Integer(0)
        for term, coefficient in terms(numerator).items():
            if term == 1:
                outside += coefficient // denominator
                rest += coefficient % denominator
            elif coefficient % denominator == 0:
                outside += coefficient // denominator * term
            else:
                rest += coefficient * term
        bounds = self._ranges.of(rest)
        if bounds.low // denominator == bounds.high // denominator:
            return outside + bounds.low // denominator
        common, upper, _ = self._split(rest, denominator)
        if common > 1:
            return outside + self.quotient(upper, denominator // common)
        if isinstance(rest, sympy.floor):
            inner, by = fraction(rest.args[0])
            return outside + self.quotient(inner, by * denominator)
        if isinstance(rest, sympy.Mod) and divisor(rest) % denominator == 0:
            return outside + self.remainder(self.quotient(rest.args[0], denominator), divisor(rest) // denominator)
        return outside + sympy.floor(rest / denominator)

    def remainder(self, value: Expr, modulus: int) -> Expr:
        """`Mod(value, modulus)`, simplified; the value already is."""
        rest = sympy.Integer(0)
        for term, coefficient in terms(value).items():
            if term == 1:
                rest += coefficient % modulus
            elif coefficient % modulus:
                rest += (coefficient if abs(coefficient) < modulus else coefficient % modulus) * term
        bounds = self._ranges.of(rest)
        if bounds.low // modulus == bounds.high // modulus:
            return rest - bounds.low // modulus * modulus
        common, upper, lower = self._split(rest, modulus)
        if common > 1:
            return common * self.remainder(upper, modulus // common) + lower
        if isinstance(rest, sympy.Mod) and divisor(rest) % modulus == 0:
            return self.remainder(rest.args[0], modulus)
        return sympy.Mod(rest, modulus)

    def _split(self, expression: Expr, modulus: int) -> tuple[int, Expr, Expr]:
        """`g`, `A`, `B` with `expression == g*A + B`, `0 <= B < g` and `g` a divisor of the modulus above 1.

        Then `floor(expression/d) == floor(A/(d/g))`. `g` is 1 where there is no such split.
        """
        coefficients = terms(expression)
        candidates = {gcd(int(c), modulus) for term, c in coefficients.items() if term != 1}
        for common in sorted(candidates - {1}, reverse=True):
            upper, lower = sympy.Integer(0), sympy.Integer(0)
            for term, coefficient in coefficients.items():
                if term == 1:
                    upper += coefficient // common
                    lower += coefficient % common
                elif coefficient % common == 0:
                    upper += coefficient // common * term
                else:
                    lower += coefficient * term
            if self._ranges.of(lower).within(0, common - 1):
                return common, upper, lower
        return 1, expression, sympy.Integer(0)
