"""A kernel in Python while its functions run: what they do is recorded here, thread by thread, as ops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from optimizer.errors import StateError
from optimizer.kernels.tensix.ir import Attr, Op, Region, Value, attributes
from optimizer.kernels.tensix.types import Type


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
