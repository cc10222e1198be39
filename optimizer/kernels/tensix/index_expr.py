"""Index arithmetic: affine expressions of loop dimensions, with floordiv and mod by constants, and maps of them.

Spelled as MLIR's affine maps: `(d0, d1) -> (d0 * 2 + d1, d1 floordiv 4)`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import StateError

Kind = Literal["dim", "const", "add", "mul", "floordiv", "mod"]
_SIGNS = {"add": "+", "mul": "*", "floordiv": "floordiv", "mod": "mod"}
_OPERATORS = {"add": operator.add, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod}


@dataclass(frozen=True, slots=True)
class IndexExpr:
    """One expression. Build with `dim`, `const` and the operators; they simplify constants away."""

    kind: Kind
    value: int = 0
    """Number of the dimension, or the constant."""
    args: tuple[IndexExpr, ...] = ()

    def __add__(self, other: IndexExpr | int) -> IndexExpr:
        a, b = self, _expr(other)
        if a.kind == "const" and b.kind == "const":
            return const(a.value + b.value)
        if a.kind == "const":
            a, b = b, a
        if b.kind == "const":
            if b.value == 0:
                return a
            if a.kind == "add" and a.args[1].kind == "const":
                return a.args[0] + (a.args[1].value + b.value)
        return IndexExpr("add", 0, (a, b))

    def __mul__(self, factor: int) -> IndexExpr:
        if self.kind == "const":
            return const(self.value * factor)
        if factor in (0, 1):
            return const(0) if factor == 0 else self
        if self.kind == "mul":
            return self.args[0] * (self.args[1].value * factor)
        if self.kind == "add" and self.args[1].kind == "const":
            return self.args[0] * factor + self.args[1].value * factor
        return IndexExpr("mul", 0, (self, const(factor)))

    def __floordiv__(self, divisor: int) -> IndexExpr:
        if divisor < 1:
            raise StateError(f"index expressions divide by positive constants, got {divisor}")
        if self.kind == "const":
            return const(self.value // divisor)
        return self if divisor == 1 else IndexExpr("floordiv", 0, (self, const(divisor)))

    def __mod__(self, divisor: int) -> IndexExpr:
        if divisor < 1:
            raise StateError(f"index expressions take remainders of positive constants, got {divisor}")
        if self.kind == "const":
            return const(self.value % divisor)
        return const(0) if divisor == 1 else IndexExpr("mod", 0, (self, const(divisor)))

    @property
    def is_const(self) -> bool:
        return self.kind == "const"

    def evaluate(self, dims: Sequence[int]) -> int:
        """Value with these numbers for the dimensions."""
        value: int = self._value(dims)
        return value

    def over(self, dims: Sequence[NDArray[np.int64]], shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Values with these arrays of numbers for the dimensions, each of that shape."""
        return np.broadcast_to(self._value(dims), shape)

    def _value(self, dims: Sequence[Any]) -> Any:
        if not self.args:
            return dims[self.value] if self.kind == "dim" else self.value
        return _OPERATORS[self.kind](*(arg._value(dims) for arg in self.args))

    def substitute(self, dims: Sequence[IndexExpr]) -> IndexExpr:
        """The expression with other expressions for its dimensions."""
        if not self.args:
            return dims[self.value] if self.kind == "dim" else self
        first, second = (arg.substitute(dims) for arg in self.args)
        made: IndexExpr = _OPERATORS[self.kind](first, second if self.kind == "add" else second.value)
        return made

    def dims(self) -> frozenset[int]:
        """Dimensions that occur."""
        if self.kind == "dim":
            return frozenset((self.value,))
        return frozenset(d for arg in self.args for d in arg.dims())

    def text(self, names: Sequence[str] | None = None, divide: str = "floordiv", remainder: str = "mod") -> str:
        """`d0 * 2 + d1`; with other names for dimensions and operators, C++."""
        if self.kind == "dim":
            return f"d{self.value}" if names is None else names[self.value]
        if self.kind == "const":
            return str(self.value)
        sign = {"floordiv": divide, "mod": remainder}.get(self.kind, _SIGNS[self.kind])
        left, right = (arg.text(names, divide, remainder) for arg in self.args)
        if self.kind != "add" and self.args[0].args:
            left = f"({left})"
        return f"{left} {sign} {right}"

    def __str__(self) -> str:
        return self.text()


def dim(number: int) -> IndexExpr:
    """Dimension `number` of the surrounding map."""
    return IndexExpr("dim", number)


def const(value: int) -> IndexExpr:
    """A constant."""
    return IndexExpr("const", value)


def _expr(value: IndexExpr | int) -> IndexExpr:
    return const(value) if isinstance(value, int) else value


@dataclass(frozen=True, slots=True)
class IndexMap:
    """Dimensions to a tuple of expressions."""

    rank: int
    results: tuple[IndexExpr, ...]

    @staticmethod
    def identity(rank: int) -> IndexMap:
        return IndexMap(rank, tuple(dim(i) for i in range(rank)))

    def evaluate(self, dims: Sequence[int]) -> tuple[int, ...]:
        return tuple(e.evaluate(dims) for e in self.results)

    def __str__(self) -> str:
        dims = ", ".join(f"d{i}" for i in range(self.rank))
        return f"({dims}) -> ({', '.join(map(str, self.results))})"


def linear(index: Sequence[IndexExpr], shape: Sequence[int]) -> IndexExpr:
    """Row-major position of a tile in a block of `shape` tiles."""
    total = const(0)
    for expr, size in zip(index, shape, strict=True):
        total = total * size + expr
    return total
