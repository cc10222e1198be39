"""Kernels in Python that run on several cores and over any number of blocks: loops, conditions, semaphores, pipes.

    blocks = runtime_arg("blocks")
    for k in loop(blocks):                       # what is inside is recorded once
        copy(a[0, k * 2], a_cb.reserve()).wait()
        a_cb.push()

    net = PipeNet([Pipe(src=(0, y), dst=(slice(1, 4), y)) for y in range(4)])
    def send(pipe):
        block = a_cb.reserve()
        copy(a[0, 0], block).wait()
        copy(block, pipe).wait()
        a_cb.push()
    net.if_src(send)

docs/tensix-dataflow.md describes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from optimizer.errors import StateError
from optimizer.kernels.tensix.dialect import IF_DST, IF_SRC, PIPE, PIPE_NET, SEMAPHORE
from optimizer.kernels.tensix.grid import HARDWARE_RANK, place
from optimizer.kernels.tensix.ir import Attr, Op, Value, attributes
from optimizer.kernels.tensix.ttl.recording import Condition, Index, recording, region, value_of
from optimizer.kernels.tensix.types import IndexType, PipeNetType, PipeType, SemaphoreType

Coordinates = Sequence[int]
Ranges = Sequence[int | slice]


# -- loops and conditions ---------------------------------------------------------------------------------
def runtime_arg(name: str) -> Index:
    """A number that each core is given when the kernel is launched."""
    now = recording()
    result = now.value(IndexType())
    now.emit(Op("ttl.runtime_arg", (), (result,), attributes({"name": name})))
    return Index(result, now)


def loop(upper: Index | int, lower: int = 0, step: int = 1) -> Iterator[Index]:
    """Rounds of a loop of the kernel, for `for`: the body runs once here, to be recorded.

    The thread ends in StateError if the `for` statement is left before its end.
    """
    now = recording()
    counter = now.value(IndexType())
    attrs: dict[str, Attr] = {"lower": lower, "step": step}
    if not isinstance(upper, Index):
        attrs["upper"] = upper
    operands = (upper.value,) if isinstance(upper, Index) else ()
    with region("ttl.for", operands, attrs, (counter,)):
        yield Index(counter, now)


@contextmanager
def when(*conditions: Condition) -> Iterator[None]:
    """What is inside runs where all conditions hold: `with when(x == 0, y < 4):`."""
    pairs = tuple(v for c in conditions for v in (c.first, c.second))
    with region("ttl.if", pairs, {"tests": tuple(c.test for c in conditions)}, ()):
        yield


# -- semaphores -------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Semaphore:
    """A number in the L1 of every core, this core's own unless another is asked for."""

    value: Value

    def wait_eq(self, number: Index | int) -> None:
        """Until it is this number."""
        _on(self.value, "wait", number)

    def wait_min(self, number: Index | int) -> None:
        """Until it is this number or more."""
        _on(self.value, "wait_min", number)

    def set(self, number: Index | int) -> None:
        _on(self.value, "set", number)

    def get_remote(self, core: Sequence[Index | int]) -> RemoteSemaphore:
        """That of another core. StateError for indices in a grid of more than two dimensions."""
        if all(isinstance(n, int) for n in core):
            return RemoteSemaphore(self.value, place(recording().grid, [n for n in core if isinstance(n, int)]))
        if len(core) != HARDWARE_RANK:
            raise StateError(f"a core that is found at run time has {HARDWARE_RANK} coordinates, not {len(core)}")
        return RemoteSemaphore(self.value, tuple(core))

    def get_remote_multicast(self, core_range: Ranges | None = None) -> RemoteSemaphores:
        """Those of a range of cores, by default of all."""
        return RemoteSemaphores(self.value, _ranges(core_range or [slice(0, n) for n in recording().grid]))


@dataclass(frozen=True)
class RemoteSemaphore:
    """A semaphore of one core."""

    value: Value
    core: tuple[Index | int, ...]

    def inc(self, number: Index | int) -> None:
        """Add to it."""
        _on(self.value, "inc_remote", number, *self.core)

    def set(self, number: Index | int) -> None:
        """This core's own is set with it."""
        _on(self.value, "set_remote", number, *self.core)


@dataclass(frozen=True)
class RemoteSemaphores:
    """A semaphore of several cores, which can be set only."""

    value: Value
    ranges: Attr

    def set(self, number: Index | int) -> None:
        """This core's own is set with them."""
        _on(self.value, "set_multicast", number, core_range=self.ranges)


def create_semaphore(initial_value: int = 0) -> Semaphore:
    """A semaphore that has this value on every core when the kernel begins."""
    return Semaphore(recording().declared(SEMAPHORE, SemaphoreType(), {"initial": initial_value}))


def _on(semaphore: Value, what: str, *numbers: Index | int, **attrs: Attr) -> None:
    now = recording()
    now.emit(Op(f"ttl.semaphore_{what}", (semaphore, *map(value_of, numbers)), (), attributes(attrs)))


# -- pipes ------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class PipeEnd:
    """A pipe as its sender or a receiver sees it, for `copy`."""

    value: Value


class Pipe:
    """A way from one core to one core (`dst_core`) or to all of a range (`dst_core_range`); `dst` takes either.

    Without `src_receives` the range may lie around the source, which keeps what it sends and receives nothing.
    """

    def __init__(
        self,
        src: Coordinates | None = None,
        dst: Ranges | None = None,
        *,
        src_core: Coordinates | None = None,
        dst_core: Coordinates | None = None,
        dst_core_range: Ranges | None = None,
        src_receives: bool = True,
    ) -> None:
        source = src_core if src is None else src
        target = next((t for t in (dst, dst_core, dst_core_range) if t is not None), None)
        if source is None or target is None:
            raise StateError("a pipe has a core that it comes from (src) and one or more that it goes to (dst)")
        attrs: dict[str, Attr] = {"src_core": tuple(source)}
        if all(isinstance(n, int) for n in target):
            attrs["dst_core"] = tuple(n for n in target if isinstance(n, int))
        else:
            attrs["dst_core_range"] = _ranges(target)
        if not src_receives:
            attrs["src_receives"] = False
        self.value = recording().declared(PIPE, PipeType(), attrs)


class PipeNet:
    """Pipes that blocks of one kind go through, from the one place that sends to the one that receives."""

    def __init__(self, pipes: Sequence[Pipe]) -> None:
        self.value = recording().declared(PIPE_NET, PipeNetType(), {}, tuple(p.value for p in pipes))

    def if_src(self, body: Callable[[PipeEnd], None]) -> None:
        """What a core does for every pipe that it sends through."""
        self._role(IF_SRC, body)

    def if_dst(self, body: Callable[[PipeEnd], None]) -> None:
        """What a core does for every pipe that it receives from."""
        self._role(IF_DST, body)

    def _role(self, name: str, body: Callable[[PipeEnd], None]) -> None:
        pipe = recording().value(PipeType())
        with region(name, (self.value,), {}, (pipe,)):
            body(PipeEnd(pipe))


def _ranges(parts: Ranges) -> Attr:
    """[first, end] per dimension. StateError for steps and open ends."""
    found: list[tuple[int, int]] = []
    for part in parts:
        if isinstance(part, slice):
            if part.stop is None or part.step not in (None, 1):
                raise StateError(f"a range of cores has an end and no step, got {part}")
            found.append((part.start or 0, part.stop))
        else:
            found.append((part, part + 1))
    return tuple(found)
