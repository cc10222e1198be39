"""A kernel in Python while its functions run: what they do is recorded here, thread by thread, as ops.

Numbers that it computes with (coordinates of cores, counters of loops, run-time arguments) are recorded before any of
them is known: they have no truth value, and no `!=`.

row = core_y * 4 + k - 1      whole numbers and other indices; times, // and % with whole numbers
x == 0, y <= 3, k < n         conditions, for `when`
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NoReturn

from optimizer.errors import StateError
from optimizer.kernels.tensix.index_expr import IndexExpr, IndexMap, dim
from optimizer.kernels.tensix.ir import Attr, Op, Region, Value, attributes
from optimizer.kernels.tensix.types import IndexType, Type


@dataclass
class Recorder:
    """The program under construction, and the thread that is being recorded."""

    grid: tuple[int, ...]
    config: dict[str, Attr]
    factors: tuple[tuple[int, int], ...] = ()
    """Rows and columns of tiles per core of each tensor, where the kernel says so."""
    tensors: list[Value] = field(default_factory=list)
    declarations: list[Op] = field(default_factory=list)
    """Ops beside the threads: circular buffers, semaphores, pipes."""
    ops: list[Op] | None = None
    left: str = ""
    """A loop that was left before its end."""
    count: int = 0

    def value(self, type_: Type) -> Value:
        """A value with a fresh name."""
        self.count += 1
        return Value(str(self.count - 1), type_)

    def factors_of(self, tensor: Value | None) -> tuple[int, int]:
        """Tiles per core of a tensor. StateError if the kernel does not say them."""
        if not self.factors or tensor not in self.tensors:
            raise StateError("the kernel has no block_factors: tiles are given here")
        return self.factors[self.tensors.index(tensor)]

    def emit(self, op: Op) -> Op:
        """The op, recorded in the thread. StateError outside of one."""
        if self.ops is None:
            raise StateError(f"{op.name} is recorded inside of a thread only")
        self.ops.append(op)
        return op

    def declared(self, name: str, type_: Type, attrs: dict[str, Attr], operands: tuple[Value, ...] = ()) -> Value:
        """The result of an op beside the threads."""
        result = self.value(type_)
        self.declarations.append(Op(name, operands, (result,), attributes(attrs)))
        return result

    @contextmanager
    def inside(self, name: str) -> Iterator[list[Op]]:
        """What is recorded in here is an op's region, not its thread's. StateError outside of a thread."""
        outside, found = self.ops, list[Op]()
        if outside is None:
            raise StateError(f"{name} is recorded inside of a thread only")
        self.ops = found
        try:
            yield found
        finally:
            self.ops = outside


_recorder: ContextVar[Recorder | None] = ContextVar("kernel", default=None)


def recording() -> Recorder:
    """The kernel that is being recorded. StateError outside of one."""
    found = _recorder.get()
    if found is None:
        raise StateError("this is used inside of a function with @kernel only")
    return found


@contextmanager
def recorded(recorder: Recorder) -> Iterator[None]:
    """A kernel is recorded in here."""
    token = _recorder.set(recorder)
    try:
        yield
    finally:
        _recorder.reset(token)


@contextmanager
def region(name: str, operands: tuple[Value, ...], attrs: dict[str, Attr], args: tuple[Value, ...]) -> Iterator[None]:
    """Ops recorded in here become the region of an op."""
    now = recording()
    with now.inside(name) as ops:
        try:
            yield
        except GeneratorExit:
            now.left = name
            raise
    now.emit(Op(name, operands, (), attributes(attrs), (Region(args, tuple(ops)),)))


# -- numbers ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Condition:
    """Two numbers in a relation (`verify.TESTS`)."""

    first: Value
    test: str
    second: Value

    def __bool__(self) -> NoReturn:
        raise StateError(
            "a condition holds or not when the kernel runs, once it is made: `with when(x == 0):` instead of if, and, "
            "or, not and !="
        )


@dataclass(frozen=True, eq=False)
class Index:
    """A number that is known when the kernel runs."""

    value: Value
    recorder: Recorder

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, Index):
            return self._made(dim(0) + dim(1), other)
        return self._made(dim(0) + _whole("+", other))

    __radd__ = __add__

    def __sub__(self, other: Index | int) -> Index:
        return self + other * -1 if isinstance(other, Index) else self + -_whole("-", other)

    def __rsub__(self, other: int) -> Index:
        return self * -1 + _whole("-", other)

    def __mul__(self, factor: int) -> Index:
        return self._made(dim(0) * _whole("*", factor))

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> Index:
        return self._made(dim(0) // _whole("//", divisor))

    def __mod__(self, divisor: int) -> Index:
        return self._made(dim(0) % _whole("%", divisor))

    def __eq__(self, other: Index | int) -> Condition:  # type: ignore[override]
        return Condition(self.value, "==", self.other(other).value)

    def __ne__(self, other: object) -> NoReturn:
        raise StateError("there is no condition '!=' of numbers that are known when the kernel runs")

    def __bool__(self) -> NoReturn:
        raise StateError("a number that is known when the kernel runs has no truth value: `with when(x == 0):`")

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
        return number if isinstance(number, Index) else constant(_whole("a condition", number), self.recorder)

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


def value_of(number: int | Value | Index) -> Value:
    """The value of a number, recorded as a constant if it is known already."""
    if isinstance(number, Value):
        return number
    return number.value if isinstance(number, Index) else constant(number, recording()).value


def _whole(use: str, number: object) -> int:
    """A whole number beside an index; StateError for anything else."""
    if not isinstance(number, int) or isinstance(number, bool):
        told = "another index" if isinstance(number, Index) else repr(number)
        raise StateError(f"{use} of an index takes whole numbers that are known when the kernel is made, not {told}")
    return number
