"""Where values are computed, so that they are there wherever they are read.

A scope is a stretch of code that control enters at the top only: the program, the body of a loop, the code under a
branch. A symbol is bound in the scope that is open; an expression is computed in the innermost scope that binds one of
its symbols. If that is not the scope now open, its instructions go to the gap before the next inner one, which
dominates everything inside. What a scope computed is forgotten when it closes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from gfx942.builder import KernelBuilder
from gfx942.expr.bounds import Bounds, Expr
from optimizer.errors import StateError
from optimizer.kernels.amdgpu.ir import Item
from optimizer.kernels.amdgpu.operands import Operand


@dataclass
class Scope:
    """What is known while a scope is open."""

    gap: list[Item]
    """Place before the scope, in the scope around it."""
    symbols: dict[Expr, Operand] = field(default_factory=dict)
    bounds: dict[Expr, Bounds] = field(default_factory=dict)
    values: dict[Any, Operand] = field(default_factory=dict)
    """Operands by what they hold."""


class Scopes:
    """The open scopes, outermost first."""

    def __init__(self, builder: KernelBuilder) -> None:
        self._builder = builder
        self._open = [Scope([])]

    @contextmanager
    def scope(self) -> Iterator[None]:
        self._open.append(Scope(self._builder.gap()))
        try:
            yield
        finally:
            self._open.pop()

    @property
    def depth(self) -> int:
        """Depth of the innermost scope; the program's is 0."""
        return len(self._open) - 1

    def bind(self, symbol: Expr, operand: Operand, bounds: Bounds) -> None:
        """StateError if an open scope binds the symbol already."""
        if symbol in self.bounds():
            raise StateError(f"symbol '{symbol}' is bound already", node=str(symbol))
        self._open[-1].symbols[symbol] = operand
        self._open[-1].bounds[symbol] = bounds

    def bounds(self) -> Mapping[Expr, Bounds]:
        return {symbol: bounds for scope in self._open for symbol, bounds in scope.bounds.items()}

    def operand(self, symbol: Expr) -> Operand:
        return self._open[self.depth_of(symbol)].symbols[symbol]

    def depth_of(self, expression: Expr) -> int:
        """The innermost scope that binds one of the expression's symbols."""
        symbols = expression.free_symbols
        return max((n for n, scope in enumerate(self._open) if not symbols.isdisjoint(scope.symbols)), default=0)

    def at(self, depth: int) -> AbstractContextManager[None]:
        """Emit into that scope."""
        return nullcontext() if depth == self.depth else self._builder.inserting(self._open[depth + 1].gap)

    def known(self, key: Any, depth: int) -> Operand | None:
        return self._open[depth].values.get(key)

    def remember(self, key: Any, depth: int, operand: Operand) -> Operand:
        self._open[depth].values[key] = operand
        return operand
