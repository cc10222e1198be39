"""Values that all lanes share, computed by scalar instructions. They overwrite scc."""

from __future__ import annotations

from gfx942.expr.bounds import Expr, divisor, terms
from gfx942.expr.shapes import bit_field, log2, outer_sums
from gfx942.expr.unit import Unit, factors_of
from optimizer.kernels.amdgpu.operands import Immediate, Operand

FUSED_SHIFTS = range(1, 5)
"""s_lshl1_add_u32 to s_lshl4_add_u32."""


class ScalarUnit(Unit):
    """Chooses scalar instructions."""

    prefix = "s"

    def register(self, expression: Expr) -> Operand:
        """The SGPR of a simplified uniform expression."""
        operand = self._values.value(expression)
        return self._values.constant_register(operand.value) if isinstance(operand, Immediate) else operand

    def _emit(self, name: str, *operands: Operand | int) -> Operand:
        result: Operand = self._builder.emit(name, *operands)
        return result

    def _sum(self, expression: Expr) -> Operand:
        depth = self._values.scopes.depth_of(expression)
        items = outer_sums(terms(expression), self._values, depth, least=1)
        # A constant goes early: it is an operand of whatever comes next.
        items.sort(key=lambda item: 1 if item[1] == 1 else 0 if item[0] == 1 else 2 if item[0] > 0 else 3)
        coefficient, first = items.pop(0)
        total = self._values.value(coefficient * first)
        for coefficient, term in items:
            shift = log2(coefficient)
            if term == 1:
                total = self._emit("s_add_u32", total, int(coefficient))
            elif shift in FUSED_SHIFTS:
                total = self._emit(f"s_lshl{shift}_add_u32", self._values.value(term), total)
            elif coefficient > 0:
                total = self._emit("s_add_u32", total, self._values.value(coefficient * term))
            else:
                total = self._emit("s_sub_u32", total, self._values.value(-coefficient * term))
        return total

    def _product(self, expression: Expr) -> Operand:
        coefficient, factors = factors_of(expression)
        result = self._values.value(factors[0])
        for factor in factors[1:]:
            result = self._emit("s_mul_i32", result, self._values.value(factor))
        shift = log2(coefficient)
        if shift is not None:
            return self._emit("s_lshl_b32", result, shift) if shift else result
        if coefficient == -1:
            return self._emit("s_sub_u32", 0, result)
        return self._emit("s_mul_i32", result, int(coefficient))

    def _raised(self, operand: Operand, constant: int) -> Operand:
        return self._emit("s_sub_u32" if constant < 0 else "s_add_u32", operand, abs(constant))

    def _shifted(self, operand: Operand, places: int, signed: bool = False) -> Operand:
        return self._emit("s_ashr_i32" if signed else "s_lshr_b32", operand, places)

    def _remainder(self, expression: Expr) -> Operand:
        value, modulus = expression.args[0], divisor(expression)
        if log2(modulus) is not None:
            field = bit_field(expression, self._values)
            if field is not None:
                source, first, width = field
                return self._emit("s_bfe_u32", self._values.value(source), first | width << 16)
            return self._emit("s_and_b32", self._values.value(value), modulus - 1)
        self._values.check_word(value)
        quotient = self._values.value(self._values.simplifier.quotient(value, modulus))
        whole = self._emit("s_mul_i32", quotient, modulus)
        return self._emit("s_sub_u32", self._values.value(value), whole)
