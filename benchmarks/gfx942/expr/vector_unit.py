"""Values of their own in every lane, computed by vector instructions."""

from __future__ import annotations

import sympy

from gfx942.expr.bounds import Bounds, Expr, divisor, fraction
from gfx942.expr.division import NARROW, narrow_magic
from gfx942.expr.legal import file_of, legal_vector
from gfx942.expr.shapes import bit_field, log2
from gfx942.expr.unit import Unit, factors_of
from gfx942.expr.vector_sum import VectorSum
from optimizer.kernels.amdgpu.operands import Operand


class VectorUnit(Unit):
    """Chooses vector instructions."""

    prefix = "v"

    def register(self, expression: Expr) -> Operand:
        """The VGPR of a simplified expression."""
        operand = self._values.value(expression)
        if file_of(operand) == "v":
            return operand
        scopes, depth = self._values.scopes, self._values.scopes.depth_of(expression)
        found = scopes.known((expression, "v"), depth)
        if found is None:
            with scopes.at(depth):
                found = self._builder.v_mov_b32(operand)
            scopes.remember((expression, "v"), depth, found)
        return found

    def _emit(self, name: str, *operands: Operand | int) -> Operand:
        return legal_vector(self._values, name, *operands)

    def _sum(self, expression: Expr) -> Operand:
        return VectorSum(self._values).compute(expression)

    # -- products -----------------------------------------------------------------------------------------------------
    def _product(self, expression: Expr) -> Operand:
        coefficient, factors = factors_of(expression)
        uniform = [f for f in factors if self._values.is_uniform(f)]
        vector = [f for f in factors if not self._values.is_uniform(f)]
        if uniform:
            return self._multiplied(vector, sympy.Mul(coefficient, *uniform))
        if len(vector) == 1 and (cleared := self._low_bits_cleared(coefficient, vector[0])) is not None:
            return cleared
        shift = log2(coefficient)
        if shift is None:
            return self._multiplied(vector, coefficient)
        product = self._multiplied(vector, sympy.Integer(1))
        return self._emit("v_lshlrev_b32", shift, product) if shift else product

    def _low_bits_cleared(self, coefficient: Expr, factor: Expr) -> Operand | None:
        """`2^k * floor(x/2^k)` clears the low bits of x."""
        if not isinstance(factor, sympy.floor) or self._values.is_known(factor):
            return None
        numerator, denominator = fraction(factor.args[0])
        if coefficient != denominator or log2(denominator) is None:
            return None
        self._values.check_word(numerator)
        return self._emit("v_and_b32", -denominator, self._values.value(numerator))

    def _multiplied(self, factors: list[Expr], scale: Expr) -> Operand:
        """The product of vector factors and a uniform one, modulo 2^32."""
        result, so_far = self._values.value(factors[0]), factors[0]
        for factor in [*factors[1:], *([scale] if scale != 1 else [])]:
            if factor == -1:
                result = self._emit("v_sub_u32", 0, result)
            else:
                bounds = (self._values.ranges.of(so_far), self._values.ranges.of(factor))
                result = self._emit(product_name(*bounds), self._values.value(factor), result)
            so_far = so_far * factor
        return result

    # -- division -----------------------------------------------------------------------------------------------------
    def _raised(self, operand: Operand, constant: int) -> Operand:
        return self._emit("v_add_u32", constant, operand)

    def _shifted(self, operand: Operand, places: int, signed: bool = False) -> Operand:
        return self._emit("v_ashrrev_i32" if signed else "v_lshrrev_b32", places, operand)

    def _divide(self, operand: Operand, denominator: int, high: int) -> Operand:
        """The quotient of an operand from 0 to `high`."""
        narrow = narrow_magic(denominator, high)
        if narrow is not None:
            product = self._emit("v_mul_u32_u24", narrow.multiplier, operand)
            return self._emit("v_lshrrev_b32", narrow.power, product)
        return super()._divide(operand, denominator, high)

    def _remainder(self, expression: Expr) -> Operand:
        value, modulus = expression.args[0], divisor(expression)
        if log2(modulus) is not None:
            field = bit_field(expression, self._values)
            if field is not None:
                source, first, width = field
                return self._emit("v_bfe_u32", self._values.value(source), first, width)
            return self._emit("v_and_b32", modulus - 1, self._values.value(value))
        self._values.check_word(value)
        quotient = self._values.simplifier.quotient(value, modulus)
        return VectorSum(self._values).add([(1, value), (-modulus, quotient)])


def product_name(a: Bounds, b: Bounds) -> str:
    """The cheapest multiplication that is right for factors within bounds: 24-bit ones take a quarter of the time."""
    if a.within(0, (1 << NARROW) - 1) and b.within(0, (1 << NARROW) - 1):
        return "v_mul_u32_u24"
    half = 1 << (NARROW - 1)
    return "v_mul_i32_i24" if a.within(-half, half - 1) and b.within(-half, half - 1) else "v_mul_lo_u32"
