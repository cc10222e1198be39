"""Kernels written in Python: `@kernel`, its threads, what they move, and where they are.

    @kernel(grid=(1, 1))
    def add(lhs, rhs, out):
        lhs_cb = make_circular_buffer_like(lhs, shape=(2, 2), buffer_factor=2)
        ...
        @compute()
        def math():
            l, r, o = lhs_cb.wait(), rhs_cb.wait(), out_cb.reserve()
            o.store(l + r)
            lhs_cb.pop(); rhs_cb.pop(); out_cb.push()

        @datamovement()
        def read():
            block = lhs_cb.reserve()
            copy(lhs[0, 0], block).wait()
            lhs_cb.push()
            ...
        return Program(math, read, write)(lhs, rhs, out)

    program = add(Tensor((2, 2)), Tensor((2, 2)), Tensor((2, 2)))      -> the `ttl.program` op

The functions run once, and what they do is recorded (`recording.py`). Circular buffers and blocks are those of
`blocks.py`, loops, semaphores and pipes those of `dataflow.py`; `ttl` has all of them by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Any

from optimizer.errors import StateError
from optimizer.kernels.tensix.dialect import COMPUTE, DATA_MOVEMENT
from optimizer.kernels.tensix.grid import DEFAULT_DIMS
from optimizer.kernels.tensix.grid import grid_size as _grid_size
from optimizer.kernels.tensix.ir import Attr, Op, Region, Value, attributes
from optimizer.kernels.tensix.source.spellings import settled
from optimizer.kernels.tensix.ttl.blocks import Block, Tensor, TensorSlice
from optimizer.kernels.tensix.ttl.dataflow import PipeEnd
from optimizer.kernels.tensix.ttl.recording import Index, Recorder, recorded, recording, value_of
from optimizer.kernels.tensix.types import BlockType, IndexType, TensorType, TransferType
from optimizer.kernels.tensix.verify import check


# -- data movement and the grid -------------------------------------------------------------------------
@dataclass(frozen=True)
class Transfer:
    """A copy under way."""

    value: Value

    def wait(self) -> None:
        recording().emit(Op("ttl.transfer_wait", (self.value,)))


def copy(source: TensorSlice | Block | PipeEnd, target: Block | TensorSlice | PipeEnd) -> Transfer:
    """Bring a block from a tensor or a pipe, or take one there."""
    moved = recording().value(TransferType())
    if isinstance(source, TensorSlice) and isinstance(target, Block):
        source.check(target.value.typed(BlockType).shape)
        operands = (_tensor(source), value_of(source.row), value_of(source.column), target.value)
        recording().emit(Op("ttl.copy_in", operands, (moved,)))
    elif isinstance(source, Block) and isinstance(target, TensorSlice):
        target.check(source.value.typed(BlockType).shape)
        operands = (source.value, _tensor(target), value_of(target.row), value_of(target.column))
        recording().emit(Op("ttl.copy_out", operands, (moved,)))
    elif isinstance(source, Block) and isinstance(target, PipeEnd):
        recording().emit(Op("ttl.send", (source.value, target.value), (moved,)))
    elif isinstance(source, PipeEnd) and isinstance(target, Block):
        recording().emit(Op("ttl.receive", (source.value, target.value), (moved,)))
    else:
        raise StateError("copy takes a place in a tensor, or a pipe, and a block, in either order")
    return Transfer(moved)


def _tensor(place: TensorSlice) -> Value:
    if place.tensor.value is None:
        raise StateError("only a kernel's own arguments can be copied from and to")
    return place.tensor.value


def core(dims: int = DEFAULT_DIMS) -> tuple[Index, ...]:
    """Coordinates of the core that runs this."""
    now = recording()
    results = tuple(now.value(IndexType()) for _ in range(dims))
    now.emit(Op("ttl.core", (), results, attributes({"dims": dims})))
    return tuple(Index(v, now) for v in results)


def grid_size(dims: int = DEFAULT_DIMS) -> tuple[int, ...]:
    """Sizes of the kernel's grid."""
    return _grid_size(recording().grid, dims)


def core_linear() -> Value:
    """Number of the core that runs this, row by row."""
    result = recording().value(IndexType())
    recording().emit(Op("ttl.core_linear", (), (result,)))
    return result


def grid_slice(tensor: Tensor, block_factors: tuple[int, int] | None = None) -> TensorSlice:
    """This core's part of a tensor, by rows and columns of tiles per core (default: the kernel's `block_factors`)."""
    row, column = (recording().value(IndexType()) for _ in range(2))
    attrs = {} if block_factors is None else {"block_factors": block_factors}
    recording().emit(
        Op("ttl.grid_slice", (_tensor(TensorSlice(tensor, row, column)),), (row, column), attributes(attrs))
    )
    return TensorSlice(tensor, row, column, block_factors or recording().factors_of(tensor.value))


# -- threads and programs ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class Thread:
    """A function that becomes a thread."""

    function: Callable[[], None]
    kind: str


def compute() -> Callable[[Callable[[], None]], Thread]:
    """Marks the function of a compute thread."""
    return lambda function: Thread(function, COMPUTE)


def datamovement() -> Callable[[Callable[[], None]], Thread]:
    """Marks the function of a data movement thread."""
    return lambda function: Thread(function, DATA_MOVEMENT)


@dataclass(frozen=True)
class Program:
    """Threads of a kernel: one that computes, then the reader, then the writer."""

    threads: tuple[Thread, ...]

    def __init__(self, *threads: Thread) -> None:
        object.__setattr__(self, "threads", threads)

    def __call__(self, *tensors: Tensor) -> tuple[Op, ...]:
        """The recorded threads. StateError if the tensors are not the kernel's, in their order."""
        now = recording()
        if [t.value for t in tensors] != now.tensors:
            raise StateError("a program is called with the kernel's own tensors, in their order")
        kinds = iter(("reader", "writer"))
        found = []
        for thread in self.threads:
            now.ops = []
            thread.function()
            if now.left:
                raise StateError(
                    f"a loop of @{thread.function.__name__} is left by 'break' or 'return', which kernels lack"
                )
            attrs: dict[str, Attr] = {"sym_name": thread.function.__name__}
            if thread.kind == DATA_MOVEMENT:
                processor = next(kinds, None)
                if processor is None:
                    raise StateError("a program has at most two data movement threads")
                attrs["processor"] = processor
            found.append(Op(thread.kind, (), (), attributes(attrs), (Region((), tuple(now.ops)),)))
            now.ops = None
        return tuple(found)


@dataclass(frozen=True)
class KernelFunction:
    """What `@kernel` makes of a function: called with tensors and constants, it gives the `ttl.program`.

    Parameters with a default need not be given.
    """

    function: Callable[..., tuple[Op, ...]]
    build: Callable[..., Op]

    def __call__(self, *arguments: Any) -> Op:
        return self.build(*arguments, *self._defaults[len(arguments) :])

    @property
    def has_defaults(self) -> bool:
        """Whether it can be called without arguments."""
        return Parameter.empty not in self._defaults

    @property
    def _defaults(self) -> tuple[Any, ...]:
        parameters = signature(self.function).parameters.values()
        return tuple(p.default for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)


def kernel(
    grid: Sequence[int] = (1, 1),
    *,
    block_factors: Sequence[Sequence[int]] = (),
    compile_time_args: Sequence[int] = (),
    compute_config: Mapping[str, bool | str] = MappingProxyType({}),
    **config: bool | str,
) -> Callable[[Callable[..., tuple[Op, ...]]], KernelFunction]:
    """A function of tensors that returns `Program(...)(...)` becomes one that returns the verified `ttl.program`.

    `block_factors`: rows and columns of tiles per core, of every tensor. `compile_time_args`: positions of arguments
    that are no tensors but numbers or texts, which the kernel is made with. `compute_config`, or the same by name:
    `fp32_dest_acc_en`, `dst_full_sync_en`, `math_fidelity`, `math_approx_mode`.
    """
    given: dict[str, Attr] = {**compute_config, **config}
    if block_factors:
        given["block_factors"] = tuple(map(tuple, block_factors))

    def decorate(function: Callable[..., tuple[Op, ...]]) -> KernelFunction:
        def build(*arguments: Any) -> Op:
            recorder = Recorder(tuple(grid), given, tuple((int(m), int(n)) for m, n in block_factors))
            args = [_argument(n, a, n in compile_time_args, recorder) for n, a in enumerate(arguments)]
            if block_factors and len(block_factors) != len(recorder.tensors):
                raise StateError(f"{len(block_factors)} block_factors for {len(recorder.tensors)} tensors")
            with recorded(recorder):
                threads = function(*args)
            attrs = attributes({"sym_name": function.__name__, "grid": tuple(grid), **recorder.config})
            body = Region(tuple(recorder.tensors), (*recorder.declarations, *threads))
            program = settled(Op("ttl.program", (), (), attrs, (body,)))
            check(program)
            return program

        return KernelFunction(function, build)

    return decorate


def _argument(position: int, given: Any, is_constant: bool, recorder: Recorder) -> Any:
    """What the kernel's function is called with: a tensor with its value, or a constant as it is."""
    if is_constant == isinstance(given, Tensor):
        due = "a constant, as compile_time_args says" if is_constant else "a tensor; compile_time_args names constants"
        raise StateError(f"argument {position} of a kernel is {type(given).__name__}, due is {due}")
    if is_constant:
        return given
    value = recorder.value(TensorType(given.shape, given.dtype))
    recorder.tensors.append(value)
    return Tensor(given.shape, given.dtype, value)
