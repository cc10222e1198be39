"""Python's operators on blocks: which block ops an expression is.

x + y, x - y, x * y, x / y, x @ y       add, sub, mul, div, matmul; with a number `<op>_scalar`
2 - x, 1 / x, 2 / x                     rsub_scalar, recip, div of a block full of twos
x ** 2, x ** 0.5, x ** y                products for whole exponents up to 16, roots for halves, pow for others
-x, abs(x)                              neg, abs
x < y, x == 0, x >= 2                   lt, eqz, ge: blocks of ones and zeros, for `where`
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from optimizer.errors import StateError

MOST_PRODUCTS = 16
"""Whole exponents up to this one are products, which keep the sign; those above are the SFPU's power."""
_ROOTS = {0.5: "sqrt", -0.5: "rsqrt"}
_WITH_ZERO = {"lt": "ltz", "le": "lez", "gt": "gtz", "ge": "gez", "eq": "eqz", "ne": "nez"}


class Expression(ABC):
    """What operators work on. Results of comparisons are blocks, so there is no order, equality or truth of blocks."""

    @abstractmethod
    def applied(self, name: str, *others: Self, **numbers: float) -> Self:
        """A block op with this block as its first operand."""

    @abstractmethod
    def filled(self, number: float) -> Self:
        """A block of this one's shape and element type that holds one number everywhere."""

    def __add__(self, other: Self | float) -> Self:
        return self._combined("add", other)

    def __sub__(self, other: Self | float) -> Self:
        return self._combined("sub", other)

    def __mul__(self, other: Self | float) -> Self:
        return self._combined("mul", other)

    def __truediv__(self, other: Self | float) -> Self:
        return self._combined("div", other)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: float) -> Self:
        return self.applied("rsub_scalar", value=_number(other))

    def __rtruediv__(self, other: float) -> Self:
        number = _number(other)
        return self.applied("recip") if number == 1 else self.filled(number).applied("div", self)

    def __matmul__(self, other: Self) -> Self:
        return self.applied("matmul", other)

    def __neg__(self) -> Self:
        return self.applied("neg")

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return self.applied("abs")

    def __pow__(self, exponent: Self | float) -> Self:
        if isinstance(exponent, type(self)):
            return self.applied("pow", exponent)
        number = _number(exponent)
        if number in _ROOTS:
            return self.applied(_ROOTS[number])
        if not number.is_integer() or abs(number) > MOST_PRODUCTS:
            return self.applied("pow", self.filled(number))
        if number == 0:
            return self.filled(1.0)
        power = self._product(abs(int(number)))
        return power if number > 0 else power.applied("recip")

    def __rpow__(self, base: float) -> Self:
        number = _number(base)
        return self.applied("exp2") if number == 2 else self.filled(number).applied("pow", self)

    def __lt__(self, other: Self | float) -> Self:
        return self._compared("lt", other)

    def __le__(self, other: Self | float) -> Self:
        return self._compared("le", other)

    def __gt__(self, other: Self | float) -> Self:
        return self._compared("gt", other)

    def __ge__(self, other: Self | float) -> Self:
        return self._compared("ge", other)

    def __eq__(self, other: Self | float) -> Self:  # type: ignore[override]
        return self._compared("eq", other)

    def __ne__(self, other: Self | float) -> Self:  # type: ignore[override]
        return self._compared("ne", other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise StateError(
            "a block has no truth value, its elements have one each: where(condition, x, y) chooses between blocks"
        )

    def _combined(self, name: str, other: Self | float) -> Self:
        if isinstance(other, type(self)):
            return self.applied(name, other)
        return self.applied(f"{name}_scalar", value=_number(other))

    def _compared(self, name: str, other: Self | float) -> Self:
        if isinstance(other, type(self)):
            return self.applied(name, other)
        number = _number(other)
        return self.applied(_WITH_ZERO[name]) if number == 0 else self.applied(name, self.filled(number))

    def _product(self, exponent: int) -> Self:
        """Squares, and what is left of the exponent's bits, from the highest one on."""
        power = self
        for bit in f"{exponent:b}"[1:]:
            power = power.applied("square")
            power = power.applied("mul", self) if bit == "1" else power
        return power


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise StateError(f"a block is combined with a block or a number, got a {type(value).__name__}")
    return float(value)
