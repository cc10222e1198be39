"""What the units ask of whoever hands them an expression: the operands of its parts, bounds, scopes, the program."""

from __future__ import annotations

from typing import Protocol

from optimizer.kernels.amdgpu.builder import KernelBuilder
from optimizer.kernels.amdgpu.expr.bounds import Bounds, Expr, Ranges
from optimizer.kernels.amdgpu.expr.scopes import Scopes
from optimizer.kernels.amdgpu.expr.simplify import Simplifier
from optimizer.kernels.amdgpu.operands import Operand


class Values(Protocol):
    """The values of a program. A unit computes an expression of others, which come from here.

    `emitter.ExpressionEmitter` is the one implementation; a unit below it needs no more of it than this.
    """

    builder: KernelBuilder
    scopes: Scopes
    ranges: Ranges
    simplifier: Simplifier

    def value(self, expression: Expr) -> Operand:
        """The operand of a simplified expression, computed where nothing holds it yet."""
        ...

    def is_known(self, expression: Expr) -> bool:
        """Whether an operand holds an expression already."""
        ...

    def is_uniform(self, expression: Expr) -> bool:
        """Whether all lanes have the same value."""
        ...

    def check_word(self, expression: Expr) -> Bounds:
        """The bounds of an expression. ExpressionError if 32 bits do not hold it."""
        ...

    def constant_register(self, value: int, in_vgpr: bool = False) -> Operand:
        """A register with a constant, set before all scopes but the program's."""
        ...
