"""What the scalar and the vector unit compute alike: which operation an expression is, and division by constants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import sympy

from gfx942.expr.bounds import Expr, fraction
from gfx942.expr.division import WORD, wide_magic
from gfx942.expr.shapes import extreme_name, log2, shifted_range
from gfx942.expr.values import Values
from optimizer.kernels.amdgpu.operands import Operand


class Unit(ABC):
    """Chooses the instructions of one of the two units."""

    prefix: ClassVar[str]
    """Of its mnemonics: s or v."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._builder = values.builder

    def compute(self, expression: Expr) -> Any:
        """Emit a simplified expression here."""
        if expression.is_Add:
            return self._sum(expression)
        if expression.is_Mul or expression.is_Pow:
            return self._product(expression)
        if isinstance(expression, sympy.floor):
            return self._quotient(expression)
        if isinstance(expression, sympy.Mod):
            return self._remainder(expression)
        name = extreme_name(self.prefix, expression, self._values)
        operands = [self._values.value(part) for part in expression.args]
        result = operands[0]
        for operand in operands[1:]:
            result = self._emit(name, result, operand)
        return result

    @abstractmethod
    def _emit(self, name: str, *operands: Operand | int) -> Operand:
        """One instruction, by its mnemonic."""

    @abstractmethod
    def _sum(self, expression: Expr) -> Operand: ...

    @abstractmethod
    def _product(self, expression: Expr) -> Operand: ...

    @abstractmethod
    def _remainder(self, expression: Expr) -> Operand: ...

    @abstractmethod
    def _raised(self, operand: Operand, constant: int) -> Operand:
        """Operand plus constant."""

    @abstractmethod
    def _shifted(self, operand: Operand, places: int, signed: bool = False) -> Operand:
        """Operand shifted to the right."""

    # -- division -----------------------------------------------------------------------------------------------------
    def _quotient(self, expression: Expr) -> Operand:
        numerator, denominator = fraction(expression.args[0])
        bounds = self._values.check_word(numerator)
        operand = self._values.value(numerator)
        shift = log2(denominator)
        if shift is not None:
            return self._shifted(operand, shift, signed=not bounds.is_unsigned)
        if bounds.is_unsigned:
            return self._divide(operand, denominator, bounds.high)
        periods, high = shifted_range(bounds, denominator)
        if high < 1 << WORD:
            raised = self._raised(operand, periods * denominator)
            return self._raised(self._divide(raised, denominator, high), -periods)
        # floor(x/d) == ~floor(~x/d)
        sign = self._shifted(operand, 31, signed=True)
        size = self._emit(f"{self.prefix}_xor_b32", operand, sign)
        return self._emit(f"{self.prefix}_xor_b32", self._divide(size, denominator, (1 << 31) - 1), sign)

    def _divide(self, operand: Operand, denominator: int, high: int) -> Operand:
        """The quotient of an operand from 0 to `high`."""
        magic = wide_magic(denominator, high)
        result = self._emit(f"{self.prefix}_mul_hi_u32", operand, magic.multiplier)
        shift = magic.power - WORD
        if magic.add:
            half = self._shifted(self._emit(f"{self.prefix}_sub_u32", operand, result), 1)
            return self._shifted(self._emit(f"{self.prefix}_add_u32", half, result), shift - 1)
        return self._shifted(result, shift) if shift else result


def factors_of(expression: Expr) -> tuple[Expr, list[Expr]]:
    """Coefficient and factors of a product or power, a factor as often as its exponent says; in a fixed order."""
    coefficient, rest = expression.as_coeff_Mul()
    return coefficient, sorted((b for b, power in rest.as_powers_dict().items() for _ in range(int(power))), key=str)
