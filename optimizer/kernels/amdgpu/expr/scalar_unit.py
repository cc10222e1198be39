"""Values that all lanes share, computed by scalar instructions. They overwrite scc."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sympy

from optimizer.kernels.amdgpu.expr.bounds import Bounds, Expr, divisor, fraction, terms
from optimizer.kernels.amdgpu.expr.division import WORD, wide_magic
from optimizer.kernels.amdgpu.expr.shapes import bit_field, extreme_name, log2, outer_sums, shifted_range
from optimizer.kernels.amdgpu.operands import Immediate, Operand

if TYPE_CHECKING:
    from optimizer.kernels.amdgpu.expr.emitter import ExpressionEmitter

FUSED_SHIFTS = range(1, 5)
"""s_lshl1_add_u32 to s_lshl4_add_u32."""


class ScalarUnit:
    """Chooses scalar instructions."""

    def __init__(self, emitter: ExpressionEmitter) -> None:
        self._emitter = emitter
        self._builder = emitter.builder

    def register(self, expression: Expr) -> Operand:
        """The SGPR of a simplified uniform expression."""
        operand = self._emitter.value(expression)
        return self._emitter.constant_register(operand.value) if isinstance(operand, Immediate) else operand

    def compute(self, expression: Expr) -> Any:
        """Emit a simplified uniform expression here."""
        if expression.is_Add:
            return self._sum(expression)
        if expression.is_Mul:
            return self._product(expression)
        if expression.is_Pow:
            return self._product(expression)
        if isinstance(expression, sympy.floor):
            return self._quotient(expression)
        if isinstance(expression, sympy.Mod):
            return self._remainder(expression)
        name = extreme_name("s", expression, self._emitter)
        operands = [self._emitter.value(part) for part in expression.args]
        result = operands[0]
        for operand in operands[1:]:
            result = self._emit(name, result, operand)
        return result

    def _emit(self, name: str, *operands: Operand | int) -> Operand:
        result: Operand = self._builder.emit(name, *operands)
        return result

    def _sum(self, expression: Expr) -> Operand:
        depth = self._emitter.scopes.depth_of(expression)
        items = outer_sums(terms(expression), self._emitter, depth, least=1)
        # A constant goes early: it is an operand of whatever comes next.
        items.sort(key=lambda item: 1 if item[1] == 1 else 0 if item[0] == 1 else 2 if item[0] > 0 else 3)
        coefficient, first = items.pop(0)
        total = self._emitter.value(coefficient * first)
        for coefficient, term in items:
            shift = log2(coefficient)
            if term == 1:
                total = self._emit("s_add_u32", total, int(coefficient))
            elif shift in FUSED_SHIFTS:
                total = self._emit(f"s_lshl{shift}_add_u32", self._emitter.value(term), total)
            elif coefficient > 0:
                total = self._emit("s_add_u32", total, self._emitter.value(coefficient * term))
            else:
                total = self._emit("s_sub_u32", total, self._emitter.value(-coefficient * term))
        return total

    def _product(self, expression: Expr) -> Operand:
        coefficient, rest = expression.as_coeff_Mul()
        factors = [base for base, power in rest.as_powers_dict().items() for _ in range(int(power))]
        factors.sort(key=str)
        result = self._emitter.value(factors[0])
        for factor in factors[1:]:
            result = self._emit("s_mul_i32", result, self._emitter.value(factor))
        shift = log2(coefficient)
        if shift is not None:
            return self._emit("s_lshl_b32", result, shift) if shift else result
        if coefficient == -1:
            return self._emit("s_sub_u32", 0, result)
        return self._emit("s_mul_i32", result, int(coefficient))

    # -- division -----------------------------------------------------------------------------------------------------
    def _quotient(self, expression: Expr) -> Operand:
        numerator, denominator = fraction(expression.args[0])
        bounds = self._emitter.check_word(numerator)
        operand = self._emitter.value(numerator)
        shift = log2(denominator)
        if shift is not None:
            name = "s_lshr_b32" if bounds.is_unsigned else "s_ashr_i32"
            return self._emit(name, operand, shift)
        return self._divide(operand, denominator, bounds)

    def _divide(self, operand: Operand, denominator: int, bounds: Bounds) -> Operand:
        if bounds.is_unsigned:
            return self._divide_unsigned(operand, denominator, bounds.high)
        periods, high = shifted_range(bounds, denominator)
        if high < 1 << WORD:
            raised = self._emit("s_add_u32", operand, periods * denominator)
            return self._emit("s_sub_u32", self._divide_unsigned(raised, denominator, high), periods)
        # floor(x/d) == ~floor(~x/d)
        sign = self._emit("s_ashr_i32", operand, 31)
        size = self._emit("s_xor_b32", operand, sign)
        return self._emit("s_xor_b32", self._divide_unsigned(size, denominator, (1 << 31) - 1), sign)

    def _divide_unsigned(self, operand: Operand, denominator: int, high: int) -> Operand:
        magic = wide_magic(denominator, high)
        result = self._emit("s_mul_hi_u32", operand, magic.multiplier)
        shift = magic.power - WORD
        if magic.add:
            half = self._emit("s_lshr_b32", self._emit("s_sub_u32", operand, result), 1)
            return self._emit("s_lshr_b32", self._emit("s_add_u32", half, result), shift - 1)
        return self._emit("s_lshr_b32", result, shift) if shift else result

    def _remainder(self, expression: Expr) -> Operand:
        value, modulus = expression.args[0], divisor(expression)
        if log2(modulus) is not None:
            field = bit_field(expression, self._emitter)
            if field is not None:
                source, first, width = field
                return self._emit("s_bfe_u32", self._emitter.value(source), first | width << 16)
            return self._emit("s_and_b32", self._emitter.value(value), modulus - 1)
        self._emitter.check_word(value)
        quotient = self._emitter.value(self._emitter.simplifier.quotient(value, modulus))
        whole = self._emit("s_mul_i32", quotient, modulus)
        return self._emit("s_sub_u32", self._emitter.value(value), whole)
