"""Sums in the vector unit: shifts, masks and products fused with the additions; or where nothing can carry."""

from __future__ import annotations

from typing import Any

import sympy

from gfx942.expr.bounds import Expr, disjoint, divisor, fraction, terms
from gfx942.expr.division import NARROW
from gfx942.expr.legal import file_of, is_literal, legal_vector
from gfx942.expr.shapes import log2, outer_sums
from gfx942.expr.values import Values, word
from optimizer.kernels.amdgpu.operands import INLINE_INTEGERS, Operand

Item = tuple[Any, Expr]


class VectorSum:
    """One sum; `_total` holds the terms added so far, whose value is `_operand`."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._operand: Operand | None = None
        self._total: Expr = sympy.Integer(0)

    def compute(self, expression: Expr) -> Operand:
        """Emit a sum."""
        vector, uniform = {}, sympy.Integer(0)
        for term, coefficient in terms(expression).items():
            if self._values.is_uniform(term):
                uniform += coefficient * term
            else:
                vector[term] = coefficient
        items = outer_sums(vector, self._values, self._values.scopes.depth_of(expression), least=2)
        shift = log2(items[0][0])
        if uniform == 0 and len(items) == 2 and shift and items[0][0] == items[1][0]:
            sum_of = [self._values.value(term) for _, term in items]
            return self._emit("v_add_lshl_u32", *sum_of, shift)
        if uniform.is_Integer and is_literal(word(int(uniform))):
            self.add(items)
            return self._finish(int(uniform))
        if uniform != 0:
            self._operand, self._total = self._values.value(uniform), uniform
        return self.add(items)

    def add(self, items: list[Item]) -> Operand:
        """Add (coefficient, term) pairs; the sum."""
        known = [c * term for c, term in items if c > 1 and self._values.is_known(c * term)]
        masked = [c * term for c, term in items if c >= 1 and self._mask(c * term)]
        ones = [term for c, term in items if c == 1 and term not in masked] + known
        scaled = [(c, term) for c, term in items if c > 1 and c * term not in (*known, *masked)]
        negative = [(c, term) for c, term in items if c < 0]
        if self._operand is None:
            self._start(ones, masked, scaled)
        while ones:
            self._add_ones(ones)
        for term in masked:
            self._add_masked(term)
        for coefficient, term in scaled:
            self._add_scaled(int(coefficient), term)
        for coefficient, term in negative:
            self._subtract(-int(coefficient), term)
        assert self._operand is not None
        return self._operand

    def _start(self, ones: list[Expr], masked: list[Expr], scaled: list[Item]) -> None:
        if ones or masked:
            self._total = (ones or masked).pop(0)
        elif scaled:
            coefficient, term = scaled.pop(0)
            self._total = coefficient * term
        self._operand = self._values.value(self._total)

    def _emit(self, name: str, *operands: Operand | int) -> Operand:
        return legal_vector(self._values, name, *operands)

    def _set(self, operand: Operand, added: Expr) -> None:
        self._operand, self._total = operand, self._total + added

    def _is_disjoint(self, *added: Expr) -> bool:
        return disjoint(*(self._values.ranges.bits(part) for part in (self._total, *added)))

    def _add_ones(self, ones: list[Expr]) -> None:
        """Take one or two terms from the front."""
        assert self._operand is not None
        first, second = ones.pop(0), ones.pop(0) if ones else None
        if second is None:
            name = "v_or_b32" if self._is_disjoint(first) else "v_add_u32"
            self._set(self._emit(name, self._operand, self._values.value(first)), first)
        else:
            name = "v_or3_b32" if self._is_disjoint(first, second) else "v_add3_u32"
            values = (self._values.value(first), self._values.value(second))
            self._set(self._emit(name, self._operand, *values), first + second)

    def _add_masked(self, term: Expr) -> None:
        assert self._operand is not None
        masked = self._mask(term)
        if masked is not None and self._is_disjoint(term):
            source, mask = masked
            self._set(self._emit("v_and_or_b32", self._values.value(source), mask, self._operand), term)
        else:
            self._add_ones([term])

    def _mask(self, term: Expr) -> tuple[Expr, int] | None:
        """`x` and a mask that needs no register, for `Mod(x, 2^k)` and `2^k*floor(x/2^k)` that are not there yet."""
        coefficient, factor = term.as_coeff_Mul()
        if self._values.is_known(term) or self._values.is_known(factor):
            return None
        if isinstance(factor, sympy.Mod) and coefficient == 1:
            source, modulus = factor.args[0], divisor(factor)
            mask, whole = modulus - 1, not isinstance(source, sympy.floor) or self._values.is_known(source)
        elif isinstance(factor, sympy.floor):
            source, modulus = fraction(factor.args[0])
            mask, whole = -modulus, coefficient == modulus
        else:
            return None
        return (source, mask) if whole and log2(modulus) is not None and mask in INLINE_INTEGERS else None

    def _add_scaled(self, coefficient: int, term: Expr) -> None:
        assert self._operand is not None
        shift, added = log2(coefficient), coefficient * term
        if shift is not None:
            name = "v_lshl_or_b32" if self._is_disjoint(added) else "v_lshl_add_u32"
            self._set(self._emit(name, self._values.value(term), shift, self._operand), added)
            return
        narrow = (1 << NARROW) - 1
        fits = self._values.ranges.of(term).within(0, narrow) and coefficient <= narrow
        if fits and (file_of(self._operand) != "s" or coefficient in INLINE_INTEGERS):
            self._set(self._emit("v_mad_u32_u24", self._values.value(term), coefficient, self._operand), added)
        else:
            self._set(self._emit("v_add_u32", self._operand, self._values.value(added)), added)

    def _subtract(self, coefficient: int, term: Expr) -> None:
        assert self._operand is not None
        half, known = 1 << (NARROW - 1), self._values.is_known(coefficient * term)
        narrow = self._values.ranges.of(term).within(-half, half - 1) and -coefficient in INLINE_INTEGERS
        if coefficient > 1 and narrow and not known:
            result = self._emit("v_mad_i32_i24", self._values.value(term), -coefficient, self._operand)
        else:
            result = self._emit("v_sub_u32", self._operand, self._values.value(coefficient * term))
        self._set(result, -coefficient * term)

    def _finish(self, literal: int) -> Operand:
        assert self._operand is not None
        name = "v_or_b32" if self._is_disjoint(sympy.Integer(literal)) else "v_add_u32"
        return self._emit(name, literal, self._operand)
