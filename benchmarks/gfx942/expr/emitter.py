"""Integer expressions as instructions: each value once per scope, in the scalar unit where all lanes agree.

    e = ExpressionEmitter(builder)
    tid, wgid = e.bind("tid_x", THREAD_ID, 0, 63), e.bind("wgid_x", WORKGROUP_ID[0], 0, 4095)
    row = floor_div(tid, 16)
    with e.scope():                                  # the body of a loop, say
        k = e.bind("k", counter, 0, 1023)
        address = e.vector(row * 256 + k)            # row * 256 is computed before the loop
    place = e.buffer_address(wgid * 4096 + row * 256 + 20)   # vector, scalar and constant part

Expressions are SymPy's. Every symbol is an integer between the bounds it was bound with; the instructions are right for
all values within them. A result that may not fit 32 bits is refused. Values in SGPRs are computed by instructions that
overwrite scc.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import sympy

from gfx942.builder import KernelBuilder
from gfx942.expr.bounds import Bounds, Expr, terms
from gfx942.expr.errors import ExpressionError
from gfx942.expr.scalar_unit import ScalarUnit
from gfx942.expr.values import Values
from gfx942.expr.vector_unit import VectorUnit
from optimizer.kernels.amdgpu.abi import THREAD_ID, WORKGROUP_ID
from optimizer.kernels.amdgpu.debug import enabled, say
from optimizer.kernels.amdgpu.operands import OFF, Immediate, Operand, RegOperand, registers

BUFFER_OFFSET = 4095
LDS_OFFSET = 65535


@dataclass(frozen=True)
class Address:
    """Operands of a memory instruction whose sum is a byte address."""

    vector: Any
    """VGPR, or `off` where there is no vector part."""
    scalar: Any
    """SGPR or inline constant."""
    offset: int


def _number(value: Expr) -> Expr:
    """An expression or a number of Python's. ExpressionError for anything else: SymPy would evaluate text as code."""
    try:
        return sympy.sympify(value, strict=True)
    except sympy.SympifyError:
        raise ExpressionError(f"a {type(value).__name__} is no expression") from None


def floor_div(numerator: Expr, denominator: int) -> Expr:
    """The greatest integer not above the quotient."""
    return sympy.floor(_number(numerator) / denominator)


def mod(value: Expr, modulus: int) -> Expr:
    """What `floor_div` leaves: from 0 to `modulus - 1`."""
    return sympy.Mod(_number(value), modulus)


class ExpressionEmitter(Values):
    """Adds the instructions of expressions to a builder's program."""

    def __init__(self, builder: KernelBuilder) -> None:
        super().__init__(builder)
        self._scalar = ScalarUnit(self)
        self._vector = VectorUnit(self)

    def compute(self, expression: Expr) -> Operand:
        unit = self._scalar if self.is_uniform(expression) else self._vector
        found: Operand = unit.compute(expression)
        return found

    # -- symbols ------------------------------------------------------------------------------------------------------
    def bind(self, name: str, operand: RegOperand, low: int, high: int) -> Expr:
        """The symbol `name`: an integer from `low` to `high` in a VGPR or SGPR, until the open scope closes.

        A register that changes, like a loop's counter, is bound in a scope that closes before the change.
        """
        if len(registers(operand)) != 1:
            raise ExpressionError(f"symbol '{name}' is bound to {operand}, which is not one register", node=name)
        symbol = sympy.Symbol(name, integer=True)
        bounds = Bounds(low, high)
        if not bounds.is_signed and not bounds.is_unsigned:
            raise ExpressionError(f"symbol '{name}' in {bounds} does not fit a register", node=name, limit=32)
        self.scopes.bind(symbol, operand, bounds)
        self.refresh()
        return symbol

    def bind_thread_ids(self, workgroup: tuple[int, int, int]) -> tuple[Expr, Expr, Expr]:
        """`tid_x`, `tid_y`, `tid_z` of a workgroup of that size; a dimension of size 1 has id 0."""
        flat = workgroup[1:] == (1, 1)
        found = []
        for n, (axis, size) in enumerate(zip("xyz", workgroup, strict=True)):
            if size == 1:
                found.append(sympy.Integer(0))
            else:
                register = THREAD_ID if flat else self.builder.v_bfe_u32(THREAD_ID, 10 * n, 10)
                found.append(self.bind(f"tid_{axis}", register, 0, size - 1))
        return found[0], found[1], found[2]

    def bind_workgroup_ids(self, grid: tuple[int, ...]) -> tuple[Expr, ...]:
        """`wgid_x`, ... of a grid of that many workgroups; a dimension of size 1 has id 0."""
        return tuple(
            self.bind(f"wgid_{axis}", register, 0, size - 1) if size > 1 else sympy.Integer(0)
            for axis, register, size in zip("xyz", WORKGROUP_ID, grid, strict=False)
        )

    def scope(self) -> AbstractContextManager[None]:
        """Code that control enters at the top only, and that it may leave out or repeat.

        Open it before the label or branch, before exec is narrowed and where scc is not in use: values of the scopes
        around are computed there.
        """
        return self.scopes.scope()

    # -- values -------------------------------------------------------------------------------------------------------
    def emit(self, expression: Expr) -> Operand:
        """The operand that holds an expression: an immediate, an SGPR if all its symbols are in SGPRs, or a VGPR."""
        return self.value(self.simplified(expression))

    def vector(self, expression: Expr) -> Any:
        """The VGPR that holds an expression."""
        return self._vector.register(self.simplified(expression))

    def scalar(self, expression: Expr) -> Any:
        """The SGPR that holds an expression. ExpressionError if one of its symbols is in a VGPR."""
        simple = self.simplified(expression)
        if not self.is_uniform(simple):
            raise ExpressionError(f"{expression} is not the same in all lanes", node=str(expression))
        return self._scalar.register(simple)

    def owned(self, expression: Expr) -> Any:
        """A new VGPR that holds an expression and that the caller may change."""
        simple = self.simplified(expression)
        if simple.is_Symbol or simple.is_Integer or self.is_known(simple) or self.is_uniform(simple):
            return self.builder.v_mov_b32(self.value(simple))
        return self._vector.compute(simple)

    def named(self, name: str, expression: Expr) -> Expr:
        """A symbol for the value of an expression: what is made of it starts from that register, not from its parts."""
        simple = self.simplified(expression)
        if simple.is_Integer or simple.is_Symbol:
            return simple
        bounds = self.ranges.of(simple)
        operand: Any = self.value(simple)
        return self.bind(name, operand, bounds.low, bounds.high)

    def buffer_address(self, expression: Expr) -> Address:
        """A byte offset as vector, scalar and constant part of a buffer instruction."""
        simple = self.simplified(expression)
        vector, scalar, constant = self._parts(simple)
        offset = constant & BUFFER_OFFSET
        scalar += constant - offset
        # Address arithmetic of the hardware does not wrap: every part has to be positive by itself.
        if min(self.ranges.of(part).low for part in (vector, scalar)) < 0 or vector + scalar + offset != simple:
            return Address(self._vector.register(simple), Immediate(0), 0)
        base = self.value(scalar)
        if isinstance(base, Immediate) and not base.is_inline():
            base = self._scalar.register(scalar)
        return Address(OFF if vector == 0 else self._vector.register(vector), base, offset)

    def lds_address(self, expression: Expr) -> Address:
        """A byte offset as VGPR and constant part of an LDS instruction."""
        simple = self.simplified(expression)
        vector, scalar, constant = self._parts(simple)
        if not 0 <= constant <= LDS_OFFSET or self.ranges.of(vector + scalar).low < 0:
            return Address(self._vector.register(simple), Immediate(0), 0)
        if enabled("ds-offset"):
            say("ds-offset", f"{simple}: offset:{constant}", expression=str(simple), offset=constant)
        return Address(self._vector.register(self.simplifier.simplify(vector + scalar)), Immediate(0), constant)

    def _parts(self, expression: Expr) -> tuple[Expr, Expr, int]:
        vector, scalar, constant = sympy.Integer(0), sympy.Integer(0), 0
        for term, coefficient in terms(expression).items():
            if term == 1:
                constant = int(coefficient)
            elif self.is_uniform(term):
                scalar += coefficient * term
            else:
                vector += coefficient * term
        return vector, scalar, constant

    def simplified(self, expression: Expr) -> Expr:
        """The expression that is computed. ExpressionError if its value may not fit 32 bits."""
        given = _number(expression)
        bound = {str(symbol): symbol for symbol in self.scopes.bounds()}
        names = {symbol: bound[str(symbol)] for symbol in given.free_symbols if str(symbol) in bound}
        simple = self.simplifier.simplify(given.xreplace(names))
        self.check_word(simple)
        return simple
