"""Numbers that kernels in Python compute with: coordinates of cores, counters of loops, run-time arguments.

row = core_y * 4 + k          whole numbers and other indices; times, // and % with whole numbers
x == 0, y <= 3, k < n         conditions, for `when`
"""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.kernels.tensix.index_expr import IndexExpr, IndexMap, dim
from optimizer.kernels.tensix.ir import Op, Value, attributes
from optimizer.kernels.tensix.recording import Recorder
from optimizer.kernels.tensix.types import IndexType


@dataclass(frozen=True)
class Condition:
    """Two numbers in a relation (`verify.TESTS`)."""

    first: Value
    test: str
    second: Value


@dataclass(frozen=True, eq=False)
class Index:
    """A number that is known when the kernel runs."""

    value: Value
    recorder: Recorder

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, Index):
            return self._made(dim(0) + dim(1), other)
        return self._made(dim(0) + other)

    __radd__ = __add__

    def __mul__(self, factor: int) -> Index:
        return self._made(dim(0) * factor)

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> Index:
        return self._made(dim(0) // divisor)

    def __mod__(self, divisor: int) -> Index:
        return self._made(dim(0) % divisor)

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        assert isinstance(other, Index | int)
        return Condition(self.value, "==", self.other(other).value)

    def __le__(self, other: Index | int) -> Condition:
        return Condition(self.value, "<=", self.other(other).value)

    def __ge__(self, other: Index | int) -> Condition:
        return Condition(self.other(other).value, "<=", self.value)

    def __lt__(self, other: Index | int) -> Condition:
        return self + 1 <= other

    def __gt__(self, other: Index | int) -> Condition:
        return self.other(other) + 1 <= self

    __hash__ = None  # type: ignore[assignment]

    def other(self, number: Index | int) -> Index:
        """A number beside this one."""
        return number if isinstance(number, Index) else constant(number, self.recorder)

    def _made(self, expr: IndexExpr, *others: Index) -> Index:
        operands = (self.value, *(o.value for o in others))
        result = self.recorder.value(IndexType())
        index_map = IndexMap(len(operands), (expr,))
        self.recorder.emit(Op("ttl.index", operands, (result,), attributes({"map": index_map})))
        return Index(result, self.recorder)


def constant(number: int, recorder: Recorder) -> Index:
    """A number that is known already."""
    result = recorder.value(IndexType())
    recorder.emit(Op("ttl.constant", (), (result,), attributes({"value": number})))
    return Index(result, recorder)
