"""The values of a program: the operand of every expression, computed once per scope by one of the units."""

from __future__ import annotations

from abc import ABC, abstractmethod

from gfx942.builder import KernelBuilder
from gfx942.expr.bounds import Bounds, Expr, Ranges
from gfx942.expr.errors import ExpressionError
from gfx942.expr.scopes import Scopes
from gfx942.expr.simplify import Simplifier
from optimizer.kernels.amdgpu.debug import enabled, say
from optimizer.kernels.amdgpu.operands import Immediate, Operand, registers


def word(number: int) -> Immediate:
    """A number modulo 2^32; small negative ones keep their sign, so that they need no literal."""
    bits = number & 0xFFFFFFFF
    return Immediate(bits - (1 << 32) if bits >> 31 else bits)


class Values(ABC):
    """What a unit computes an expression of: the operands of its parts, bounds, scopes, the program."""

    def __init__(self, builder: KernelBuilder) -> None:
        self.builder = builder
        self.scopes = Scopes(builder)
        self.refresh()

    def refresh(self) -> None:
        """Take in the bounds of symbols that were bound."""
        self.ranges = Ranges(self.scopes.bounds())
        self.simplifier = Simplifier(self.ranges)

    @abstractmethod
    def compute(self, expression: Expr) -> Operand:
        """Emit a simplified expression here."""

    def check_word(self, expression: Expr) -> Bounds:
        """The bounds of an expression that 32 bits hold, with or without sign."""
        bounds = self.ranges.of(expression)
        if not bounds.is_signed and not bounds.is_unsigned:
            raise ExpressionError(
                f"values {bounds} do not fit 32 bits",
                node=str(expression),
                limit=32,
                alternatives=("narrower bounds of its symbols",),
            )
        return bounds

    def is_uniform(self, expression: Expr) -> bool:
        """Whether all lanes have the same value."""
        operands = [self.scopes.operand(symbol) for symbol in expression.free_symbols]
        return all(registers(operand)[0].file == "s" for operand in operands)

    def value(self, expression: Expr) -> Operand:
        """The operand of a simplified expression, computed where nothing holds it yet."""
        if expression.is_Integer:
            return word(int(expression))
        if expression.is_Symbol:
            return self.scopes.operand(expression)
        depth = self.scopes.depth_of(expression)
        found = self.scopes.known(expression, depth)
        if enabled("cse"):
            outcome = "miss" if found is None else "hit"
            say("cse", f"{outcome}: {expression}", expression=str(expression), scope=depth, hit=found is not None)
        if found is None:
            with self.scopes.at(depth):
                found = self.compute(expression)
            self.scopes.remember(expression, depth, found)
            if enabled("emitter"):
                text = f"{expression} -> {found}"
                say("emitter", text, expression=str(expression), operand=str(found), scope=depth)
        return found

    def is_known(self, expression: Expr) -> bool:
        """Whether an operand holds an expression already."""
        return self.scopes.known(expression, self.scopes.depth_of(expression)) is not None

    def constant_register(self, value: int, in_vgpr: bool = False) -> Operand:
        """A register with a constant, set before all scopes but the program's."""
        key = (value & 0xFFFFFFFF, in_vgpr)
        found = self.scopes.known(key, 0)
        if found is None:
            with self.scopes.at(0):
                found = self.builder.v_mov_b32(value) if in_vgpr else self.builder.s_mov_b32(value)
            self.scopes.remember(key, 0, found)
        return found
