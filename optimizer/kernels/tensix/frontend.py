"""Kernels written in Python: `@kernel`, circular buffers, block expressions.

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

The functions run once, and what they do is recorded. Shapes are in tiles. Numbers in Python expressions become scalar
ops; every op of `tile_ops` is a function here by its name (`exp(x)`, `where(c, a, b)`). `compute_region(body, x, y)`
says what stays in DST together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Any

from optimizer.errors import GraphError, StateError, UnknownNameError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.dialect import COMPUTE, DATA_MOVEMENT
from optimizer.kernels.tensix.expressions import Expression
from optimizer.kernels.tensix.grid import DEFAULT_DIMS
from optimizer.kernels.tensix.grid import grid_size as _grid_size
from optimizer.kernels.tensix.indices import Index, constant
from optimizer.kernels.tensix.ir import Attr, Op, Region, Value, attributes
from optimizer.kernels.tensix.program_spellings import settled
from optimizer.kernels.tensix.rounding import FORMAT_NUMBERS, widest
from optimizer.kernels.tensix.tensor_places import Tensor as Tensor
from optimizer.kernels.tensix.tensor_places import TensorSlice
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.types import BlockType, CircularBufferType, IndexType, TensorType, TransferType
from optimizer.kernels.tensix.verify import block_result_shape, check


@dataclass
class _Recorder:
    """The program under construction, and the thread that is being recorded."""

    grid: tuple[int, ...]
    config: dict[str, Attr]
    factors: tuple[tuple[int, int], ...] = ()
    """Rows and columns of tiles per core of each tensor, where the kernel says so."""
    tensors: list[Value] = field(default_factory=list)
    buffers: list[Op] = field(default_factory=list)
    ops: list[Op] | None = None
    left: str = ""
    """A loop that was left before its end."""
    count: int = 0

    def value(self, type_: Any) -> Value:
        self.count += 1
        return Value(str(self.count - 1), type_)

    def factors_of(self, tensor: Tensor) -> tuple[int, int]:
        """Tiles per core of a tensor. StateError if the kernel does not say them."""
        if not self.factors or tensor.value not in self.tensors:
            raise StateError("the kernel has no block_factors: tiles are given here")
        return self.factors[self.tensors.index(tensor.value)]

    def emit(self, op: Op) -> Op:
        if self.ops is None:
            raise StateError(f"{op.name} is recorded inside of a thread only")
        self.ops.append(op)
        return op


_recorder: ContextVar[_Recorder | None] = ContextVar("kernel", default=None)


def recording() -> _Recorder:
    """The kernel that is being recorded. StateError outside of one."""
    found = _recorder.get()
    if found is None:
        raise StateError("this is used inside of a function with @kernel only")
    return found


# -- tensors and circular buffers -----------------------------------------------------------------------
@dataclass(frozen=True)
class CircularBuffer:
    """A circular buffer; `wait`, `pop`, `reserve` and `push` are recorded."""

    value: Value

    def wait(self) -> Block:
        return self._block("ttl.cb_wait", "ttl.cb_pop")

    def reserve(self) -> Block:
        return self._block("ttl.cb_reserve", "ttl.cb_push")

    def pop(self) -> None:
        recording().emit(Op("ttl.cb_pop", (self.value,)))

    def push(self) -> None:
        recording().emit(Op("ttl.cb_push", (self.value,)))

    def _block(self, name: str, closing: str) -> Block:
        block = recording().value(self.value.typed(CircularBufferType).block)
        recording().emit(Op(name, (self.value,), (block,)))
        return Block(block, Op(closing, (self.value,)))


def make_circular_buffer_like(
    tensor: Tensor,
    shape: tuple[int, int] | None = None,
    buffer_factor: int = 2,
    *,
    buffer_index: int | None = None,
    page_size: int | None = None,
    core_ranges: Sequence[Sequence[int]] | None = None,
) -> CircularBuffer:
    """A circular buffer of `buffer_factor` blocks of `shape` tiles (default: the kernel's `block_factors`) with the
    tensor's element type. `buffer_index`: its number, by default the lowest free one; `page_size` and `core_ranges` as
    docs/tile-language.md says."""
    now = recording()
    rows, columns = shape or now.factors_of(tensor)
    cb = now.value(CircularBufferType((rows, columns), tensor.dtype, buffer_factor))
    attrs: dict[str, Attr] = {} if buffer_index is None else {"index": buffer_index}
    if page_size is not None:
        attrs["page_size"] = page_size
    if core_ranges is not None:
        attrs["core_ranges"] = tuple(map(tuple, core_ranges))
    now.buffers.append(Op("ttl.bind_cb", (), (cb,), attributes(attrs)))
    return CircularBuffer(cb)


# -- block expressions ----------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Block(Expression):
    """A block of tiles in a thread. One that is waited for or reserved is popped or pushed at the end of a `with`."""

    value: Value
    closing: Op | None = None

    def store(self, result: Block) -> None:
        """Materialise a result in this block, which was reserved."""
        recording().emit(Op("ttl.store", (result.value, self.value)))

    def accumulate(self, result: Block) -> None:
        """Sum up a result over the rounds of the loop around this; the block is reserved outside of the loop."""
        recording().emit(Op("ttl.store", (result.value, self.value), (), attributes({"accumulate": True})))

    def applied(self, name: str, *others: Block, **numbers: float) -> Block:
        attrs: dict[str, Any] = dict(numbers)
        return block_op(name, self, *others, **attrs)

    def filled(self, number: float) -> Block:
        block = self.value.typed(BlockType)
        return full(number, block.shape, block.dtype)

    def __enter__(self) -> Block:
        if self.closing is None:
            raise StateError("'with' takes a block that is waited for or reserved")
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if failure is None and self.closing is not None:
            recording().emit(self.closing)


def block_op(
    name: str,
    *operands: Block,
    result_dtype: DType | None = None,
    result_shape: tuple[int, int] | None = None,
    **attrs: float | bool,
) -> Block:
    """Any op of `tile_ops` on blocks. GraphError if the operands' shapes contradict each other.

    `result_dtype`: by default the widest element type of the operands. `result_shape`: by default what the operands
    cover together.
    """
    if name not in TILE_OPS:
        raise UnknownNameError("block op", name, TILE_OPS)
    types = [b.value.type for b in operands]
    blocks = [t for t in types if isinstance(t, BlockType)]
    shape = result_shape or block_result_shape(name, tuple(b.shape for b in blocks))
    if shape is None:
        raise GraphError(f"{name} does not take {', '.join(map(str, blocks))}", node=name)
    dtype = result_dtype or widest(b.dtype for b in blocks)
    result = recording().value(BlockType(shape, dtype))
    recording().emit(Op(f"ttl.{name}", tuple(b.value for b in operands), (result,), attributes(dict(attrs))))
    return Block(result)


def full(number: float, shape: tuple[int, int], dtype: DType = DType.BF16) -> Block:
    """A block of so many tiles with one number everywhere."""
    block = recording().value(BlockType((shape[0], shape[1]), dtype))
    recording().emit(Op("ttl.fill", (), (block,), attributes({"value": float(number)})))
    return Block(block)


def compute_region(
    body: Callable[..., Block | tuple[Block, ...]], *operands: Block, keep_in_dst: bool = True
) -> tuple[Block, ...]:
    """Block ops whose values between them stay in DST: what `body` makes of the operands.

    (y,) = compute_region(lambda a, b: exp(a) * b, x, other)
    """
    now = recording()
    outside, now.ops = now.ops, []
    if outside is None:
        raise StateError("a compute region is recorded inside of a thread only")
    args = tuple(now.value(b.value.type) for b in operands)
    made = body(*map(Block, args))
    yielded = tuple(b.value for b in (made if isinstance(made, tuple) else (made,)))
    ops = (*now.ops, Op("ttl.yield", yielded))
    now.ops = outside
    results = tuple(now.value(v.type) for v in yielded)
    attrs = attributes({"keep_in_dst": keep_in_dst})
    now.emit(Op("ttl.compute_region", tuple(b.value for b in operands), results, attrs, (Region(args, ops),)))
    return tuple(map(Block, results))


def typecast(x: Block, dtype: DType) -> Block:
    """The block in another element type."""
    source, target = (float(FORMAT_NUMBERS[t]) for t in (x.value.typed(BlockType).dtype, dtype))
    return block_op("typecast", x, result_dtype=dtype, source=source, target=target)


def __getattr__(name: str) -> Callable[..., Block]:
    """Every op of `tile_ops` as a function of this module."""
    if name not in TILE_OPS:
        raise AttributeError(name)
    return lambda *operands, **attrs: block_op(name, *operands, **attrs)


# -- data movement and the grid -------------------------------------------------------------------------
@dataclass(frozen=True)
class Transfer:
    """A copy under way."""

    value: Value

    def wait(self) -> None:
        recording().emit(Op("ttl.transfer_wait", (self.value,)))


@dataclass(frozen=True)
class PipeEnd:
    """A pipe as its sender or a receiver sees it, for `copy`."""

    value: Value


def copy(source: TensorSlice | Block | PipeEnd, target: Block | TensorSlice | PipeEnd) -> Transfer:
    """Bring a block from a tensor or a pipe, or take one there."""
    moved = recording().value(TransferType())
    if isinstance(source, TensorSlice) and isinstance(target, Block):
        source.check(target.value.typed(BlockType).shape)
        operands = (_tensor(source), _number(source.row), _number(source.column), target.value)
        recording().emit(Op("ttl.copy_in", operands, (moved,)))
    elif isinstance(source, Block) and isinstance(target, TensorSlice):
        target.check(source.value.typed(BlockType).shape)
        operands = (source.value, _tensor(target), _number(target.row), _number(target.column))
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


def _number(n: int | Value | Index) -> Value:
    if isinstance(n, Value):
        return n
    return n.value if isinstance(n, Index) else constant(n, recording()).value


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
    return TensorSlice(tensor, row, column, block_factors or recording().factors_of(tensor))


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
            recorder = _Recorder(tuple(grid), given, tuple((int(m), int(n)) for m, n in block_factors))
            args = [_argument(n, a, n in compile_time_args, recorder) for n, a in enumerate(arguments)]
            if block_factors and len(block_factors) != len(recorder.tensors):
                raise StateError(f"{len(block_factors)} block_factors for {len(recorder.tensors)} tensors")
            token = _recorder.set(recorder)
            try:
                threads = function(*args)
            finally:
                _recorder.reset(token)
            attrs = attributes({"sym_name": function.__name__, "grid": tuple(grid), **recorder.config})
            body = Region(tuple(recorder.tensors), (*recorder.buffers, *threads))
            program = settled(Op("ttl.program", (), (), attrs, (body,)))
            check(program)
            return program

        return KernelFunction(function, build)

    return decorate


def _argument(position: int, given: Any, is_constant: bool, recorder: _Recorder) -> Any:
    """What the kernel's function is called with: a tensor with its value, or a constant as it is."""
    if is_constant == isinstance(given, Tensor):
        due = "a constant, as compile_time_args says" if is_constant else "a tensor; compile_time_args names constants"
        raise StateError(f"argument {position} of a kernel is {type(given).__name__}, due is {due}")
    if is_constant:
        return given
    value = recorder.value(TensorType(given.shape, given.dtype))
    recorder.tensors.append(value)
    return Tensor(given.shape, given.dtype, value)
